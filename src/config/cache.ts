/**
 * How the caches of each group find what they have of a prompt: rules of `cache`, of the targets, and
 * what is published of a provider.
 *
 * What is written wins, the target's over everybody's; then the provider's own, as far as they are of
 * the family that was chosen. Workers have one cache whatever target it is asked through, so targets
 * on the same workers may not write different rules. What the rules do is the core's business.
 */
import { type Fields, flag, MAX_U32, milliseconds, number, oneOf, refuse } from './check.js'

/** Rules as they were written, or as a provider publishes them. */
export interface CacheRules {
  readonly match?: 'block' | 'breakpoint'
  readonly ttlMs?: number
  readonly minTokens?: number
  readonly unitTokens?: number
  readonly lookback?: number
  readonly refreshOnRead?: boolean
  readonly automatic?: boolean
}

/** Rules of a target: its own, and those of its provider. */
export interface TargetCache {
  readonly written?: CacheRules
  readonly published?: CacheRules
}

export const RULE_FIELDS = [
  ...['match', 'ttlSeconds', 'minTokens', 'unitTokens'],
  ...['lookback', 'refreshOnRead', 'automatic'],
]

const FAMILIES = ['block', 'breakpoint'] as const
/** Rules that mean nothing in the other family. */
const OF_BLOCK = ['unitTokens'] as const
const OF_BREAKPOINT = ['lookback', 'refreshOnRead', 'automatic'] as const

/** The rules among `given`, each checked. */
export function cacheRules(given: Fields, path: string): CacheRules {
  const has = (field: string): boolean => given[field] !== undefined
  const whole = (field: string, min: number): number =>
    number(given[field], `${path}.${field}`, { min, max: MAX_U32, kind: 'integer' })
  const yes = (field: string): boolean => flag(given[field], `${path}.${field}`)
  return {
    ...(has('match') && { match: oneOf(given.match, `${path}.match`, FAMILIES) }),
    ...(has('ttlSeconds') && { ttlMs: milliseconds(given.ttlSeconds, `${path}.ttlSeconds`) }),
    ...(has('minTokens') && { minTokens: whole('minTokens', 0) }),
    ...(has('unitTokens') && { unitTokens: whole('unitTokens', 1) }),
    ...(has('lookback') && { lookback: whole('lookback', 0) }),
    ...(has('refreshOnRead') && { refreshOnRead: yes('refreshOnRead') }),
    ...(has('automatic') && { automatic: yes('automatic') }),
  }
}

/** Whether there is any rule. */
export function hasRules(rules: CacheRules): boolean {
  return Object.keys(rules).length > 0
}

interface Member {
  readonly name: string
  readonly provider?: string
  readonly cache: TargetCache
}

/** The rules of one group, whose targets are `members`. */
export function groupCache(
  common: CacheRules,
  members: readonly Member[],
): CacheRules & { readonly dropsUnseen?: boolean } {
  const [first, ...others] = members.filter(({ cache }) => cache.written !== undefined)
  const written = first?.cache.written ?? {}
  for (const { name, cache } of others) {
    if (JSON.stringify(cache.written) === JSON.stringify(written)) continue
    const found = `target ${JSON.stringify(first?.name)}`
    refuse(`targets.${name}.cache`, `must equal that of ${found}, which has the same workers`)
  }
  const published = members.find(({ cache }) => cache.published !== undefined)?.cache.published
  const match = written.match ?? common.match ?? published?.match ?? 'block'
  if (first !== undefined) refuseForeign(written, match, `targets.${first.name}.cache`)
  return {
    ...(published?.match === match && published),
    ...ofFamily(common, match),
    ...written,
    ...(match === 'breakpoint' && { match }),
    // Behind a provider's address stand many machines: what one of them misses tells nothing of others.
    ...(match === 'block' && isHosted(members) && { dropsUnseen: true }),
  }
}

function isHosted(members: readonly Member[]): boolean {
  return members.some(({ provider }) => provider !== undefined)
}

/** Refuses rules that mean nothing where caches match so. */
export function refuseForeign(
  rules: CacheRules,
  match: NonNullable<CacheRules['match']>,
  path: string,
): void {
  const other = match === 'block' ? 'breakpoint' : 'block'
  const foreign = foreignTo(match).find((field) => rules[field] !== undefined)
  if (foreign !== undefined) refuse(`${path}.${foreign}`, `needs match: '${other}'`)
}

function foreignTo(match: CacheRules['match']): readonly (keyof CacheRules)[] {
  return match === 'block' ? OF_BREAKPOINT : OF_BLOCK
}

function ofFamily(rules: CacheRules, match: CacheRules['match']): CacheRules {
  const foreign: readonly string[] = foreignTo(match)
  return Object.fromEntries(Object.entries(rules).filter(([field]) => !foreign.includes(field)))
}
