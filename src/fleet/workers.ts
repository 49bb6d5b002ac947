/**
 * Question: what becomes of each worker when one configuration follows another?
 *
 * A worker is the same engine as long as its address, its events and its group are the same: what is known
 * of its cache stays. Headers and capacity change where they are. Another engine under the same name takes
 * the place of the old one at once. Whoever is not configured any more leaves when its last turn has ended,
 * and one that is configured again before that stays.
 */
import { isDeepStrictEqual } from 'node:util'
import type { ResolvedConfig } from '../config/index.js'

export type Member = ResolvedConfig['workers'][number]

/** A worker that is there. */
export interface Present {
  readonly worker: Member
  /** The core's number of its group. */
  readonly group: number
  readonly isLeaving: boolean
}

export interface WorkerPlan {
  /** Under names that nobody has. */
  readonly come: readonly Member[]
  /** Other engines under names of old ones. */
  readonly replaced: readonly Member[]
  /** Were about to leave. */
  readonly back: readonly Member[]
  /** Other headers. */
  readonly revised: readonly Member[]
  readonly resized: readonly Member[]
  readonly gone: readonly Member[]
}

/** `groupOf`: the core's number of a worker's group, undefined for one that is yet to be made. */
export function planWorkers(
  present: ReadonlyMap<string, Present>,
  next: readonly Member[],
  groupOf: (worker: Member) => number | undefined,
): WorkerPlan {
  const stay = new Set(next.map(({ name }) => name))
  const left = [...present.values()].filter(({ worker, isLeaving }) => {
    return !isLeaving && !stay.has(worker.name)
  })
  const come: Member[] = []
  const replaced: Member[] = []
  const back: Member[] = []
  const revised: Member[] = []
  const resized: Member[] = []
  for (const worker of next) {
    const old = present.get(worker.name)
    if (old === undefined) come.push(worker)
    else if (old.group !== groupOf(worker) || !isEngine(old.worker, worker)) replaced.push(worker)
    else {
      if (old.isLeaving) back.push(worker)
      if (!isDeepStrictEqual(old.worker.headers, worker.headers)) revised.push(worker)
      if (old.worker.capacityTokens !== worker.capacityTokens) resized.push(worker)
    }
  }
  return { come, replaced, back, revised, resized, gone: left.map(({ worker }) => worker) }
}

function isEngine(one: Member, other: Member): boolean {
  return one.url === other.url && isDeepStrictEqual(one.kvEvents, other.kvEvents)
}
