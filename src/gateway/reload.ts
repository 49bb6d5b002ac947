/**
 * Question: what does a new configuration change in a gateway that runs?
 *
 * Workers come and go; sessions, their cached prefixes and their owners stay, since the scheduler
 * stays. A worker that leaves gets no new turns at once and is forgotten when its last one has ended,
 * so nothing that is under way is lost. One whose options have changed leaves and comes back. A
 * configuration that is wrong, or that changes what only a new process can, changes
 * nothing.
 */
import { type AddedWorker, Scheduler, type SchedulerOptions, WarmpathError } from '../index.js'
import { type GatewayConfig, openScheduler, settle } from './config.js'

/** How often a worker that leaves is looked at, in milliseconds. */
const LOOK_MS = 250

/** Goes from one configuration of a gateway to the next. */
class Reloader {
  #config: GatewayConfig
  readonly #fleet: Fleet | undefined

  constructor(config: GatewayConfig, scheduler: Scheduler) {
    this.#config = config
    const { scheduler: given } = config
    this.#fleet = given instanceof Scheduler ? undefined : new Fleet(scheduler, given)
  }

  /** Throws WARMPATH_CONFIG, and nothing has changed then. */
  apply(next: GatewayConfig): string {
    const { scheduler: options, ...settings } = next
    const { scheduler: _, accessLog: __, ...before } = this.#config
    if (this.#fleet === undefined || options instanceof Scheduler) {
      throw new WarmpathError('WARMPATH_CONFIG', 'scheduler is kept by the caller, who changes it')
    }
    openScheduler(options, settle(next).limits).scheduler.close()
    const changed = changedKey(listenedOn(before), listenedOn(settings))
    if (changed !== undefined) throw needsRestart(changed)
    const changes = this.#fleet.apply(options)
    this.#config = { ...this.#config, scheduler: options }
    return changes
  }

  close(): void {
    this.#fleet?.close()
  }
}

/** The command line may say where to listen, over what the file says. */
function listenedOn({ host: _, port: __, ...settings }: Partial<GatewayConfig>) {
  return settings as Record<string, unknown>
}

function needsRestart(field: string): WarmpathError {
  return new WarmpathError('WARMPATH_CONFIG', `${field} has changed, which needs a new process`)
}

/** The workers of a scheduler that the gateway owns. */
class Fleet {
  readonly #scheduler: Scheduler
  #options: SchedulerOptions
  readonly #leaving = new Map<string, NodeJS.Timeout>()

  constructor(scheduler: Scheduler, options: SchedulerOptions) {
    this.#scheduler = scheduler
    this.#options = options
  }

  /**
   * Goes over to `next`, which must be options that a scheduler takes. Says what changed, for people.
   * Throws WARMPATH_CONFIG when more than workers differ.
   */
  apply(next: SchedulerOptions): string {
    const changed = changedKey(rest(this.#options), rest(next))
    if (changed !== undefined) throw needsRestart(`scheduler.${changed}`)
    const before = byName(this.#options)
    const after = byName(next)
    const gone = [...before.keys()].filter((id) => !isEqual(before.get(id), after.get(id)))
    const come = [...after.keys()].filter((id) => !isEqual(before.get(id), after.get(id)))
    this.#refuseStrangers(come.filter((id) => !before.has(id)))
    this.#options = next
    for (const id of gone) this.#leave(id)
    for (const id of come) if (!this.#leaving.has(id)) this.#come(id)
    return `${come.length} workers came, ${gone.length} leave`
  }

  close(): void {
    for (const timer of this.#leaving.values()) clearInterval(timer)
    this.#leaving.clear()
  }

  /** Names that somebody else has given to workers of the same scheduler meanwhile. */
  #refuseStrangers(ids: readonly string[]): void {
    const { workers } = this.#scheduler.status()
    const taken = workers.find(({ id }) => ids.includes(id) && !this.#leaving.has(id))
    if (taken === undefined) return
    const message = `scheduler.workers: ${JSON.stringify(taken.id)} is known to the scheduler already`
    throw new WarmpathError('WARMPATH_CONFIG', message)
  }

  #come(id: string): void {
    const worker = byName(this.#options).get(id)
    if (worker !== undefined) this.#scheduler.addWorker({ ...worker, id })
  }

  /** Forgets the worker now if it is idle, else as soon as it is; only then may its name come back. */
  #leave(id: string): void {
    if (this.#leaving.has(id) || this.#hasLeft(id)) return
    this.#scheduler.drainWorker(id)
    const look = () => {
      if (!this.#hasLeft(id)) return
      clearInterval(timer)
      this.#leaving.delete(id)
      this.#come(id)
    }
    const timer = setInterval(look, LOOK_MS).unref()
    this.#leaving.set(id, timer)
  }

  #hasLeft(id: string): boolean {
    const worker = this.#scheduler.status().workers.find((each) => each.id === id)
    if (worker !== undefined && worker.inFlight > 0) return false
    if (worker !== undefined) this.#scheduler.removeWorker(id)
    return true
  }
}

/** Workers with the targets that they serve, as a scheduler that runs takes them. */
function byName(options: SchedulerOptions): Map<string, AddedWorker> {
  const workers = (options.workers ?? []).map((worker) => {
    const id = worker.id ?? new URL(worker.url).host
    const targets = targetsOf(options, id)
    return [id, { ...worker, ...(targets && { targets }) }] as const
  })
  return new Map(workers)
}

/** Undefined where there is but one group. */
function targetsOf({ targets }: SchedulerOptions, id: string): string[] | undefined {
  if (targets === undefined) return undefined
  return Object.entries(targets).flatMap(([name, { workers, provider }]) => {
    const serves = workers?.includes(id) ?? provider === undefined
    return serves ? [name] : []
  })
}

type Named = Record<string, unknown>

function changedKey(one: Named, other: Named): string | undefined {
  const keys = [...new Set([...Object.keys(one), ...Object.keys(other)])]
  return keys.find((key) => !isEqual(one[key], other[key]))
}

/** All but the workers, and which of them serves what. */
function rest(options: SchedulerOptions): Named {
  const { workers: _, targets, trace: __, ...others } = options
  const bare = Object.entries(targets ?? {}).map(([name, { workers: _workers, ...target }]) => {
    return [name, { ...target, together: servedTogether(options, name) }] as const
  })
  return { ...others, targets: Object.fromEntries(bare) }
}

/** Targets of the same workers: a scheduler that runs keeps them one group. */
function servedTogether({ targets = {}, workers = [] }: SchedulerOptions, name: string): string[] {
  const everyone = workers.map(({ id, url }) => id ?? new URL(url).host)
  const served = (target: string): string => {
    const { workers: own, provider } = targets[target] ?? {}
    const hosted = provider === undefined ? undefined : [target]
    return JSON.stringify([...new Set(own ?? hosted ?? everyone)].sort())
  }
  return Object.keys(targets).filter((other) => served(other) === served(name))
}

function isEqual(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

export { Reloader }
