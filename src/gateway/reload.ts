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
    const { host = before.host, port = before.port } = next
    refuseFixed(before, { ...settings, host, port })
    const changes = withPrefix(() => this.#scheduler.reconfigure(options))
    if (changes.targetsChanged.length > 0) this.#changed()
    return told(changes)
  }
}

type Settled = ReturnType<typeof settle>

function refuseFixed(before: Settled, next: Settled): void {
  for (const section of Object.keys(before) as (keyof Settled)[]) {
    const changed = changedIn(before[section], next[section])
    if (changed === undefined) continue
    const message = `${[section, ...changed].join('.')} has changed, which needs a new process`
    throw new WarmpathError('WARMPATH_CONFIG', message)
  }
}

/** The way to what is different; undefined when nothing is. */
function changedIn(was: unknown, is: unknown): string[] | undefined {
  if (isDeepStrictEqual(was, is)) return undefined
  if (typeof was !== 'object' || typeof is !== 'object') return []
  const [before, next]: Record<string, unknown>[] = [{ ...was }, { ...is }]
  return Object.keys({ ...before, ...next })
    .filter((key) => !isDeepStrictEqual(before?.[key], next?.[key]))
    .slice(0, 1)
}

function told(changes: Reconfigured): string {
  const targets: [string, readonly string[]][] = [
    ['added', changes.targetsAdded],
    ['removed', changes.targetsRemoved],
    ['changed', changes.targetsChanged],
  ]
  const pools: [string, readonly string[]][] = [
    ['added', changes.poolsAdded],
    ['replaced', changes.poolsReplaced],
    ['removed', changes.poolsRemoved],
  ]
  const named = (what: string, lists: typeof targets) =>
    lists.flatMap(([how, names]) =>
      names.length > 0 ? [`${what} ${how}: ${names.join(', ')}`] : [],
    )
  const { workersAdded, workersReplaced, workersLeaving, workersChanged } = changes
  return [
    `${workersAdded.length} workers came, ${workersLeaving.length} leave`,
    ...(workersReplaced.length > 0 ? [`${workersReplaced.length} are replaced`] : []),
    ...(workersChanged.length > 0 ? [`${workersChanged.length} have changed`] : []),
    ...named('targets', targets),
    ...named('pools', pools),
  ].join('; ')
}

export { Reloader }
