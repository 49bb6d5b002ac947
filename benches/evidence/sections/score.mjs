/** Which worker: a scheduler's default weights beside those of the published router. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../../scripts/build.mjs'
import { built, publicTrace } from '../shared.mjs'

const SEED = 1
const KV = { label: 'kv', policy: { core: { policy: 'none' } } }
const LARGE = 1 << 20

/** Both weights in one fleet; the reports. */
async function both(workload, fleet) {
  const { DEFAULT_SCORE } = built('index.js')
  const run = async (more) => {
    const scenario = { ...KV, engine: 'dynamo-poly', seed: SEED, ...fleet, ...more }
    return JSON.parse(await workload.simulate(scenario))
  }
  return { peer: await run({}), ours: await run({ label: 'warmpath', score: DEFAULT_SCORE }) }
}

function claims({ claim }, { peer, ours }, { name, text, hit, late }) {
  const share = (value) => `${(100 * value).toFixed(1)} %`
  const found = ours.work.hit_rate
  claim({
    text: `${text}: hit`,
    seed: SEED,
    row: {
      name: `score.${name}.hit`,
      value: found,
      unit: 'share',
      peer: `the published weights ${share(peer.work.hit_rate)}`,
      ratio: found / peer.work.hit_rate,
      goal: `at least ${share(hit)}`,
      holds: found >= hit,
    },
  })
  const [p95, theirs] = [ours, peer].map((report) => report.latency.ttft.p95_ms)
  claim({
    text: `${text}: time to first token, p95`,
    seed: SEED,
    row: {
      name: `score.${name}.ttft_p95`,
      value: p95,
      unit: 'ms',
      peer: `the published weights ${Math.round(theirs)} ms`,
      ratio: p95 / theirs,
      goal: `at most ${late} x`,
      holds: p95 <= late * theirs,
    },
  })
}

async function mooncake(context) {
  const path = publicTrace('mooncake/conversation_trace.jsonl.gz')
  if (path === undefined) return context.skip('the Mooncake trace', 'it is not here')
  const workload = await built('workload.js').Workload.read({ paths: [path] })
  for (const [workers, hit] of [
    [4, 0.15],
    [8, 0.23],
  ]) {
    const runs = await both(workload, { workers, cacheTokens: LARGE })
    const text = `the Mooncake trace on ${workers} workers`
    claims(context, runs, { name: `mooncake.w${workers}`, text, hit, late: 1 })
  }
}

async function sessions(context) {
  const folder = publicTrace('claude-code-sessions')
  if (folder === undefined) return context.skip('recorded coding sessions', 'they are not here')
  const list = join(root, 'benches', 'evidence', 'simulator', 'claude-code.json')
  const { files } = JSON.parse(readFileSync(list, 'utf8'))
  const paths = files.smallest39.map((name) => join(folder, name))
  const workload = await built('workload.js').Workload.read({ paths, format: 'weka' })
  const runs = await both(workload, { workers: 4, cacheTokens: LARGE / 4, keepTimes: true })
  const text = '39 recorded coding sessions on 4 workers of 256k tokens'
  claims(context, runs, { name: 'claude_code.w4', text, hit: 0.7, late: 0.8 })
}

export default {
  title: 'Which worker',
  about:
    "The published cost with two sets of weights, in front of modelled engines (`dynamo-poly`), each turn when the trace says: the published router's, and a scheduler's without options (`prefillScale: 8`).",
  limits: [
    'One weight was chosen, on these traces: of 1, 2, 4, 8 and 16 the least after which little is gained.',
    'On the coding sessions the slowest turns are those whose long context has been evicted; the weights make fewer of them, not faster ones.',
    'Engines of other speeds, and tiers behind the cache, were not looked at.',
  ],
  parts: { mooncake, sessions },
}
