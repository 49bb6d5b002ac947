/**
 * Names and addresses behind the small numbers that the core speaks in.
 *
 * A copy of what the core was told, read again when its epoch changes: workers come and go at run
 * time, and in a shared scheduler another thread may have added them. Look-ups are O(1).
 */
import type { TargetDetail, WorkerDetail } from '../config/index.js'
import { WarmpathError } from '../errors.js'

export interface KnownWorker extends WorkerDetail {
  readonly index: number
  readonly id: string
  readonly group: number
}

export interface KnownTarget extends TargetDetail {
  readonly index: number
  readonly name: string
  readonly group: number
}

interface Row {
  name: string
  group: number
  detail: string
}

type WorkerRow = Row & { health: string }
type TargetRow = Row & { removed: boolean }

export class Topology {
  readonly epoch: number
  /** A target's position is its index; removed ones keep it. */
  readonly #everyTarget: readonly KnownTarget[]
  /** Removed ones keep their index. */
  readonly #workers: readonly KnownWorker[]
  readonly #workerIds = new Map<string, KnownWorker>()
  readonly #targetNames = new Map<string, KnownTarget>()

  /** `json` is what the native face calls its topology. */
  constructor(json: string) {
    const read = JSON.parse(json) as {
      epoch: number
      targets: TargetRow[]
      workers: WorkerRow[]
    }
    this.epoch = read.epoch
    this.#everyTarget = read.targets.map(({ detail, name, group }, index) => {
      return { ...(JSON.parse(detail) as TargetDetail), index, name, group }
    })
    this.#workers = read.workers.map(({ detail, name, group }, index) => {
      return { ...(JSON.parse(detail) as WorkerDetail), index, id: name, group }
    })
    for (const target of this.#everyTarget) {
      if (read.targets[target.index]?.removed === false) this.#targetNames.set(target.name, target)
    }
    for (const worker of this.#workers) {
      if (read.workers[worker.index]?.health !== 'removed') this.#workerIds.set(worker.id, worker)
    }
  }

  /** Those that have not been removed. */
  get targets(): readonly KnownTarget[] {
    return [...this.#targetNames.values()]
  }

  /** The last target of that name, removed or not. */
  anyTarget(name: string): KnownTarget | undefined {
    return this.#everyTarget.findLast((target) => target.name === name)
  }

  hasWorker(id: string): boolean {
    return this.#workerIds.has(id)
  }

  /** Whether the worker of that number has not been removed. */
  isWorker(index: number): boolean {
    const worker = this.#workers[index]
    return worker !== undefined && this.#workerIds.get(worker.id) === worker
  }

  /** Whether the two have not been removed. */
  isThere(target: KnownTarget, worker: KnownWorker): boolean {
    return (
      this.#targetNames.get(target.name) === target && this.#workerIds.get(worker.id) === worker
    )
  }

  worker(index: number): KnownWorker {
    return this.#workers[index] ?? missing('worker', index)
  }

  target(index: number): KnownTarget {
    return this.#everyTarget[index] ?? missing('target', index)
  }

  /** Those of a group that have not been removed. O(workers). */
  workersOf(group: number): readonly KnownWorker[] {
    return [...this.#workerIds.values()].filter((worker) => worker.group === group)
  }

  workerById(id: string): KnownWorker {
    return this.#workerIds.get(id) ?? missing('worker', id)
  }

  targetByName(name: string): KnownTarget {
    return this.#targetNames.get(name) ?? missing('target', name)
  }
}

function missing(kind: string, key: number | string): never {
  throw new WarmpathError('WARMPATH_UNKNOWN_ID', `unknown ${kind} ${JSON.stringify(key)}`)
}
