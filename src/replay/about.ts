/**
 * What was run, and what may a reader not conclude?
 *
 * In words, for the page and the terminal: figures without them are passed on and misread.
 */
import type { WorkloadSummary } from '../workload.js'
import type { EndpointOptions } from './endpoint/options.js'
import { show } from './figures.js'
import { cacheTokens, loads, type ReplayOptions } from './plan.js'

interface About {
  /** Name and text. */
  facts: readonly (readonly [string, string])[]
  /** What it does not say. */
  limits: readonly string[]
}

const count = (n: number) => n.toLocaleString('en-US')

function traced(summary: WorkloadSummary): readonly [string, string] {
  const left = Object.entries(summary.skipped).map(([kind, n]) => `${count(n)} ${kind}`)
  const text =
    `${count(summary.turns)} turns of ${count(summary.sessions)} sessions, ` +
    `${show(summary.promptTokens, 'tokens')} prompt and ` +
    `${show(summary.outputTokens, 'tokens')} output tokens`
  return ['trace', left.length === 0 ? text : `${text}; records left out: ${left.join(', ')}`]
}

const POPULATION = [
  'Sessions of fewer than three turns, those that others spawned, and those with a prompt of 60 % of a worker’s cache or more are left out; of the others the first 60 turns count, and pauses are cut at two minutes.',
  'There are as many sessions as the pressure says, however many the trace has: copies of a session share what the trace’s own sessions share, and nothing else.',
]

/** What policies believe of caches. */
function eventsOf({ events }: ReplayOptions): string {
  if (events === undefined) return 'none: policies believe their own decisions'
  const { lagMs, loss, recovery } = events
  const again = recovery === 'never' ? 'for good' : 'until the engine has told it again'
  const lost = loss === 0 ? 'none is lost' : `${show(loss, 'share')} are lost, ${again}`
  return `engines tell what they store and remove, ${lagMs} ms later; ${lost}`
}

/** A simulated fleet. */
function aboutFleet(summary: WorkloadSummary, options: ReplayOptions): About {
  const { engine, seeds, warmUpMs, measureMs } = options
  const isClosed = loads(options, summary).some((pressure) => pressure !== undefined)
  const closed =
    'a constant number of live sessions, each turn after the one before it and its pause; measured ' +
    `for ${measureMs / 60_000} min after ${warmUpMs / 60_000} min. Pressure: mean prompt of all live ` +
    'sessions over the fleet’s caches; above 1 they do not fit'
  return {
    facts: [
      traced(summary),
      [
        'engines',
        `${engine}, ${count(cacheTokens(options))} tokens of cache each; a model on a virtual clock`,
      ],
      ['events', eventsOf(options)],
      ['load', isClosed ? closed : 'every turn once, when the trace says'],
      [
        'seeds',
        seeds === 1 ? 'one: no ranges are shown' : `${seeds}; bars show the range over them`,
      ],
    ],
    limits: [
      'Engines are modelled: times are those of a published timing model, not of a machine. Compare policies with each other.',
      engine === 'h100-class'
        ? 'This model keeps a prefix of each session and shares none between sessions.'
        : 'Tokens that the trace gives no block for, and answers, are shared with nobody.',
      ...(isClosed ? POPULATION : []),
      'Where contexts fit the caches, or prompts repeat little, policies differ little, and holding turns back wins nothing.',
    ],
  }
}

/** Real endpoints. */
function aboutEndpoints(summary: WorkloadSummary, options: EndpointOptions): About {
  const { urls, loop, speed, concurrency } = options
  const paces = {
    trace: 'turns come when the trace says, or after those that they wait for',
    closed: 'every session begins at once, and each turn comes after the one before it',
    open: 'turns come at the times of the trace, whatever becomes of the others',
  }
  return {
    facts: [
      traced(summary),
      ['endpoints', urls.join(', ')],
      [
        'load',
        `${paces[loop]}; pauses pass ${speed} times as fast as in the trace, at most ${count(concurrency)} requests at once`,
      ],
      ['times', 'of the wall, as the clients saw them, from the request on'],
    ],
    limits: [
      'Content is made up so that equal blocks are equal text: the sharing is that of the trace, what is answered means nothing.',
      'A real engine decides itself how long an answer is, up to the length in the trace, and whether it calls tools.',
      'Holds, placements, pre-emptions and what a session would take alone are not seen from outside.',
      'Endpoints were driven one after the other, each with text of its own seed.',
    ],
  }
}

export { type About, aboutEndpoints, aboutFleet }
