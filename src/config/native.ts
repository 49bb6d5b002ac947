/**
 * The resolved configuration as the native face wants it, and the opaque details that it keeps for
 * us.
 *
 * Addresses and credentials mean nothing to the core; it carries them as one string a worker and a
 * target, so that a scheduler that several threads share knows them in each of them.
 */
import type { ModelCard } from './continuity.js'
import { isPulled } from './events.js'
import type { PoolEntry } from './pool.js'
import type { ResolvedConfig, TargetEntry } from './resolve.js'
import type { WorkerEntry } from './worker.js'

export type WorkerDetail = Pick<WorkerEntry, 'url' | 'headers'> & {
  /** Where its events are asked for. */
  readonly pulled?: string
}
export type TargetDetail = Omit<TargetEntry, 'name' | 'group' | 'scope'>

/** What a scheduler is told is kept, under a name of it that no other one has. */
export interface KeptSteps {
  readonly scheduler: string
  /** 32 hex digits. */
  readonly key?: string
}

/** @param steps absent: nothing is kept */
export function nativeOptions(config: ResolvedConfig, steps?: KeptSteps): string {
  const { cache: _ofGroups, admission, score, limits, seed } = config.settings
  const { sessionAffinity: affinity, fanOut } = config.settings
  const { bodyBytes: _own, ...nativeLimits } = limits
  return JSON.stringify({
    groups: config.groups.map((_, group) => nativeGroup(config, group)),
    workers: config.workers.map((worker) => nativeWorker(worker, worker.group)),
    targets: config.targets.map((target) => nativeTarget(target, target.group)),
    pools: config.pools.map((pool) => nativePool(pool, pool.group)),
    admission,
    continuity: config.continuity,
    score,
    affinity,
    ...(fanOut && { fanOut }),
    limits: nativeLimits,
    seed,
    ...(steps && { steps }),
  })
}

export function nativeGroup({ groups, settings }: ResolvedConfig, group: number): object {
  return { blockTokens: settings.cache.blockTokens, ...groups[group] }
}

export function nativeTarget(
  { name, group: _, scope, ...detail }: TargetEntry,
  group: number,
): object {
  return {
    name,
    group,
    model: nativeModel(detail.card),
    cache: scope,
    detail: JSON.stringify(detail satisfies TargetDetail),
  }
}

/** How much a model answers with is for `portability` only. */
export function nativeModel({ price, outputTokens: _, ...card }: ModelCard): object {
  if (price === undefined) return card
  const { cache: _ofReceipts, ...dollars } = price
  return { ...card, price: dollars }
}

export function nativeWorker(worker: WorkerEntry, group: number): object {
  return {
    name: worker.name,
    group,
    capacityTokens: worker.capacityTokens ?? null,
    ...(worker.kvEvents && { kvEvents: worker.kvEvents }),
    detail: JSON.stringify(workerDetail(worker)),
  }
}

/** Who is asked over HTTP is no business of the core. */
export function nativePool({ http: _, ...pool }: PoolEntry, group: number): object {
  return { ...pool, group }
}

export function workerDetail({ url, headers, kvEvents }: WorkerEntry): WorkerDetail {
  return { url, headers, ...(kvEvents && isPulled(kvEvents) && { pulled: kvEvents.endpoint }) }
}
