/**
 * The numbers of the options, with their ranges and defaults: admission, score, cache, limits.
 *
 * Shares become whole basis points here, since the core compares integers. What each number does
 * is the core's business.
 */

import { type CacheRules, cacheRules, RULE_FIELDS, refuseForeign } from './cache.js'
import {
  dictionary,
  type Fields,
  fields,
  MAX_COUNT,
  MAX_U32,
  milliseconds,
  number,
  oneOf,
  refuse,
} from './check.js'
import { type QueueSettings, queueSettings } from './queue.js'
import {
  type AffinitySettings,
  affinitySettings,
  type FanOutSettings,
  fanOutSettings,
} from './stay.js'
import type { ScoreOptions } from './types.js'

export interface Settings {
  readonly admission: {
    readonly policy: (typeof POLICIES)[number]
    readonly pauseBp: number
    readonly targetBp: number
    readonly resumeBp: number
    readonly bufferTokens: number
    readonly intervalMs: number
    readonly thetaBp: number
    readonly forceAfterMs: number | undefined
    readonly hostTokens: number | undefined
    readonly holdLimitMs: number | undefined
    readonly maxRunning: number | undefined
    readonly maxSessions: number | undefined
    readonly sessionIdleMs: number | undefined
    readonly queue: QueueSettings | undefined
    /** In thousandths. */
    readonly weights: Readonly<Record<string, number>>
  }
  readonly score: Readonly<Record<ScoreField, number>>
  readonly sessionAffinity: AffinitySettings
  readonly fanOut: FanOutSettings | undefined
  /** The rules are those of every group that has none of its own. */
  readonly cache: { readonly blockTokens: number; readonly rules: CacheRules }
  readonly limits: Readonly<Record<LimitField, number>>
  readonly seed: number
}

/**
 * What a scheduler weighs by without options. The weights of the published router count a block that is decoded like one that is prefilled. A turn
 * waits for the prompts before it and shares each step with what is decoded, so it feels the first far
 * more: on the traces of `npm run evidence -- --only score` 8 finds more of what is cached than 1 to 4,
 * at no later first tokens, and beyond 8 little is gained. The patience is what makes the start of many
 * sessions at once bearable where their contexts outgrow the caches: the few long prompts wait behind each
 * other and not before everybody; at 2.25 and more the longest of them wait for too long.
 */
export const DEFAULT_SCORE = {
  overlapCredit: 1,
  overlapDecay: 0,
  prefillScale: 8,
  requestWeight: 0,
  queuePatience: 2,
  pace: 1,
  hostCredit: 0.75,
  diskCredit: 0.25,
  poolCredit: 0.25,
  temperature: 0,
} satisfies Required<ScoreOptions>
const LIMITS = {
  sessions: 100_000,
  reservations: 100_000,
  receipts: 4096,
  blocks: 4_000_000,
  owners: 1_000_000,
  answerTokens: 16_000_000,
  bodyBytes: 64 * 1024 * 1024,
}
type ScoreField = keyof typeof DEFAULT_SCORE
const SHARES: readonly ScoreField[] = ['pace', 'hostCredit', 'diskCredit', 'poolCredit']
type LimitField = keyof typeof LIMITS

const POLICIES = ['none', 'lease', 'thunderagent'] as const
/** `theta` by preset. */
const PRESETS = { tail: 0.35, balanced: 0.5, throughput: 0.7 }
const OF_LEASE = ['preset', 'theta', 'forceAfterSeconds', 'hostTokens']
const OF_THUNDERAGENT = ['hysteresis', 'bufferTokens', 'intervalMs']
const OF_ALL = [
  ...(['policy', 'holdLimitSeconds', 'maxRunning', 'maxSessions'] as const),
  ...(['sessionIdleSeconds', 'queue', 'tenantWeights'] as const),
]
const ADMISSION_FIELDS = [...OF_ALL, ...OF_LEASE, ...OF_THUNDERAGENT]
/** More tenants than this are not told apart by weights. */
const MAX_WEIGHTS = 10_000
const BASIS_POINTS = 10_000

export function settings(given: Fields): Settings {
  const cache = section(given.cache, 'cache', [...RULE_FIELDS, 'blockTokens'])
  const rules = cacheRules(cache, 'cache')
  refuseForeign(rules, rules.match ?? 'block', 'cache')
  const score = section(given.score, 'score', Object.keys(DEFAULT_SCORE))
  const limits = section(given.limits, 'limits', Object.keys(LIMITS))
  return {
    admission: admission(section(given.admission, 'admission', ADMISSION_FIELDS)),
    score: table(DEFAULT_SCORE, (field, fallback) => weight(score, field, fallback)),
    sessionAffinity: affinitySettings(given.sessionAffinity),
    fanOut: fanOutSettings(given.fanOut),
    cache: {
      blockTokens: whole(cache, 'cache', 'blockTokens', 64, [1, 65_536]),
      rules,
    },
    limits: table(LIMITS, (field, fallback) =>
      whole(limits, 'limits', field, fallback, [1, MAX_U32]),
    ),
    seed: whole(given, '', 'seed', 0, [0, MAX_COUNT]),
  }
}

function admission(given: Fields): Settings['admission'] {
  const policy = oneOf(given.policy ?? 'none', 'admission.policy', POLICIES)
  if (policy === 'lease') refuseFields(given, OF_THUNDERAGENT, 'thunderagent')
  else refuseFields(given, OF_LEASE, 'lease')
  if (given.sessionIdleSeconds !== undefined && given.maxSessions === undefined) {
    refuse('admission.sessionIdleSeconds', 'needs maxSessions')
  }
  const isGated = given.maxRunning !== undefined || given.maxSessions !== undefined
  if (given.queue !== undefined && !isGated) {
    refuse('admission.queue', 'needs maxRunning or maxSessions')
  }
  if (given.tenantWeights !== undefined && !isGated && policy !== 'lease') {
    refuse('admission.tenantWeights', "needs maxRunning, maxSessions or policy: 'lease'")
  }
  return {
    policy,
    ...bands(given.hysteresis),
    bufferTokens: whole(given, 'admission', 'bufferTokens', 100, [0, MAX_U32]),
    intervalMs: whole(given, 'admission', 'intervalMs', 5000, [1, MAX_U32]),
    thetaBp: Math.round(theta(given) * BASIS_POINTS),
    forceAfterMs: seconds(given, 'forceAfterSeconds'),
    hostTokens: hostTokens(given),
    holdLimitMs: seconds(given, 'holdLimitSeconds'),
    maxRunning: most(given, 'maxRunning'),
    maxSessions: most(given, 'maxSessions'),
    sessionIdleMs: seconds(given, 'sessionIdleSeconds'),
    queue: queueSettings(given.queue),
    weights: weights(given.tenantWeights),
  }
}

function most(given: Fields, field: string): number | undefined {
  return given[field] === undefined ? undefined : whole(given, 'admission', field, 1, [1, MAX_U32])
}

function weights(given: unknown): Record<string, number> {
  const path = 'admission.tenantWeights'
  const entries = Object.entries(given === undefined ? {} : dictionary(given, path))
  if (entries.length > MAX_WEIGHTS) {
    refuse(path, `must have at most ${MAX_WEIGHTS} tenants`, String(entries.length))
  }
  const range = { min: 0.001, max: 1000, kind: 'real' } as const
  const read = entries.map(([name, weight]) => {
    return [name, Math.round(number(weight, `${path}.${name}`, range) * 1000)] as const
  })
  return Object.fromEntries(read)
}

function refuseFields(given: Fields, foreign: readonly string[], policy: string): void {
  const field = foreign.find((name) => given[name] !== undefined)
  if (field !== undefined) refuse(`admission.${field}`, `needs policy: '${policy}'`)
}

function bands(given: unknown): Pick<Settings['admission'], 'pauseBp' | 'targetBp' | 'resumeBp'> {
  const path = 'admission.hysteresis'
  const shares = section(given, path, ['pause', 'target', 'resume'])
  const pauseBp = share(shares, path, 'pause', 0.95)
  const targetBp = share(shares, path, 'target', 0.8)
  const resumeBp = share(shares, path, 'resume', 0.85)
  if (targetBp > resumeBp || resumeBp > pauseBp) {
    const found = [targetBp, resumeBp, pauseBp].map((bp) => bp / BASIS_POINTS).join(', ')
    refuse(path, 'must have target <= resume <= pause', found)
  }
  return { pauseBp, targetBp, resumeBp }
}

function theta(given: Fields): number {
  if (given.theta === undefined) {
    const names = Object.keys(PRESETS) as (keyof typeof PRESETS)[]
    return PRESETS[oneOf(given.preset ?? 'balanced', 'admission.preset', names)]
  }
  if (given.preset !== undefined) refuse('admission.theta', 'cannot be set beside preset')
  const range = { min: 1 / BASIS_POINTS, max: 10, kind: 'real' } as const
  return number(given.theta, 'admission.theta', range)
}

function hostTokens(given: Fields): number | undefined {
  const range = { min: 1, max: MAX_COUNT, kind: 'integer' } as const
  const { hostTokens: value } = given
  return value === undefined ? undefined : number(value, 'admission.hostTokens', range)
}

function seconds(given: Fields, field: string): number | undefined {
  const value = given[field]
  return value === undefined ? undefined : milliseconds(value, `admission.${field}`)
}

function section(value: unknown, path: string, known: readonly string[]): Fields {
  return value === undefined ? {} : fields(value, path, known)
}

function table<K extends string>(
  defaults: Readonly<Record<K, number>>,
  read: (field: K, fallback: number) => number,
): Record<K, number> {
  const entries = Object.entries<number>(defaults).map(([key, fallback]) => {
    return [key, read(key as K, fallback)] as const
  })
  return Object.fromEntries(entries) as Record<K, number>
}

function whole(
  given: Fields,
  path: string,
  field: string,
  fallback: number,
  [min, max]: readonly [number, number],
): number {
  const at = path === '' ? field : `${path}.${field}`
  return number(given[field] ?? fallback, at, { min, max, kind: 'integer' })
}

function weight(given: Fields, field: ScoreField, fallback: number): number {
  const max = SHARES.includes(field) ? 1 : 1e9
  return number(given[field] ?? fallback, `score.${field}`, { min: 0, max, kind: 'real' })
}

/** A share of capacity in (0, 1] as whole basis points. */
function share(given: Fields, path: string, field: string, fallback: number): number {
  const range = { min: 1 / BASIS_POINTS, max: 1, kind: 'real' } as const
  const value = number(given[field] ?? fallback, `${path}.${field}`, range)
  return Math.round(value * BASIS_POINTS)
}
