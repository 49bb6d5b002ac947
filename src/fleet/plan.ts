/**
 * Question: which groups of one configuration are which of the next?
 *
 * By the targets that both have; a group all of whose targets are new is the one whose workers it has, if
 * nobody else's. What would put two groups together, or take one apart, is refused: caches, load and
 * admission belong to a group and are not divided.
 */
import { isDeepStrictEqual } from 'node:util'
import { identity, type ResolvedConfig } from '../config/index.js'
import { WarmpathError } from '../errors.js'

/** For each group of the next configuration, that of the present one; undefined for a new one. */
export type GroupPlan = readonly (number | undefined)[]

/** Throws CONFIG: the field that cannot change, and why. */
export function refuseChange(field: string, why?: string): never {
  const message = `${field} has changed, which needs a new process${why ? `: ${why}` : ''}`
  throw new WarmpathError('WARMPATH_CONFIG', message, { detail: { field } })
}

/** Throws CONFIG. */
export function planGroups(before: ResolvedConfig, next: ResolvedConfig): GroupPlan {
  const plan = byTargets(before, next)
  byWorkers(before, next, plan)
  for (const [group, old] of plan.entries()) {
    if (old === undefined || isDeepStrictEqual(before.groups[old], next.groups[group])) continue
    refuseOtherProviders(before, next)
    refuseChange(`targets.${next.targets.find((target) => target.group === group)?.name}.cache`)
  }
  return plan
}

/** Rules of caches follow from providers too: who has changed one is told so. */
function refuseOtherProviders(before: ResolvedConfig, next: ResolvedConfig): void {
  const was = new Map(before.targets.map((target) => [target.name, target]))
  for (const { name, provider } of next.targets) {
    const old = was.get(name)
    if (old !== undefined && old.provider !== provider) refuseChange(`targets.${name}.provider`)
  }
}

function byTargets(before: ResolvedConfig, next: ResolvedConfig): (number | undefined)[] {
  const plan: (number | undefined)[] = next.groups.map(() => undefined)
  const groupOf = new Map(before.targets.map(({ name, group }) => [name, group]))
  for (const { name, group } of next.targets) {
    const old = groupOf.get(name)
    if (old === undefined) continue
    const claimed = plan.indexOf(old)
    if (claimed !== -1 && claimed !== group) {
      refuseChange(`targets.${name}.workers`, 'targets of the same workers stay together')
    }
    if (plan[group] !== undefined && plan[group] !== old) {
      refuseChange(`targets.${name}.workers`, 'targets of different workers stay apart')
    }
    plan[group] = old
  }
  return plan
}

/** Groups of new targets only. */
function byWorkers(
  before: ResolvedConfig,
  next: ResolvedConfig,
  plan: (number | undefined)[],
): void {
  const groupOf = new Map(before.workers.map(({ name, group }) => [name, group]))
  for (const { name, group } of next.workers) {
    const old = groupOf.get(name)
    if (old === undefined || plan[group] === old || plan.includes(old)) continue
    plan[group] ??= old
  }
}

type Target = ResolvedConfig['targets'][number]

/**
 * The next configuration with the caches that targets have: which one is the group's own was settled by
 * those that were there first, and a credential that is renewed is the same account's. Throws CONFIG.
 */
export function keepScopes(
  before: ResolvedConfig,
  next: ResolvedConfig,
  plan: GroupPlan,
): ResolvedConfig {
  const was = new Map(before.targets.map((target) => [target.name, target]))
  const kept = (target: Target) => was.get(target.name)?.scope
  const targets = next.targets.map((target) => {
    const old = kept(target)
    if (old !== undefined) {
      if (old.perTenant === target.scope.perTenant) return { ...target, scope: old }
      refuseChange(`targets.${target.name}.credential`, 'whose cache it is follows from it')
    }
    if (plan[target.group] === undefined) return target
    const twin = next.targets.find((other) => {
      return other.group === target.group && other.scope.name === target.scope.name && kept(other)
    })
    const name = (twin && kept(twin)?.name) ?? identity(target)
    return { ...target, scope: { ...target.scope, name } }
  })
  return { ...next, targets }
}
