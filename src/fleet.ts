/**
 * Question: how does a scheduler that runs go over to another fleet?
 *
 * First a plan, which may refuse; then the changes, of which none does. The scheduler stays, and with it
 * sessions, what is known of caches and who owns what. A worker that leaves gets no new turns at once and
 * is forgotten when its last one has ended. Headers, capacities, credentials, prices and dialects change
 * where they are. A target that goes keeps the turns that it has.
 *
 * A group is where caches, load and admission belong, so a target stays with its group for life. New
 * targets join the group whose workers they have, or bring one of their own.
 *
 * O(workers + targets), and every 250 ms O(workers) while one of them is leaving.
 */
import { isDeepStrictEqual } from 'node:util'
import {
  type Logger,
  nativeGroup,
  nativePool,
  nativeTarget,
  nativeWorker,
  type PoolEntry,
  type ResolvedConfig,
  workerDetail,
} from './config/index.js'
import { keepScopes, planGroups, refuseChange } from './fleet/plan.js'
import { planPools } from './fleet/pools.js'
import { type Member, type Present, planWorkers } from './fleet/workers.js'
import { poolNumber, statusOf } from './link/report.js'
import type { Link } from './link.js'
import { Health, native } from './native.js'

/** What a call of `reconfigure` has changed, by name. */
export interface Reconfigured {
  /** Also those that were about to leave. */
  readonly workersAdded: readonly string[]
  /** Have another address, other events or other targets: they begin with an empty cache. */
  readonly workersReplaced: readonly string[]
  readonly workersLeaving: readonly string[]
  /** Other headers or another capacity. */
  readonly workersChanged: readonly string[]
  readonly targetsAdded: readonly string[]
  readonly targetsRemoved: readonly string[]
  /** Another credential, price, grade, dialect or context size. */
  readonly targetsChanged: readonly string[]
  readonly poolsAdded: readonly string[]
  /** Have other events, another layout or another target: nothing is known of them yet. */
  readonly poolsReplaced: readonly string[]
  readonly poolsRemoved: readonly string[]
}

type Target = ResolvedConfig['targets'][number]

/** How often workers that leave are looked at, in milliseconds. */
const LOOK_MS = 250

export class Fleet {
  readonly #link: Link
  readonly #logger: Logger | undefined
  #config: ResolvedConfig
  /** The core's numbers of the groups of `#config`. */
  #groups: readonly number[]
  readonly #leaving = new Map<string, Present>()
  #timer: NodeJS.Timeout | undefined

  constructor(link: Link, config: ResolvedConfig) {
    this.#link = link
    this.#logger = config.logger
    this.#config = config
    this.#groups = config.groups.map((_, group) => group)
  }

  /** Throws CONFIG, and nothing has changed then. */
  goOver(wanted: ResolvedConfig): Reconfigured {
    const before = this.#config
    const groups = planGroups(before, wanted)
    const next = keepScopes(before, wanted, groups)
    const workers = planWorkers(this.#present(), next.workers, ({ group }) => {
      return this.#groups[groups[group] ?? -1]
    })
    const targets = planTargets(before, next)
    const pools = planPools(
      before.pools.map((pool) => ({ pool, group: this.#numberOf(pool.group) })),
      next.pools.map((pool) => ({ pool, group: this.#groups[groups[pool.group] ?? -1] })),
    )
    this.#refuseTaken(workers.come)
    const left = workers.gone.map((worker) => ({ worker, group: this.#numberOf(worker.group) }))
    this.#groups = groups.map((old, at) => this.#groups[old ?? -1] ?? this.#addGroup(next, at))
    this.#config = next
    for (const target of targets.come) this.#addTarget(target)
    for (const target of targets.changed) this.#reviseTarget(target)
    for (const worker of workers.revised) this.#reviseWorker(worker)
    for (const worker of workers.resized) this.#resizeWorker(worker)
    // Before others leave: what waits for a group must not find it empty.
    for (const { name } of workers.back) this.#stay(name)
    for (const worker of workers.come) this.#addWorker(worker)
    for (const worker of workers.replaced) this.#replaceWorker(worker)
    for (const pool of [...pools.gone, ...pools.replaced]) this.#removePool(pool)
    for (const pool of [...pools.replaced, ...pools.come]) this.#addPool(pool)
    for (const target of targets.gone) this.#removeTarget(target)
    for (const { worker, group } of left) this.#leave(worker, group)
    this.#look()
    return {
      workersAdded: namesOf([...workers.back, ...workers.come]),
      workersReplaced: namesOf(workers.replaced),
      workersLeaving: namesOf(workers.gone),
      workersChanged: [...new Set(namesOf([...workers.revised, ...workers.resized]))],
      targetsAdded: namesOf(targets.come),
      targetsRemoved: namesOf(targets.gone),
      targetsChanged: namesOf(targets.changed),
      poolsAdded: namesOf(pools.come),
      poolsReplaced: namesOf(pools.replaced),
      poolsRemoved: namesOf(pools.gone),
    }
  }

  close(): void {
    clearInterval(this.#timer)
    this.#leaving.clear()
  }

  /** Those of this and earlier configurations that nobody has taken away meanwhile. */
  #present(): Map<string, Present> {
    const { topology } = this.#link
    const all = new Map(this.#leaving)
    for (const worker of this.#config.workers) {
      all.set(worker.name, { worker, group: this.#numberOf(worker.group), isLeaving: false })
    }
    for (const name of all.keys()) if (!topology.hasWorker(name)) all.delete(name)
    return all
  }

  /** Names that somebody else has given meanwhile. */
  #refuseTaken(come: readonly Member[]): void {
    const taken = come.find(({ name }) => this.#link.topology.hasWorker(name))
    if (taken === undefined) return
    refuseChange('workers', `${JSON.stringify(taken.name)} is known to the scheduler already`)
  }

  #numberOf(group: number): number {
    return this.#groups[group] ?? 0
  }

  #addGroup(config: ResolvedConfig, at: number): number {
    const json = JSON.stringify(nativeGroup(config, at))
    return this.#link.read((handle, now) => native.addGroup(handle, now, json))
  }

  #addTarget(target: Target): void {
    const json = JSON.stringify(nativeTarget(target, this.#numberOf(target.group)))
    this.#link.call((handle, _, out) => native.addTarget(handle, json, out))
    this.#logger?.info({ target: target.name }, 'target added')
  }

  #reviseTarget(target: Target): void {
    const { index } = this.#link.topology.targetByName(target.name)
    const json = JSON.stringify(nativeTarget(target, this.#numberOf(target.group)))
    this.#link.call((handle, _, out) => native.reviseTarget(handle, index, json, out))
    // The configuration's word is newer than what `setPrice` has said.
    this.#link.prices.delete(target.name)
  }

  #removeTarget({ name }: Target): void {
    const { index } = this.#link.topology.targetByName(name)
    this.#link.call((handle, _, out) => native.removeTarget(handle, index, out))
    this.#link.prices.delete(name)
    this.#logger?.info({ target: name }, 'target removed')
  }

  #addPool(pool: PoolEntry): void {
    const json = JSON.stringify(nativePool(pool, this.#numberOf(pool.group)))
    this.#link.call((handle, now, out) => native.addPool(handle, now, json, out))
  }

  #removePool({ name }: PoolEntry): void {
    const pool = poolNumber(this.#link, name)
    if (pool === undefined) return
    this.#link.call((handle, now, out) => native.removePool(handle, now, pool, out))
  }

  #reviseWorker(worker: Member): void {
    const { index } = this.#link.topology.workerById(worker.name)
    const detail = JSON.stringify(workerDetail(worker))
    this.#link.call((handle, _, out) => native.reviseWorker(handle, index, detail, out))
  }

  #resizeWorker({ name, capacityTokens }: Member): void {
    const { index } = this.#link.topology.workerById(name)
    this.#link.call((handle, now, out) => {
      native.setCapacity(handle, now, index, capacityTokens, out)
    })
  }

  #addWorker(worker: Member): void {
    const json = JSON.stringify(nativeWorker(worker, this.#numberOf(worker.group)))
    this.#link.call((handle, now, out) => native.addWorker(handle, now, json, out))
  }

  #replaceWorker(worker: Member): void {
    this.#leaving.delete(worker.name)
    const { index } = this.#link.topology.workerById(worker.name)
    const json = JSON.stringify(nativeWorker(worker, this.#numberOf(worker.group)))
    this.#link.call((handle, now, out) => native.replaceWorker(handle, now, index, json, out))
  }

  #stay(name: string): void {
    this.#leaving.delete(name)
    this.#setHealth(name, Health.up)
  }

  #leave(worker: Member, group: number): void {
    this.#setHealth(worker.name, Health.draining)
    this.#leaving.set(worker.name, { worker, group, isLeaving: true })
  }

  #setHealth(name: string, health: number): void {
    const { index } = this.#link.topology.workerById(name)
    this.#link.call((handle, now, out) => native.setHealth(handle, now, index, health, out))
  }

  /** Forgets workers that have left. */
  #look(): void {
    if (this.#leaving.size > 0 && !this.#link.closed) {
      const there = new Map(statusOf(this.#link).workers.map((worker) => [worker.id, worker]))
      for (const name of this.#leaving.keys()) {
        const worker = there.get(name)
        if (worker !== undefined && worker.inFlight > 0) continue
        this.#leaving.delete(name)
        if (worker !== undefined) this.#setHealth(name, Health.removed)
      }
    }
    if (this.#leaving.size === 0 || this.#link.closed) {
      clearInterval(this.#timer)
      this.#timer = undefined
    } else this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref()
  }
}

function planTargets(before: ResolvedConfig, next: ResolvedConfig) {
  const [was, is] = [byName(before.targets), byName(next.targets)]
  const changed: Target[] = []
  for (const target of next.targets) {
    const old = was.get(target.name)
    if (old === undefined) continue
    for (const fixed of ['model', 'provider'] as const) {
      if (old[fixed] !== target[fixed]) {
        refuseChange(`targets.${target.name}.${fixed}`, 'another one is another target')
      }
    }
    if (!isDeepStrictEqual({ ...old, group: 0 }, { ...target, group: 0 })) changed.push(target)
  }
  return {
    changed,
    come: next.targets.filter(({ name }) => !was.has(name)),
    gone: before.targets.filter(({ name }) => !is.has(name)),
  }
}

function byName<T extends { readonly name: string }>(all: readonly T[]): Map<string, T> {
  return new Map(all.map((each) => [each.name, each]))
}

function namesOf(all: readonly { readonly name: string }[]): string[] {
  return all.map(({ name }) => name)
}

/** Throws CONFIG for what only another scheduler can have: all that is neither worker, target, pool nor alias. */
export function refuseFixed(before: ResolvedConfig, next: ResolvedConfig): void {
  const { sinks: _, key: __, ...trace } = next.trace ?? { sinks: [], key: undefined }
  const { sinks: ___, key: ____, ...traced } = before.trace ?? { sinks: [], key: undefined }
  const pairs: [field: string, unknown, unknown][] = [
    ...Object.entries(next.settings).map(([field, value]): [string, unknown, unknown] => [
      field,
      (before.settings as unknown as Record<string, unknown>)[field],
      value,
    ]),
    ['continuity', before.continuity, next.continuity],
    ['forward', before.forwardHeaders, next.forwardHeaders],
    ['identity', before.identity, next.identity],
    ['clock', before.clock, next.clock],
    ['tokens', before.tokens, next.tokens],
    ['metrics', before.metrics, next.metrics],
    // Sinks and keys may come from a command line, of which a file knows nothing.
    ['trace', next.trace && traced, next.trace && trace],
  ]
  const changed = pairs.find(([, was, is]) => !isDeepStrictEqual(was, is))
  if (changed === undefined) return
  const [field] = changed
  refuseChange(
    field === 'continuity' && before.continuity.policy !== next.continuity.policy
      ? 'continuity.policy'
      : field,
    field === 'continuity' ? 'also where it follows from aliases, prices and grades' : undefined,
  )
}
