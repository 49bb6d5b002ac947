/**
 * Do our figures on a public trace agree with those of the published simulator?
 *
 * Round robin within 1 % of its one run; our `kv` within the range of its runs, since its ties are drawn
 * without a seed, and 1 % beyond. Its figures are measured now where a Python with its wheels is named,
 * else read from peer.json.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { built, publicTrace } from '../shared.mjs'
import { parity, python, RUNS, replay } from './peer.mjs'

const TRACE = 'mooncake/conversation_trace.jsonl.gz'
const FIGURES = {
  hit: ['share', (r) => r.work.hit_rate],
  ttft_p50: ['ms', (r) => r.latency.ttft.p50_ms],
  ttft_p95: ['ms', (r) => r.latency.ttft.p95_ms],
  e2e_p50: ['ms', (r) => r.latency.e2e.p50_ms],
  e2e_p95: ['ms', (r) => r.latency.e2e.p95_ms],
}
const POLICIES = {
  'round-robin': { mode: 'round_robin', policy: 'round-robin' },
  kv: { mode: 'kv_router', policy: { core: { policy: 'none' } } },
}
const BLOCK = 512
const CACHE = 1 << 20
const WORKERS = [4, 8]
const SEED = 1

/** Runs of the published simulator, and whether they were made now. */
export function peerRuns({ root, say }) {
  const path = publicTrace(TRACE)
  const kept = join(root, 'benches', 'evidence', 'simulator', 'peer.json')
  if (python === undefined || path === undefined) {
    return { isNow: false, runs: JSON.parse(readFileSync(kept, 'utf8')).runs }
  }
  say(`replaying the published simulator, ${RUNS} runs of its router`)
  const folder = mkdtempSync(join(tmpdir(), 'warmpath-peer-'))
  try {
    const trace = join(folder, 'trace.jsonl')
    writeFileSync(trace, gunzipSync(readFileSync(path)))
    const spec = { trace, format: 'mooncake', block: BLOCK, cache: CACHE, workers: WORKERS }
    return { isNow: true, runs: replay(spec) }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

export async function parityClaims(context) {
  const path = publicTrace(TRACE)
  if (path === undefined)
    return context.skip('parity with the published simulator', 'the trace is not here')
  const { Workload } = built('workload.js')
  const workload = await Workload.read({ paths: [path] })
  const { isNow, runs } = context.peers ?? peerRuns(context)
  context.peers = { isNow, runs }
  for (const workers of WORKERS) {
    for (const [label, { mode, policy }] of Object.entries(POLICIES)) {
      const scenario = {
        label,
        policy,
        workers,
        engine: 'dynamo-poly',
        cacheTokens: CACHE,
        seed: SEED,
      }
      const report = JSON.parse(await workload.simulate(scenario))
      const theirs = runs.filter((run) => run.workers === workers && run.mode === mode)
      for (const [figure, [unit, of]] of Object.entries(FIGURES)) {
        const range = theirs.map((run) => run[figure])
        context.claim({
          text: `${label} on the Mooncake trace, ${workers} workers, ${figure.replace('_', ' ')}`,
          seed: SEED,
          row: parity({
            name: `simulator.mooncake.w${workers}.${label}.${figure}`,
            value: of(report),
            unit,
            range,
            isNow,
          }),
        })
      }
    }
  }
}
