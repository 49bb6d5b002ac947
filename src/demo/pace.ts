/**
 * Did the machine keep up with the model clock?
 *
 * Engines and agents live in model time, which passes faster than the wall's. A machine that is too
 * slow for that shows effects of its own as if they were the routers'. A run kept pace when what a
 * turn's first content waited for beside hold and engine is, on average, at most a tenth of its
 * whole wait; otherwise its times say more about the machine, and the demo says so.
 */
import type { RunRecord } from './record.js'
import { mean } from './statistics.js'

/** Share of the mean time to first content that the programs themselves may take. */
const ACCEPTED = 0.1
const PACE_GOAL = 'at most a tenth of the mean time to first content'

function keptPace({ turns, pace }: RunRecord): boolean {
  const wait = mean(
    turns.flatMap(({ sentMs, firstContentMs }) =>
      firstContentMs === undefined ? [] : [firstContentMs - sentMs],
    ),
  )
  return wait === undefined || pace.overheadMs <= ACCEPTED * wait
}

/** What to tell people about runs that did not; undefined when all did. */
function paceWarning(runs: readonly RunRecord[]): string | undefined {
  const late = runs.filter((run) => !keptPace(run))
  if (late.length === 0) return undefined
  const seconds = (ms: number) => `${(ms / 1000).toFixed(2)} s`
  const lags = late.map(({ router, pace }) => `${router} ${seconds(pace.overheadMs)}`)
  const speed = late[0]?.pace.speed ?? 1
  return (
    'This machine did not keep pace with the model clock. Of the time to first content it took on ' +
    `average (model time): ${lags.join(', ')}. Take the times with care, or run again with ` +
    `--speed ${Math.max(1, Math.floor(speed / 2))}.`
  )
}

export { keptPace, PACE_GOAL, paceWarning }
