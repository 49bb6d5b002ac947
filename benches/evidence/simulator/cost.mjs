/**
 * What does a simulated request cost, and does it stay so for a million?
 *
 * Processor time of processes of their own, so that nothing else is counted; memory is the most that the
 * operating system has seen, less that of a run of a few turns.
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { publicTrace, within } from '../shared.mjs'
import { peerRuns } from './parity.mjs'

const MIB = 1 << 20
const TURNS_A_SESSION = 20

/** Runs one replay in a process of its own. */
function run(root, options) {
  const script = join(root, 'benches', 'evidence', 'simulator', 'one-run.mjs')
  const ran = spawnSync(process.execPath, [script, JSON.stringify(options)], { encoding: 'utf8' })
  if (ran.status !== 0) throw new Error(`a replay failed: ${ran.stderr}`)
  return JSON.parse(ran.stdout)
}

/** Sessions, and runs of them: the shorter one is, the more it is moved by what else the machine does. */
const SIZES = [
  [6_250, 3],
  [12_500, 2],
  [25_000, 1],
  [50_000, 1],
]
const MOST_GROWTH = 1.3

/** An eighth of a million turns to a million: the time of each, and the memory. */
export function scaleClaims({ root, claim }) {
  const generated = (sessions) => run(root, { sessions, turns: TURNS_A_SESSION })
  const tiny = generated(10)
  const each = (one) => (one.cpuSeconds * 1e6) / one.turns
  const sizes = SIZES.map(([sessions, runs]) => {
    const all = Array.from({ length: runs }, () => generated(sessions))
    return all.reduce((least, one) => (each(one) < each(least) ? one : least))
  })
  const [first] = sizes
  for (const one of sizes) {
    const turns = one.turns.toLocaleString('en-US')
    const isFirst = one === first
    const row = {
      name: `simulator.scale.time.${Math.round(one.turns / 125_000) * 125}k`,
      value: each(one),
      unit: 'us/turn',
      ...(!isFirst && {
        peer: `${first.turns.toLocaleString('en-US')} turns`,
        ratio: each(one) / each(first),
        goal: 'at most 1.3 times',
        most: MOST_GROWTH,
      }),
    }
    claim({
      text: `processor time of a turn where ${turns} generated turns are replayed`,
      seed: 1,
      row: isFirst ? row : within(row),
    })
  }
  const million = sizes.at(-1)
  const index = (million.indexBytes / MIB).toFixed(1)
  claim({
    text: `resident memory at most, as the operating system saw it, of ${million.turns.toLocaleString('en-US')} turns over that of ${tiny.turns}, beyond the router's index of ${index} MiB`,
    seed: 1,
    row: within({
      name: 'simulator.scale.memory',
      value: (million.peakBytes - tiny.peakBytes - million.indexBytes) / MIB,
      unit: 'MiB',
      goal: 'at most 200 beyond the index',
      most: 200,
    }),
  })
}

/** Beside the published simulator, on the same trace. */
export function costClaims(context) {
  const trace = publicTrace('mooncake/conversation_trace.jsonl.gz')
  if (trace === undefined)
    return context.skip('processor time beside the peer', 'the trace is not here')
  const ours = run(context.root, { trace, workers: 4 })
  const { isNow, runs } = context.peers ?? peerRuns(context)
  context.peers = { isNow, runs }
  const theirs = runs.filter(({ mode, workers }) => mode === 'kv_router' && workers === 4)
  const least = Math.min(...theirs.map((one) => one.cpu_s))
  context.claim({
    text: `processor time of ${ours.turns.toLocaleString('en-US')} requests of the Mooncake trace, reading included, 4 workers, kv`,
    seed: 1,
    row: within({
      name: 'simulator.cost.request',
      value: (ours.cpuSeconds * 1e6) / ours.turns,
      unit: 'us/request',
      peer: `Dynamo 1.6.1, the least of ${theirs.length} runs ${isNow ? 'in this run' : 'recorded'}`,
      ratio: ours.cpuSeconds / least,
      goal: 'at most 1/3, stretch 1/10',
      most: 1 / 3,
    }),
  })
}
