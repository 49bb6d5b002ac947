/**
 * Turns what a user wrote into a configuration in which nothing is left to doubt: every field
 * checked, every default filled in, every name resolved, every worker in exactly one group.
 *
 * Groups are found, not written: targets whose worker lists are equal share one; lists that
 * overlap in part are refused, since a worker's cache and load belong to one group. Nothing is
 * contacted. Cost: once a scheduler, linear in workers x targets. Trusts nothing; throws CONFIG
 * with the path of the field and what is allowed there.
 */
import { type CacheRules, groupCache } from './cache.js'
import {
  anyObject,
  callback,
  dictionary,
  type Fields,
  fields,
  list,
  name,
  OPTIONS,
  oneOf,
  refuse,
  refuseOther,
  shown,
} from './check.js'
import { isSecretName, mayBeForwarded } from './connection.js'
import { type ContinuitySettings, catalogueOf, continuity } from './continuity.js'
import { isListenedAt, isListenedAtByBoth } from './events.js'
import { type MetricsSettings, metricsSettings } from './metrics.js'
import { type PoolEntry, poolEntries } from './pool.js'
import { type CacheScope, scopeOf } from './scope.js'
import { type Settings, settings } from './settings.js'
import { type TargetDraft, targetDrafts } from './target.js'
import { type TokenSettings, tokenSettings } from './tokens.js'
import { type TraceSettings, traceSettings } from './trace.js'
import type { IdentityOptions, Logger, SchedulerOptions } from './types.js'
import { headerName, type WorkerEntry, workerEntry } from './worker.js'

export type TargetEntry = Omit<TargetDraft, 'workers' | 'cache'> & {
  readonly group: number
  readonly scope: CacheScope
}

export interface ResolvedConfig {
  /** How the caches of each group work. */
  readonly groups: readonly CacheRules[]
  readonly workers: readonly (WorkerEntry & { readonly group: number })[]
  readonly targets: readonly TargetEntry[]
  /** Stores that groups share, at most one a group. */
  readonly pools: readonly PoolEntry[]
  readonly aliases: ReadonlyMap<string, readonly string[]>
  /** Whether each model asked for is one of its own: there is one target for all. */
  readonly takesAnyModel: boolean
  readonly settings: Settings
  readonly continuity: ContinuitySettings
  readonly forwardHeaders: readonly string[]
  readonly identity: {
    /** A header's name is in lower case. */
    readonly tenant?: NonNullable<IdentityOptions['tenant']>
    readonly unknownState: NonNullable<IdentityOptions['unknownState']>
  }
  readonly clock?: () => number
  readonly logger?: Logger
  readonly trace: TraceSettings | undefined
  readonly tokens: TokenSettings
  readonly metrics: MetricsSettings | undefined
}

const OPTION_FIELDS = [
  ...[
    'workers',
    'targets',
    'pools',
    'aliases',
    'admission',
    'continuity',
    'score',
    'sessionAffinity',
    'fanOut',
    'cache',
    'tokens',
    'metrics',
    'identity',
    'forward',
  ],
  ...['limits', 'trace', 'seed', 'clock', 'logger'],
]
const UNKNOWN_STATE = ['refuse', 'pass'] as const
const LOG_LEVELS = ['debug', 'info', 'warn', 'error']

export function resolve(
  options: SchedulerOptions,
  environment: NodeJS.ProcessEnv = process.env,
): ResolvedConfig {
  const given = fields(options, OPTIONS, OPTION_FIELDS)
  const workers = declaredWorkers(given.workers)
  const catalogue = catalogueOf(given.continuity)
  const tokens = tokenSettings(given.tokens)
  const drafts = targetDrafts(given.targets, workers, { environment, catalogue, tokens })
  const named = aliases(given.aliases, drafts)
  const groupOf = groups(drafts)
  const groupOfWorker = (id: string, path: string): number =>
    groupOf.get(id) ?? refuse(path, 'every worker must serve a target', `unused ${shown(id)}`)
  const settled = settings(given)
  const members: TargetDraft[][] = []
  for (const draft of drafts) {
    const group = groupOf.get(draft.workers[0] ?? '') ?? 0
    members[group] = [...(members[group] ?? []), draft]
  }
  const grouped = [...workers.values()].map((worker, at) => ({
    ...worker,
    group: groupOfWorker(worker.name, `workers[${at}].id`),
  }))
  const targets = drafts.map((draft) => {
    const { workers: served, cache: _ofGroup, ...rest } = draft
    const group = groupOfWorker(served[0] ?? '', `targets.${draft.name}.workers`)
    return { ...rest, group, scope: scopeOf(draft, members[group] ?? []) }
  })
  const told = new Set(grouped.flatMap(({ group, kvEvents }) => (kvEvents ? [group] : [])))
  return {
    groups: members.map((each) => groupCache(settled.cache.rules, each)),
    workers: grouped,
    targets,
    pools: poolEntries(given.pools, { targets, told }),
    aliases: named,
    settings: settled,
    takesAnyModel: given.targets === undefined && ![...workers.values()].some((w) => w.kvEvents),
    continuity: continuity(given.continuity, named, drafts),
    forwardHeaders: forwardHeaders(given.forward),
    tokens,
    metrics: metricsSettings(given.metrics),
    trace: traceSettings(given.trace, environment),
    identity: identity(given.identity),
    ...hooks(given),
  }
}

function declaredWorkers(value: unknown): Map<string, WorkerEntry> {
  const workers = new Map<string, WorkerEntry>()
  const listening: WorkerEntry[] = []
  for (const [at, item] of list(value ?? [], 'workers').entries()) {
    const worker = workerEntry(item, `workers[${at}]`)
    if (workers.has(worker.name)) {
      refuse(`workers[${at}].id`, 'ids must be unique', shown(worker.name))
    }
    if (worker.kvEvents !== undefined && isListenedAt(worker.kvEvents)) {
      refuseSharedPort(worker, listening, `workers[${at}].kvEvents`)
      listening.push(worker)
    }
    workers.set(worker.name, worker)
  }
  return workers
}

function refuseSharedPort({ kvEvents }: WorkerEntry, others: WorkerEntry[], path: string): void {
  if (kvEvents === undefined) return
  const same = others.find(
    (other) => other.kvEvents && isListenedAtByBoth(kvEvents, other.kvEvents),
  )
  if (same !== undefined) {
    refuse(path, 'must be listened at on ports of its own', `those of worker ${shown(same.name)}`)
  }
}

/** Worker -> group. Equal worker sets are one group. */
function groups(drafts: readonly TargetDraft[]): Map<string, number> {
  const seen = new Map<string, number>()
  const groupOf = new Map<string, number>()
  const ownerOf = new Map<string, string>()
  for (const draft of drafts) {
    const key = JSON.stringify([...draft.workers].sort())
    if (seen.has(key)) continue
    const group = seen.size
    seen.set(key, group)
    for (const worker of draft.workers) {
      const other = ownerOf.get(worker)
      if (other !== undefined) {
        refuse(
          `targets.${draft.name}.workers`,
          `must equal the list of target ${shown(other)} or have no worker in common with it`,
          `both have ${shown(worker)}`,
        )
      }
      ownerOf.set(worker, draft.name)
      groupOf.set(worker, group)
    }
  }
  return groupOf
}

function aliases(
  value: unknown,
  drafts: readonly TargetDraft[],
): ReadonlyMap<string, readonly string[]> {
  const known = drafts.map((draft) => draft.name)
  const entries = Object.entries(dictionary(value ?? {}, 'aliases'))
  return new Map(
    entries.map(([alias, value]) => {
      const path = `aliases.${alias}`
      const targets = list(value, path).map((item, at) => {
        const found = known.find((target) => target === item)
        return found ?? refuseOther(`${path}[${at}]`, known, item)
      })
      if (targets.length === 0) refuse(path, 'needs at least one target')
      return [name(alias, path), [...new Set(targets)]]
    }),
  )
}

function forwardHeaders(value: unknown): readonly string[] {
  if (value === undefined) return []
  const given = fields(value, 'forward', ['headers']).headers
  return list(given ?? [], 'forward.headers').map((item, at) => {
    const path = `forward.headers[${at}]`
    const header = headerName(item, path)
    if (mayBeForwarded(header)) return header
    return refuse(path, "never passes: credentials follow a target's `credential`", shown(item))
  })
}

function identity(value: unknown): ResolvedConfig['identity'] {
  const given = value === undefined ? {} : fields(value, 'identity', ['tenant', 'unknownState'])
  const unknownState = oneOf(given.unknownState ?? 'refuse', 'identity.unknownState', UNKNOWN_STATE)
  const { tenant } = given
  if (tenant === undefined) return { unknownState }
  if (typeof tenant === 'string') {
    const header = headerName(tenant, 'identity.tenant')
    if (!isSecretName(header)) return { unknownState, tenant: header }
    refuse('identity.tenant', 'must be a header that is no credential', shown(tenant))
  }
  callback(tenant, 'identity.tenant')
  return { unknownState, tenant: tenant as NonNullable<IdentityOptions['tenant']> }
}

function hooks(given: Fields): Pick<ResolvedConfig, 'clock' | 'logger'> {
  if (given.clock !== undefined) callback(given.clock, 'clock')
  if (given.logger !== undefined) {
    const logger = anyObject(given.logger, 'logger')
    for (const level of LOG_LEVELS) callback(logger[level], `logger.${level}`)
  }
  return {
    ...(given.clock !== undefined && { clock: given.clock as () => number }),
    ...(given.logger !== undefined && { logger: quiet(given.logger as Logger) }),
  }
}

/** A logger that fails costs its line, and never a turn. */
function quiet(logger: Logger): Logger {
  const write = (level: keyof Logger) => (about: object, message: string) => {
    try {
      logger[level](about, message)
    } catch {
      // There is nobody left to tell.
    }
  }
  return {
    debug: write('debug'),
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
  }
}
