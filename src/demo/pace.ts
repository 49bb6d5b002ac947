/**
 * Did the machine keep up with the model clock?
 *
 * Engines and agents live in model time, which passes faster than the wall's. A machine that is too
 * slow for that shows effects of its own as if they were the routers'. A run kept pace when
 * whatever was due was seen to within a tenth of what a client waited at the 95th percentile;
 * otherwise its times say more about the machine, and the demo says so.
 */
import type { RunRecord } from './record.js'
import { quantile, sorted } from './statistics.js'

/** Lateness that is accepted, as a share of the 95th percentile of the time to first content. */
const ACCEPTED = 0.1

function keptPace({ turns, pace }: RunRecord): boolean {
  const waits = turns.flatMap(({ sentMs, firstContentMs }) =>
    firstContentMs === undefined ? [] : [firstContentMs - sentMs],
  )
  const wait = quantile(sorted(waits), 0.95)
  return wait === undefined || pace.lagP99Ms <= ACCEPTED * wait
}

/** What to tell people about runs that did not; undefined when all did. */
function paceWarning(runs: readonly RunRecord[]): string | undefined {
  const late = runs.filter((run) => !keptPace(run))
  if (late.length === 0) return undefined
  const lags = late.map((run) => `${run.router} ${(run.pace.lagP99Ms / 1000).toFixed(2)} s`)
  const speed = late[0]?.pace.speed ?? 1
  return (
    `This machine did not keep pace: passes were late by (p99, model time) ${lags.join(', ')}. ` +
    `Take the times with care, or run again with --speed ${Math.max(1, Math.floor(speed / 2))}.`
  )
}

export { keptPace, paceWarning }
