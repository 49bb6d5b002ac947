/**
 * Question: how is the fleet changed one piece at a time, while turns run?
 *
 * What is passed is checked and handed on; what follows from it for turns and caches is the core's
 * business. Throws UNKNOWN_ID for names that are not there, INVALID_ARGUMENT, and CONFIG with the field.
 */
import { checkString, refuseArgument } from '../argument.js'
import {
  ADDED_WORKER_FIELDS,
  addedTargets,
  type Logger,
  modelCard,
  nativeModel,
  nativeWorker,
  type PriceOptions,
  type WorkerOptions,
  workerEntry,
} from '../config/index.js'
import { WarmpathError } from '../errors.js'
import type { Topology } from '../link/topology.js'
import type { Link } from '../link.js'
import { Health, native } from '../native.js'

/** A worker that joins a running scheduler. */
export type AddedWorker = WorkerOptions & {
  /** Targets that it serves: all of one group. May be left out when there is only one group. */
  targets?: string[]
}

export function addWorker(link: Link, worker: AddedWorker, logger: Logger | undefined): void {
  const entry = workerEntry(worker, 'worker', ADDED_WORKER_FIELDS)
  const group = groupOf(link.topology, addedTargets(worker.targets))
  const json = JSON.stringify(nativeWorker(entry, group))
  link.call((handle, now, out) => native.addWorker(handle, now, json, out))
  logger?.info({ worker: entry.name }, 'worker added')
}

export function urlOf(link: Link, id: string): string | undefined {
  checkString(id, 'id')
  const topology = link.fresh()
  return topology.hasWorker(id) ? topology.workerById(id).url : undefined
}

export function setCapacity(link: Link, id: string, tokens: number | undefined): void {
  if (tokens !== undefined && !(Number.isSafeInteger(tokens) && tokens > 0)) {
    refuseArgument('tokens', 'a whole number of at least 1, or undefined')
  }
  const index = numberOf(link, id)
  link.call((handle, now, out) => native.setCapacity(handle, now, index, tokens, out))
}

export function setHealth(
  link: Link,
  { id, health }: { readonly id: string; readonly health: keyof typeof Health },
  logger: Logger | undefined,
): void {
  const index = numberOf(link, id)
  link.call((handle, now, out) => native.setHealth(handle, now, index, Health[health], out))
  logger?.info({ worker: id, health }, 'worker health set')
}

/** What somebody has found out about a worker; draining and removal are for those who run it. */
export function markWorker(
  link: Link,
  id: string,
  health: string,
  logger: Logger | undefined,
): void {
  if (health !== 'up' && health !== 'down' && health !== 'limited') {
    refuseArgument('health', "'up', 'down' or 'limited'")
  }
  setHealth(link, { id, health }, logger)
}

export function resetCache(link: Link, id: string): void {
  const index = numberOf(link, id)
  link.call((handle, now, out) => native.resetCache(handle, now, index, out))
}

export function setPrice(link: Link, target: string, price: PriceOptions): void {
  checkString(target, 'target')
  const { index, card, provider, model } = link.fresh().targetByName(target)
  const { price: set } = modelCard({ price }, `targets.${target}`, {
    provider,
    model: model ?? target,
  })
  if (set === undefined) refuseArgument('price', 'an object with input and output')
  const json = JSON.stringify(nativeModel({ ...card, price: set }))
  link.read((handle) => native.setModel(handle, index, json))
  link.prices.set(target, set)
}

function numberOf(link: Link, id: string): number {
  checkString(id, 'id')
  return link.fresh().workerById(id).index
}

/** The group that a new worker joins; `targets` must name all of its targets. */
function groupOf(topology: Topology, targets: readonly string[] | undefined): number {
  const wanted = targets?.map((name) => topology.targetByName(name)) ?? topology.targets
  const group = wanted[0]?.group
  const whole = topology.targets.filter((target) => target.group === group)
  const isWhole = whole.length === new Set(wanted).size
  if (group !== undefined && isWhole && wanted.every((target) => target.group === group)) {
    return group
  }
  const groups = [...new Set(topology.targets.map((target) => target.group))]
  const allowed = groups.map((each) =>
    topology.targets
      .filter((target) => target.group === each)
      .map((target) => target.name)
      .join(' + '),
  )
  throw new WarmpathError(
    'WARMPATH_CONFIG',
    `worker.targets: must name all targets of one group: ${allowed.join(' or ')}`,
    { detail: { field: 'worker.targets' } },
  )
}
