/**
 * Which policies can be compared, and how is one named?
 *
 * `round-robin` and `least-loaded` are what load balancers do; `kv` is the choice of a worker by the
 * published cost and its weights, nothing held (`none` is another name for it), and `warmpath` the same
 * with the weights that a scheduler has without options. The others are a scheduler's admission policies.
 * Options if wanted: `lease:theta=0.35`, `kv:prefillScale=4`; and gates before any policy of ours, with the
 * order in which turns wait for them: `warmpath:maxRunning=8:queue=wspt`. Everything is checked here,
 * before a trace is read.
 */
import { DEFAULT_SCORE } from '../index.js'
import type { Scenario } from '../workload.js'

interface Policy {
  label: string
  policy: Scenario['policy']
  score?: NonNullable<Scenario['score']>
}

/** What a value may be: a whole number from and to, one of some words, or any number of a range. */
type Allowed = readonly [least: number, most: number] | readonly string[] | Range
interface Range {
  readonly least: number
  readonly most: number
}
type Known = Readonly<Record<string, Allowed>>

const BALANCERS = ['round-robin', 'least-loaded'] as const
/** Basis points of a whole. */
const WHOLE = 10_000
const MONTH_MS = 2_592_000_000
const WEIGHT: Range = { least: 0, most: 1e6 }

const WEIGHTS: Known = Object.fromEntries(Object.keys(DEFAULT_SCORE).map((name) => [name, WEIGHT]))
/** Those that hold nothing, and the weights that they have by themselves; none: the published ones. */
const SCORES: Readonly<Record<string, Policy['score']>> = {
  kv: undefined,
  none: undefined,
  warmpath: DEFAULT_SCORE,
}

/** The options of each admission policy, by name. */
const ADMISSION: Readonly<Record<string, Known>> = {
  thunderagent: {
    pauseBp: [0, WHOLE],
    targetBp: [0, WHOLE],
    resumeBp: [0, WHOLE],
    bufferTokens: [0, 2 ** 32 - 1],
    intervalMs: [1, MONTH_MS],
  },
  lease: {
    theta: { least: 1 / WHOLE, most: 10 },
    forceAfterMs: [1, MONTH_MS],
    hostTokens: [1, Number.MAX_SAFE_INTEGER],
    eviction: ['lru', 'lease-end'],
  },
}
/** What a worker may have at once, and in which order turns wait for it. */
const GATES: Known = {
  maxRunning: [1, 2 ** 32 - 1],
  maxSessions: [1, 2 ** 32 - 1],
  queue: ['fcfs', 'wspt', 'lcfs'],
  maxAgeMs: [1, MONTH_MS],
}
/** Of a queue that lets later turns pass. */
const MAX_AGE_MS = 60_000
/** Every name that can be compared. */
const NAMES: readonly string[] = [...BALANCERS, ...Object.keys(SCORES), ...Object.keys(ADMISSION)]

/** Throws a RangeError for what is no name, or no option of it. */
function policies(text: string): Policy[] {
  const found = text.split(',').map((name) => policy(name.trim()))
  const labels = new Map(found.map((each) => [each.label, each]))
  return [...labels.values()]
}

function policy(text: string): Policy {
  const [name = '', ...options] = text.split(':')
  if (!NAMES.includes(name)) {
    throw new RangeError(`${NAMES.join(', ')}; "${name}" is none of them`)
  }
  const balancer = BALANCERS.find((each) => each === name)
  const isScore = Object.hasOwn(SCORES, name)
  const own = isScore ? WEIGHTS : (ADMISSION[name] ?? {})
  const known = balancer === undefined ? { ...own, ...GATES } : {}
  const given = options.map((each) => option(each, name, known))
  if (balancer !== undefined) return { label: name, policy: balancer }
  const settings = Object.fromEntries(given.filter(([option]) => !Object.hasOwn(GATES, option)))
  const gated = gates(name, Object.fromEntries(given))
  if (!isScore)
    return { label: text, policy: { core: { policy: name, ...inBasisPoints(settings), ...gated } } }
  return {
    label: text.replace(/^none\b/, 'kv'),
    policy: { core: { policy: 'none', ...gated } },
    score: { ...SCORES[name], ...settings } as NonNullable<Policy['score']>,
  }
}

/** As the core is told of gates and their queue. */
function gates(of: string, given: Record<string, string | number>): Record<string, unknown> {
  const { maxRunning, maxSessions, queue: order, maxAgeMs = MAX_AGE_MS } = given
  const open = { ...(maxRunning && { maxRunning }), ...(maxSessions && { maxSessions }) }
  if (given.maxAgeMs !== undefined && (order === undefined || order === 'fcfs')) {
    throw new RangeError(`with ${of} maxAgeMs beside queue=wspt or queue=lcfs`)
  }
  if (order === undefined) return open
  if (maxRunning === undefined && maxSessions === undefined) {
    throw new RangeError(`with ${of} queue beside maxRunning or maxSessions`)
  }
  return { ...open, queue: { order, priority: 'strict', maxAgeMs, classes: [] } }
}

/** As the core is told of `theta`. */
function inBasisPoints({ theta, ...others }: Record<string, string | number>) {
  return theta === undefined ? others : { ...others, thetaBp: Math.round(Number(theta) * WHOLE) }
}

function option(text: string, of: string, known: Known) {
  const [name = '', ...rest] = text.split('=')
  const allowed = Object.hasOwn(known, name) ? known[name] : undefined
  if (allowed === undefined) {
    const names = Object.keys(known)
    const all = names.length === 0 ? 'no options' : `${names.join(', ')}, each NAME=VALUE`
    throw new RangeError(`with ${of} ${all}; not "${text}"`)
  }
  return [name, value(rest.join('='), `${of}:${name}`, allowed)] as const
}

function value(text: string, of: string, allowed: Allowed): string | number {
  if (isWords(allowed)) {
    if (allowed.includes(text)) return text
    throw new RangeError(`as ${of} ${allowed.join(' or ')}; not "${text}"`)
  }
  const isWhole = 'length' in allowed
  const [least, most] = isWhole ? allowed : [allowed.least, allowed.most]
  const isNumber = isWhole ? /^\d+$/ : /^\d+(\.\d+)?$/
  const found = isNumber.test(text) ? Number(text) : Number.NaN
  if (found >= least && found <= most) return found
  const what = isWhole ? 'a whole number' : 'a number'
  throw new RangeError(`as ${of} ${what} from ${least} to ${most}; not "${text}"`)
}

function isWords(allowed: Allowed): allowed is readonly string[] {
  return Array.isArray(allowed) && typeof allowed[0] === 'string'
}

export { type Policy, policies }
