/**
 * Where the time of a decision comes from.
 *
 * The native core has no clock: each call carries `now` in whole microseconds since the Unix
 * epoch. The default reads the monotonic clock of the process on its epoch base, so that a step of
 * the system clock does not move it. A clock that goes backwards is read by the core as no time
 * passed.
 */

/** Milliseconds since the Unix epoch, with fractions. */
export type Clock = () => number

/** Largest time whose microseconds a double still holds. */
const MAX_MS = Number.MAX_SAFE_INTEGER / 1000

export const systemClock: Clock = () => performance.timeOrigin + performance.now()

/**
 * A clock of the user's that cannot break a decision: a reading that throws, or is no time, counts
 * as no time passed. `failed` is told of the first.
 */
export function steadyClock(clock: Clock, failed: (cause: unknown) => void): Clock {
  let last = 0
  let hasFailed = false
  const fail = (cause: unknown): number => {
    if (!hasFailed) failed(cause)
    hasFailed = true
    return last
  }
  return () => {
    try {
      const now = clock()
      if (!isTime(now)) return fail(now)
      last = now
      return now
    } catch (cause) {
      return fail(cause)
    }
  }
}

function isTime(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= MAX_MS
}

/** Microseconds, the unit of the native face. */
export function micros(clock: Clock): number {
  return Math.round(clock() * 1000)
}
