/**
 * Question: which native scheduler do these options open, and which may they not?
 *
 * One of its own, or that of a name in this process, which somebody else may have opened with other
 * targets. Throws CONFIG with the field.
 */
import type { Clock } from '../clock.js'
import { steadyClock, systemClock } from '../clock.js'
import { isPulled, nativeOptions, type ResolvedConfig } from '../config/index.js'
import { fromNative, WarmpathError } from '../errors.js'
import { Link } from '../link.js'
import { native } from '../native.js'
import { keptSteps } from '../trace/index.js'

/** The options' own clock, kept from going back; else that of the system. */
export function clockOf({ clock, logger }: ResolvedConfig): Clock {
  if (clock === undefined) return systemClock
  return steadyClock(clock, (cause) => logger?.error({ cause }, 'the clock fails: no time passes'))
}

/** A link to it that is open, whatever is thrown of it later. */
export function openLink(config: ResolvedConfig, clock: Clock, name: string | undefined): Link {
  const text = nativeOptions(config, keptSteps(config))
  const open = (wake: () => void) =>
    name === undefined ? native.openScheduler(text, wake) : native.sharedScheduler(name, text, wake)
  return new Link(open, clock, config.settings.limits.bodyBytes)
}

/** What only the core checks. */
export function checkNative(config: ResolvedConfig): void {
  try {
    native.checkOptions(nativeOptions(config))
  } catch (error) {
    throw fromNative(error)
  }
}

/** A shared scheduler may have been opened by somebody with other targets. */
export function checkTargets(name: string | undefined, link: Link, config: ResolvedConfig): void {
  const known = link.topology.targets.map((target) => target.name)
  const own = config.targets.map((target) => target.name)
  if (known.length === own.length && own.every((target) => known.includes(target))) return
  throw new WarmpathError(
    'WARMPATH_CONFIG',
    `targets: shared scheduler ${JSON.stringify(name)} has ${known.join(', ')}`,
    { detail: { field: 'targets' } },
  )
}

/** Events that are handed out once would be divided among the threads. */
export function refusePulled({ workers }: ResolvedConfig): void {
  const at = workers.findIndex(({ kvEvents }) => kvEvents !== undefined && isPulled(kvEvents))
  if (at === -1) return
  const field = `workers[${at}].kvEvents`
  const why = 'events that have to be asked for need a scheduler that is not shared'
  throw new WarmpathError('WARMPATH_CONFIG', `${field}: ${why}`, { detail: { field } })
}
