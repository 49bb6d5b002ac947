/**
 * How does a comparison go?
 *
 * All runs, as many at once as there are processors; each is deterministic, so their order does not
 * matter. The first that fails ends the others.
 */
import { availableParallelism } from 'node:os'
import type { Bounds, Workload, WorkloadSummary } from '../workload.js'
import { type About, aboutFleet } from './about.js'
import type { Failures } from './endpoint/tally.js'
import {
  type Cell,
  cacheTokens,
  cells,
  type FleetCell,
  type ReplayOptions,
  scenario,
} from './plan.js'
import type { Report } from './report.js'

interface Run extends Cell {
  report: Report
}

/** What was compared, and what came of it. */
interface Comparison {
  summary: WorkloadSummary
  about: About
  runs: readonly Run[]
  /** By workers: what caches could have given the trace in its own order. */
  bounds: ReadonlyMap<number, Bounds>
  /** By label: turns that failed over HTTP, by what was wrong; the most frequent first. */
  failures?: ReadonlyMap<string, Failures>
}

/** Told how far the runs are. */
interface Watcher {
  begun(cell: Cell, total: number): void
  /** @param share 0 to 1 */
  moved(cell: Cell, share: number): void
  ended(cell: Cell): void
}

/** Threads of the pool that runs may take: reading and writing files needs one too. */
const MOST_AT_ONCE = 3

async function compare(
  workload: Workload,
  options: ReplayOptions,
  watcher: Watcher,
  signal?: AbortSignal,
): Promise<Comparison> {
  const summary = workload.summary()
  const plan = cells(options, summary)
  const stop = new AbortController()
  const ended = signal === undefined ? stop.signal : AbortSignal.any([signal, stop.signal])
  const one = async (cell: FleetCell): Promise<Run> => {
    watcher.begun(cell, plan.length)
    const total = cell.pressure === undefined ? summary.turns : options.warmUpMs + options.measureMs
    const text = await workload.simulate(scenario(options, cell), {
      signal: ended,
      onProgress: ({ arrived, nowMs }) =>
        watcher.moved(cell, Math.min(1, (cell.pressure === undefined ? arrived : nowMs) / total)),
    })
    watcher.ended(cell)
    const { workers, pressure, label, seed } = cell
    return { workers, pressure, label, seed, report: JSON.parse(text) as Report }
  }
  const bounds = await boundsOf(workload, options)
  try {
    const runs = await inLanes(plan, one)
    return { summary, about: aboutFleet(summary, options), runs, bounds }
  } finally {
    stop.abort()
  }
}

async function boundsOf(workload: Workload, options: ReplayOptions): Promise<Map<number, Bounds>> {
  const bounds = new Map<number, Bounds>()
  for (const workers of options.workers) {
    bounds.set(workers, await workload.bounds(workers * cacheTokens(options)))
  }
  return bounds
}

/** Results in the order of the items. */
async function inLanes<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  let next = 0
  const lane = async () => {
    while (next < items.length) {
      const index = next++
      results[index] = await work(items[index] as T)
    }
  }
  const lanes = Math.min(MOST_AT_ONCE, availableParallelism(), items.length)
  await Promise.all(Array.from({ length: lanes }, lane))
  return results
}

export { type Comparison, compare, type Run, type Watcher }
