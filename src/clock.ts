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

export const systemClock: Clock = () => performance.timeOrigin + performance.now()

/** Microseconds, the unit of the native face. */
export function micros(clock: Clock): number {
  return Math.round(clock() * 1000)
}
