/**
 * What is a promise worth that rests on what engines tell, and what does delay or loss of it cost?
 *
 * One turn at a time in small caches: nothing but the events says what is there, so a promise can be held
 * against the engine token for token. Then the conversation trace, where turns overlap.
 */
import { built, publicTrace, within } from '../shared.mjs'

const SEED = 1
const LOSS = 0.05
const FEEDS = {
  exact: { lagMs: 0, loss: 0 },
  late: { lagMs: 1000, loss: 0 },
  replay: { lagMs: 20, loss: LOSS, recovery: 'replay' },
  never: { lagMs: 20, loss: LOSS, recovery: 'never' },
}
const IN_WORDS = {
  exact: 'whole and at once',
  late: 'a second late',
  replay: '5 % of them lost and told again',
  never: '5 % of them lost for good',
}
/** Sessions an hour apart, in caches that hold about two of them. */
const LONELY = { shape: { sessions: 200, turns: 6, arrivalsMs: 3_600_000 }, cacheTokens: 30_000 }

async function run(workload, cacheTokens, events) {
  const text = await workload.simulate({
    label: 'kv',
    policy: { core: { policy: 'none' } },
    workers: 4,
    engine: 'dynamo-poly',
    cacheTokens,
    seed: SEED,
    ...(events && { events }),
  })
  return JSON.parse(text)
}

export async function eventClaims(context) {
  const { Workload } = built('workload.js')
  await oneAtATime(Workload.generate(LONELY.shape, SEED), context)
  const path = publicTrace('mooncake/conversation_trace.jsonl.gz')
  if (path === undefined)
    return context.skip('events on the Mooncake trace', 'the trace is not here')
  await overlapping(await Workload.read({ paths: [path] }), context)
}

async function oneAtATime(workload, { claim }) {
  for (const feed of ['exact', 'late', 'replay', 'never']) {
    const { promises } = await run(workload, LONELY.cacheTokens, FEEDS[feed])
    const isWhole = FEEDS[feed].loss === 0
    claim({
      text: `one turn at a time, events ${IN_WORDS[feed]}: ${isWhole ? 'tokens promised and not there, or there and not promised' : 'promises broken that no loss explains'}, over ${promises.turns.toLocaleString('en-US')} turns`,
      seed: SEED,
      row: within({
        name: `simulator.events.one_at_a_time.${feed}.unexplained`,
        value: isWhole
          ? promises.missing_tokens + promises.unforeseen_tokens
          : promises.broken_exact,
        unit: isWhole ? 'tokens' : 'turns',
        goal: '0',
        most: 0,
      }),
    })
  }
}

async function overlapping(workload, { claim }) {
  const believed = await run(workload, 1 << 20, undefined)
  for (const [feed, events] of Object.entries(FEEDS)) {
    const { work } = await run(workload, 1 << 20, events)
    claim({
      text: `kv on the Mooncake trace, 4 workers, events ${IN_WORDS[feed]}: hit rate beside that of its own predictions`,
      seed: SEED,
      row: {
        name: `simulator.events.mooncake.${feed}.hit`,
        value: work.hit_rate,
        unit: 'share',
        peer: 'kv without events',
        ratio: work.hit_rate / believed.work.hit_rate,
      },
    })
  }
}
