/**
 * The targets of the options: what each is called upstream, who serves it and with which key.
 *
 * A hosted provider that names no workers gets one of its own, called like the target, so that a
 * target is always (model, workers, credential) for everyone behind this file. Throws CONFIG; never
 * shows a key.
 */
import type { DialectName } from '../dialects/index.js'
import { type PriceCatalogue, WITH_AFFINITY } from '../providers/index.js'
import { cacheRules, hasRules, RULE_FIELDS, type TargetCache } from './cache.js'
import {
  dictionary,
  fields,
  flag,
  list,
  name,
  oneOf,
  refuse,
  refuseOther,
  secretText,
} from './check.js'
import { CARD_FIELDS, type ModelCard, modelCard } from './continuity.js'
import { type EnvCredential, fromEnvironment } from './env.js'
import { ADDRESSED, ALL_DIALECTS, type Hosted, hosted } from './hosted.js'
import { TOKEN_SOURCES, type Tokenize, type TokenSource } from './tokens.js'
import type { WorkerEntry } from './worker.js'

/** How a target's requests are authorised. */
export type Auth =
  | { readonly kind: 'none' }
  | { readonly kind: 'pass-through' }
  | { readonly kind: 'header'; readonly name: string; readonly value: string }

/** A target before its group is known. */
export interface TargetDraft {
  readonly name: string
  /** Absent: the name that the client asked for is passed through. */
  readonly model?: string
  readonly provider?: string
  /** Whether the provider is told which requests are of one session. */
  readonly affinity?: true
  readonly dialects: readonly DialectName[]
  readonly auth: Auth
  /** Never empty, no duplicates, in the order written. */
  readonly workers: readonly string[]
  readonly cache: TargetCache
  /** What its prompts are known by. */
  readonly tokens: TokenSource
  /** What is known of its model. */
  readonly card: ModelCard
}

/** Name of the one target of the short form. */
export const DEFAULT_TARGET = 'default'

const TARGET_FIELDS = [
  ...['model', 'provider', 'workers', 'credential', 'dialect', 'cache', 'affinity', 'tokens'],
  ...CARD_FIELDS,
]

/** Where keys and prices are looked up. */
export interface TargetSources {
  readonly environment: NodeJS.ProcessEnv
  readonly catalogue: PriceCatalogue | undefined
  readonly tokens: { readonly from: TokenSource; readonly tokenize?: Tokenize }
}

/**
 * All targets. `workers` holds the declared ones and is extended by the hosted ones that targets
 * bring along.
 */
export function targetDrafts(
  value: unknown,
  workers: Map<string, WorkerEntry>,
  { environment, catalogue, tokens }: TargetSources,
): TargetDraft[] {
  const declared = [...workers.keys()]
  if (value === undefined) return [passThrough(declared, tokens.from)]
  const drafts = Object.entries(dictionary(value, 'targets')).map(([key, item]) => {
    const path = `targets.${key}`
    const given = fields(item, path, TARGET_FIELDS)
    const provider =
      given.provider === undefined ? undefined : name(given.provider, `${path}.provider`)
    const known = hosted(provider)
    const auth = authOf(given.credential, `${path}.credential`, known, environment)
    const dialects = dialectsOf(given.dialect, `${path}.dialect`) ?? known.dialects
    const model = given.model === undefined ? key : name(given.model, `${path}.model`)
    return {
      name: name(key, path),
      model,
      ...(provider === undefined ? {} : { provider }),
      ...(affinityOf(given.affinity, `${path}.affinity`, provider) && { affinity: true as const }),
      dialects,
      auth,
      workers:
        given.workers !== undefined
          ? named(given.workers, `${path}.workers`, declared)
          : known.url === undefined
            ? all(declared, path, provider)
            : [addHosted(key, known.url, auth, workers)],
      cache: cacheOf(given.cache, `${path}.cache`, dialects, known),
      tokens: tokensOf(given.tokens, `${path}.tokens`, { provider, tokens }),
      card: modelCard(given, path, { provider, model, catalogue }),
    }
  })
  if (drafts.length === 0) refuse('targets', 'needs at least one target')
  return drafts
}

function passThrough(declared: readonly string[], tokens: TokenSource): TargetDraft {
  if (declared.length === 0) refuse('workers', 'needs at least one worker, such as { url }')
  return {
    name: DEFAULT_TARGET,
    dialects: ALL_DIALECTS,
    auth: { kind: 'none' },
    workers: declared,
    cache: {},
    tokens,
    card: {},
  }
}

function cacheOf(
  value: unknown,
  path: string,
  dialects: readonly DialectName[],
  known: Hosted,
): TargetCache {
  const written = value === undefined ? {} : cacheRules(fields(value, path, RULE_FIELDS), path)
  const isItsOwn = dialects.some((dialect) => known.dialects.includes(dialect))
  return {
    ...(hasRules(written) && { written }),
    ...(isItsOwn && known.cache !== undefined && { published: known.cache }),
  }
}

function affinityOf(value: unknown, path: string, provider: string | undefined): boolean {
  if (value === undefined || !flag(value, path)) return false
  if (provider !== undefined && WITH_AFFINITY.includes(provider)) return true
  refuse(path, `needs provider: one of ${WITH_AFFINITY.join(', ')}`)
}

interface TokensOf {
  readonly provider: string | undefined
  readonly tokens: TargetSources['tokens']
}

function tokensOf(value: unknown, path: string, { provider, tokens }: TokensOf): TokenSource {
  if (value === undefined) return provider === undefined ? tokens.from : 'text'
  const from = oneOf(value, path, TOKEN_SOURCES)
  if (from === 'tokenize' && tokens.tokenize === undefined) refuse(path, 'needs tokens.tokenize')
  return from
}

function all(
  declared: readonly string[],
  path: string,
  provider: string | undefined,
): readonly string[] {
  if (declared.length > 0) return declared
  if (provider === undefined) refuse(`${path}.workers`, 'needs a worker: none is in `workers`')
  const known = ADDRESSED.join(' and ')
  refuse(`${path}.workers`, `needs a worker: only of ${known} the address is known`)
}

function named(value: unknown, path: string, declared: readonly string[]): readonly string[] {
  const known = new Set<unknown>(declared)
  const ids = list(value, path).map((item, at) => {
    if (known.has(item)) return item as string
    return refuseOther(`${path}[${at}]`, declared, item)
  })
  if (ids.length === 0) refuse(path, 'needs at least one worker id')
  return [...new Set(ids)]
}

function addHosted(
  target: string,
  url: string,
  auth: Auth,
  workers: Map<string, WorkerEntry>,
): string {
  if (auth.kind === 'none') {
    refuse(`targets.${target}.credential`, "must be env('NAME'), a key or 'pass-through'")
  }
  if (workers.has(target)) {
    refuse(`targets.${target}`, 'a worker has the same name: name `workers`, or rename one')
  }
  workers.set(target, { name: target, url, headers: {} })
  return target
}

function authOf(value: unknown, path: string, known: Hosted, environment: NodeJS.ProcessEnv): Auth {
  if (value === undefined) return { kind: 'none' }
  if (value === 'pass-through') return { kind: 'pass-through' }
  const key = secretText(typeof value === 'string' ? value : read(value, path, environment), path)
  return known.keyHeader === 'authorization'
    ? { kind: 'header', name: 'authorization', value: `Bearer ${key}` }
    : { kind: 'header', name: known.keyHeader, value: key }
}

function read(value: unknown, path: string, environment: NodeJS.ProcessEnv): string {
  if (typeof value !== 'object' || value === null) {
    refuse(path, "must be env('NAME'), a key or 'pass-through'", typeof value)
  }
  return fromEnvironment(value as EnvCredential, path, environment)
}

function dialectsOf(value: unknown, path: string): readonly DialectName[] | undefined {
  if (value === undefined) return undefined
  const items = Array.isArray(value) ? list(value, path) : [value]
  if (items.length === 0) refuse(path, `must be one or more of ${ALL_DIALECTS.join(', ')}`)
  return items.map((item) => oneOf(item, path, ALL_DIALECTS))
}
