/**
 * Question: how does a scheduler that runs go over to another fleet?
 *
 * First a plan, which may refuse; then the changes, of which none does. The scheduler stays, and with it
 * sessions, what is known of caches and who owns what. A worker that leaves gets no new turns at once and
 * is forgotten when its last one has ended; one whose address, capacity or events have changed leaves and
 * comes back. Headers, credentials, prices and dialects change where they are. A target that goes keeps
 * the turns that it has.
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
  nativeTarget,
  nativeWorker,
  type ResolvedConfig,
  type WorkerDetail,
} from './config/index.js'
import { type GroupPlan, keepScopes, planGroups, refuseChange } from './fleet/plan.js'
import { statusOf } from './link/report.js'
import type { Link } from './link.js'
import { Health, native } from './native.js'

/** What a call of `reconfigure` has changed, by name. */
export interface Reconfigured {
  /** Also those that come back when they have left. */
  readonly workersAdded: readonly string[]
  readonly workersLeaving: readonly string[]
  /** Other headers. */
  readonly workersChanged: readonly string[]
  readonly targetsAdded: readonly string[]
  readonly targetsRemoved: readonly string[]
  /** Another credential, price, grade, dialect or context size. */
  readonly targetsChanged: readonly string[]
}

type Member = ResolvedConfig['workers'][number]
type Target = ResolvedConfig['targets'][number]

/** How often workers that leave are looked at, in milliseconds. */
const LOOK_MS = 250

export class Fleet {
  readonly #link: Link
  readonly #logger: Logger | undefined
  #config: ResolvedConfig
  /** The core's numbers of the groups of `#config`. */
  #groups: readonly number[]
  readonly #leaving = new Set<string>()
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
    const workers = this.#planWorkers(next, groups)
    const targets = planTargets(before, next)
    this.#refuseTaken(next, groups, workers.come)
    this.#groups = groups.map((old, at) => this.#groups[old ?? -1] ?? this.#addGroup(next, at))
    this.#config = next
    for (const target of targets.come) this.#addTarget(target)
    for (const target of targets.changed) this.#reviseTarget(target)
    for (const worker of workers.changed) this.#reviseWorker(worker)
    // Before others leave: what waits for a group must not find it empty.
    const names = new Set(before.workers.map(({ name }) => name))
    for (const worker of workers.come) if (!names.has(worker.name)) this.#addWorker(worker)
    for (const target of targets.gone) this.#removeTarget(target)
    for (const worker of workers.gone) this.#leave(worker.name)
    this.#look()
    return {
      workersAdded: namesOf(workers.come),
      workersLeaving: namesOf(workers.gone),
      workersChanged: namesOf(workers.changed),
      targetsAdded: namesOf(targets.come),
      targetsRemoved: namesOf(targets.gone),
      targetsChanged: namesOf(targets.changed),
    }
  }

  close(): void {
    clearInterval(this.#timer)
    this.#leaving.clear()
  }

  #planWorkers(next: ResolvedConfig, groups: GroupPlan) {
    const [was, is] = [byName(this.#config.workers), byName(next.workers)]
    const isSame = (a: Member | undefined, b: Member | undefined) =>
      a !== undefined && b !== undefined && groups[b.group] === a.group && isEngine(a, b)
    const headers = (worker: Member) => was.get(worker.name)?.headers
    return {
      gone: [...was.values()].filter((worker) => !isSame(worker, is.get(worker.name))),
      come: [...is.values()].filter((worker) => !isSame(was.get(worker.name), worker)),
      changed: [...is.values()].filter(
        (worker) =>
          isSame(was.get(worker.name), worker) &&
          !isDeepStrictEqual(headers(worker), worker.headers),
      ),
    }
  }

  /** Names that somebody else has given meanwhile, and workers of a new group that are not free yet. */
  #refuseTaken(next: ResolvedConfig, groups: GroupPlan, come: readonly Member[]): void {
    const known = new Set(this.#config.workers.map(({ name }) => name))
    const there = new Set(statusOf(this.#link).workers.map(({ id }) => id))
    for (const { name, group } of come) {
      if (!there.has(name)) continue
      const quoted = JSON.stringify(name)
      if (!known.has(name) && !this.#leaving.has(name)) {
        refuseChange('workers', `${quoted} is known to the scheduler already`)
      }
      if (groups[group] === undefined) {
        const target = next.targets.find((each) => each.group === group)?.name
        refuseChange(`targets.${target}.workers`, `${quoted} still serves another target`)
      }
    }
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

  #reviseWorker({ name, url, headers }: Member): void {
    const { index } = this.#link.topology.workerById(name)
    const detail = JSON.stringify({ url, headers } satisfies WorkerDetail)
    this.#link.call((handle, _, out) => native.reviseWorker(handle, index, detail, out))
  }

  #addWorker(worker: Member): void {
    const json = JSON.stringify(nativeWorker(worker, this.#numberOf(worker.group)))
    this.#link.call((handle, now, out) => native.addWorker(handle, now, json, out))
  }

  #leave(name: string): void {
    if (this.#link.topology.hasWorker(name)) this.#setHealth(name, Health.draining)
    this.#leaving.add(name)
  }

  #setHealth(name: string, health: number): void {
    const { index } = this.#link.topology.workerById(name)
    this.#link.call((handle, now, out) => native.setHealth(handle, now, index, health, out))
  }

  /** Forgets workers that have left, and lets those come whose name is free now. */
  #look(): void {
    if (this.#leaving.size > 0 && !this.#link.closed) {
      const there = new Map(statusOf(this.#link).workers.map((worker) => [worker.id, worker]))
      for (const name of this.#leaving) {
        const worker = there.get(name)
        if (worker === undefined || worker.inFlight === 0) this.#left(name, worker !== undefined)
      }
    }
    if (this.#leaving.size === 0 || this.#link.closed) {
      clearInterval(this.#timer)
      this.#timer = undefined
    } else this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref()
  }

  /** Runs from a timer: what goes wrong with one worker is that worker's, and nobody is there to catch it. */
  #left(name: string, isThere: boolean): void {
    this.#leaving.delete(name)
    try {
      if (isThere) this.#setHealth(name, Health.removed)
      const back = this.#config.workers.find((worker) => worker.name === name)
      if (back !== undefined) this.#addWorker(back)
    } catch (cause) {
      this.#logger?.error({ cause, worker: name }, 'a worker cannot come back')
    }
  }
}

/** Whether two workers are the same engine: what is known of its cache holds for both. */
function isEngine({ headers: _, group: __, ...one }: Member, other: Member): boolean {
  const { headers: ___, group: ____, ...rest } = other
  return isDeepStrictEqual(one, rest)
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

/** Throws CONFIG for what only another scheduler can have: all that is neither worker, target nor alias. */
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
    ['identity', before.tenant, next.tenant],
    ['clock', before.clock, next.clock],
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
