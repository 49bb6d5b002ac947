/**
 * What is it worth to learn how long each worker takes?
 *
 * Fleets of which some workers compute at another speed, in front of the score without options, with and
 * without `pace`, and of the published weights. Where all are equal both must decide alike.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../../scripts/build.mjs'
import { built, publicTrace } from '../shared.mjs'

const SEED = 1
const THIRD = 1 / 3
const SMALL = 1 << 18
const LARGE = 1 << 20

/** The same workload with the published weights, without and with learning. */
async function threeWays(workload, fleet) {
  const { DEFAULT_SCORE } = built('index.js')
  const run = async (score) => {
    const policy = { core: { policy: 'none' } }
    const scenario = { label: 'score', policy, score, seed: SEED, ...fleet }
    return JSON.parse(await workload.simulate(scenario))
  }
  const [published, off, on] = [{}, { ...DEFAULT_SCORE, pace: 0 }, DEFAULT_SCORE].map(run)
  return { published: await published, off: await off, on: await on }
}

/** A row for each figure: `goal` is the most that it may be of what it is without, and absent if none is set. */
function compare({ claim }, { published, off, on }, { name, text, goals }) {
  for (const [figure, { of, words, unit, goal }] of Object.entries(goals)) {
    const [value, without, theirs] = [on, off, published].map(of)
    const ratio = value / without
    const round = (number) => (number >= 100 ? Math.round(number) : number.toFixed(3))
    claim({
      text: `${text}: ${words}`,
      seed: SEED,
      row: {
        name: `score.pace.${name}.${figure}`,
        value,
        unit,
        peer: `without ${round(without)}, the published weights ${round(theirs)}`,
        ratio,
        ...(goal === undefined ? {} : { goal: `at most ${goal} x`, holds: ratio <= goal }),
      },
    })
  }
}

const first = (key, words, goal) => ({
  of: (report) => report.latency.ttft[key],
  words: `time to first token, ${words}`,
  unit: 'ms',
  goal,
})
const whole = (goal) => ({
  of: (report) => report.latency.e2e.p95_ms,
  words: 'whole answers, p95',
  unit: 'ms',
  goal,
})
const hit = { of: (report) => report.work.hit_rate, words: 'hit', unit: 'share' }
const output = {
  of: (report) => report.work.output_tokens_per_second,
  words: 'output',
  unit: 'tokens/s',
}

async function mooncake(context) {
  const path = publicTrace('mooncake/conversation_trace.jsonl.gz')
  if (path === undefined)
    return context.skip('learnt times on the Mooncake trace', 'it is not here')
  const workload = await built('workload.js').Workload.read({ paths: [path] })
  const fleets = [
    ['w4', '4 workers, one at a third of the speed', 4, [THIRD], 0.9],
    ['w8', '8 workers, two at a third of the speed', 8, [THIRD, THIRD], 0.9],
    ['half', '8 workers, four at half the speed', 8, [0.5, 0.5, 0.5, 0.5], 0.9],
    ['equal', '8 equal workers', 8, [], 1],
  ]
  for (const [name, words, workers, speeds, goal] of fleets) {
    const fleet = { workers, speeds, engine: 'dynamo-poly', cacheTokens: LARGE }
    const runs = await threeWays(workload, fleet)
    const text = `the Mooncake trace on ${words}`
    const goals = {
      hit,
      ttft_p50: first('p50_ms', 'p50'),
      ttft_mean: first('mean_ms', 'mean', 1),
      ttft_p95: first('p95_ms', 'p95', goal),
      ttft_p99: first('p99_ms', 'p99', goal),
      e2e_p95: whole(goal),
    }
    compare(context, runs, { name, text, goals })
  }
}

async function sessions(context) {
  const folder = publicTrace('claude-code-sessions')
  if (folder === undefined)
    return context.skip('learnt times on coding sessions', 'they are not here')
  const list = join(root, 'benches', 'evidence', 'simulator', 'claude-code.json')
  const { files } = JSON.parse(readFileSync(list, 'utf8'))
  const paths = files.smallest39.map((name) => join(folder, name))
  const workload = await built('workload.js').Workload.read({ paths, format: 'weka' })
  const fleet = { workers: 4, speeds: [THIRD], cacheTokens: SMALL, engine: 'dynamo-poly' }
  const runs = await threeWays(workload, { ...fleet, keepTimes: true })
  compare(context, runs, {
    name: 'claude_code',
    text: '39 recorded coding sessions on 4 workers, one at a third of the speed',
    goals: {
      hit,
      ttft_p50: first('p50_ms', 'p50'),
      ttft_mean: first('mean_ms', 'mean', 1),
      ttft_p95: first('p95_ms', 'p95', 1),
      ttft_p99: first('p99_ms', 'p99', 1),
      e2e_p95: whole(1),
    },
  })
  const people = { pressure: 0.5, warmUpMs: 1_800_000, measureMs: 3_600_000 }
  const large = { workers: 4, speeds: [THIRD], engine: 'h100-class', population: people }
  compare(context, await threeWays(workload, large), {
    name: 'closed',
    text: 'so many of these sessions at once that they fill half the caches of 4 large engines, one at a third of the speed',
    goals: {
      output,
      ttft_p50: first('p50_ms', 'p50'),
      ttft_p95: first('p95_ms', 'p95'),
      ttft_p99: first('p99_ms', 'p99'),
      e2e_p95: whole(),
    },
  })
}

export async function paceClaims(context) {
  await mooncake(context)
  await sessions(context)
}
