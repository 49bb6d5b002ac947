/**
 * What of their caches targets on the same workers share.
 *
 * A cache belongs to a model, and at a hosted provider to an account too. The first target of a set of
 * workers has the cache that engine events tell of; another one with its model and credential shares
 * that, and any other has one of its own.
 */
import { createHash } from 'node:crypto'
import type { TargetDraft } from './target.js'

/** What a target's prompts share in the caches of its workers. */
export interface CacheScope {
  /** Targets of one name share a cache; empty: the one that engine events tell of. */
  readonly name: string
  /** Whether each tenant has a cache of its own. */
  readonly perTenant: boolean
}

type Member = Pick<TargetDraft, 'name' | 'model' | 'auth' | 'provider'>

/** The scope of a target among all `members` of its group, itself included, in the order written. */
export function scopeOf(target: Member, members: readonly Member[]): CacheScope {
  const [first = target] = members
  const own = identity(target)
  return {
    name: own === identity(first) ? '' : own,
    perTenant: target.provider !== undefined && target.auth.kind === 'pass-through',
  }
}

/** The same after a restart, and no secret. */
export function identity({ model, auth }: Pick<Member, 'model' | 'auth'>): string {
  return createHash('sha256')
    .update(JSON.stringify([model, auth]))
    .digest('hex')
    .slice(0, 32)
}
