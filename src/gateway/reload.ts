/**
 * Question: what does a new configuration change in a gateway that runs?
 *
 * Workers, targets and aliases, as far as `Scheduler.reconfigure` goes; sessions, their cached prefixes
 * and their owners stay, since the scheduler stays. A configuration that is wrong, or that changes what
 * only a new process can, changes nothing.
 */
import { isDeepStrictEqual } from 'node:util'
import { type Reconfigured, Scheduler, WarmpathError } from '../index.js'
import { type GatewayConfig, schedulerOptions, settle, withPrefix } from './config.js'

/** Goes from one configuration of a gateway to the next. */
class Reloader {
  readonly #config: GatewayConfig
  readonly #scheduler: Scheduler
  readonly #changed: () => void

  /** `changed` is called when credentials may be other ones. */
  constructor(config: GatewayConfig, scheduler: Scheduler, changed: () => void) {
    this.#config = config
    this.#scheduler = scheduler
    this.#changed = changed
  }

  /** Says what changed, for people. Throws WARMPATH_CONFIG, and nothing has changed then. */
  apply(next: GatewayConfig): string {
    if (this.#config.scheduler instanceof Scheduler || next.scheduler instanceof Scheduler) {
      throw new WarmpathError('WARMPATH_CONFIG', 'scheduler is kept by the caller, who changes it')
    }
    const [before, settings] = [settle(this.#config), settle(next)]
    const options = schedulerOptions(next.scheduler, settings.limits)
    refuseFixed(before, settings)
    const changes = withPrefix(() => this.#scheduler.reconfigure(options))
    if (changes.targetsChanged.length > 0) this.#changed()
    return told(changes)
  }
}

type Settled = ReturnType<typeof settle>

/** The command line may say where to listen, over what the file says. */
function refuseFixed(
  { host: _, port: __, ...before }: Settled,
  { host: ___, port: ____, ...next }: Settled,
): void {
  const sections = Object.keys(before) as (keyof typeof before)[]
  for (const section of sections) {
    const [was, is]: Record<string, unknown>[] = [{ ...before[section] }, { ...next[section] }]
    const changed = Object.keys({ ...was, ...is }).find((key) => {
      return !isDeepStrictEqual(was?.[key], is?.[key])
    })
    if (changed === undefined) continue
    const message = `${section}.${changed} has changed, which needs a new process`
    throw new WarmpathError('WARMPATH_CONFIG', message)
  }
}

function told(changes: Reconfigured): string {
  const targets: [string, readonly string[]][] = [
    ['added', changes.targetsAdded],
    ['removed', changes.targetsRemoved],
    ['changed', changes.targetsChanged],
  ]
  const { workersAdded, workersReplaced, workersLeaving, workersChanged } = changes
  return [
    `${workersAdded.length} workers came, ${workersLeaving.length} leave`,
    ...(workersReplaced.length > 0 ? [`${workersReplaced.length} are replaced`] : []),
    ...(workersChanged.length > 0 ? [`${workersChanged.length} have changed`] : []),
    ...targets.flatMap(([how, names]) =>
      names.length > 0 ? [`targets ${how}: ${names.join(', ')}`] : [],
    ),
  ].join('; ')
}

export { Reloader }
