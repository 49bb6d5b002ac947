/** One replay in a process of its own: prints what it cost. Argument: options as JSON. */
import { readFileSync } from 'node:fs'
import { built } from '../shared.mjs'

const { trace, sessions, turns, workers = 4 } = JSON.parse(process.argv[2])
const { Workload } = built('workload.js')

const before = process.cpuUsage()
// At a rate that four engines serve, so that turns do not pile up.
const shape = { sessions, turns, arrivalsMs: 12_000 }
const workload =
  trace === undefined ? Workload.generate(shape, 1) : await Workload.read({ paths: [trace] })
const policy = { core: { policy: 'none' } }
const scenario = {
  label: 'kv',
  policy,
  workers,
  engine: 'dynamo-poly',
  cacheTokens: 1 << 20,
  seed: 1,
}
const report = JSON.parse(await workload.simulate(scenario))
const { user, system } = process.cpuUsage(before)
const result = {
  turns: workload.summary().turns,
  cpuSeconds: (user + system) / 1e6,
  peakBytes: peakKib() * 1024,
  indexBytes: report.index.bytes,
}
process.stdout.write(JSON.stringify(result))

/**
 * The most that was resident. Linux counts what whoever started this process had into the usual figure,
 * but keeps one for its own memory too.
 */
function peakKib() {
  try {
    const found = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))
    if (found !== null) return Number(found[1])
  } catch {
    // Elsewhere there is no such file.
  }
  return process.resourceUsage().maxRSS
}
