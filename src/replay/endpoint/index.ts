/**
 * The same comparison with real endpoints in place of modelled fleets.
 *
 * One endpoint after the other, so that they do not share a machine's network, each under a label of
 * its own. What failed is counted by what was wrong.
 */
import { WarmpathError } from '../../index.js'
import type { Workload } from '../../workload.js'
import { aboutEndpoints } from '../about.js'
import type { Cell } from '../plan.js'
import type { Comparison, Run, Watcher } from '../run.js'
import { drive } from './drive.js'
import type { EndpointOptions } from './options.js'
import { Requests } from './requests.js'
import { type Failures, failures, report } from './tally.js'

/** Rejects with `WARMPATH_ABORTED` when `signal` ends it. */
async function compareEndpoints(
  workload: Workload,
  options: EndpointOptions,
  watcher: Watcher,
  signal?: AbortSignal,
): Promise<Comparison> {
  const summary = workload.summary()
  const turns = workload.turns()
  const runs: Run[] = []
  const failed = new Map<string, Failures>()
  for (const [index, url] of options.urls.entries()) {
    const cell = cellOf(url, options)
    watcher.begun(cell, options.urls.length)
    // Texts of its own: two addresses may lead to the same caches.
    const salt = options.seed + index
    const { model, body, headers } = options
    const requests = new Requests(workload, turns, { model, body, headers, salt })
    let ended = 0
    const outcomes = await drive({
      ...options,
      url,
      turns,
      request: (turn) => requests.of(turn),
      ...(signal !== undefined && { signal }),
      onTurn: () => watcher.moved(cell, ++ended / turns.session.length),
    })
    if (signal?.aborted) throw new WarmpathError('WARMPATH_ABORTED', 'the replay was stopped')
    watcher.ended(cell)
    failed.set(cell.label, failures(outcomes))
    runs.push({ ...cell, report: report(cell.label, turns, outcomes) })
  }
  return {
    summary,
    about: aboutEndpoints(summary, options),
    runs,
    bounds: new Map(),
    failures: failed,
  }
}

function cellOf(url: string, { seed }: EndpointOptions): Cell {
  const { host, pathname } = new URL(url)
  const label = `${host}${pathname.replace(/\/+$/, '')}`
  return { workers: 0, pressure: undefined, seed, label }
}

export { compareEndpoints }
