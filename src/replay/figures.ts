/**
 * Which figures sum up a run, and what do they mean?
 *
 * One list that the table, the page and the JSON rows all read, so that they cannot disagree. A
 * figure that nothing was measured for is undefined, never 0.
 */
import type { Report, Spread } from './report.js'

type Unit =
  | 'share'
  | 'tokens'
  | 'tokens/s'
  | 'turns/min'
  | 's'
  | 'ms'
  | 'x'
  | 'index'
  | 'turns'
  | 'messages'
  | 'times'
  | 'bytes'

interface Figure {
  /** Last part of a row's name; stable. */
  key: string
  /** What people read. */
  label: string
  unit: Unit
  better: 'higher' | 'lower'
  of(report: Report): number | undefined
}

/** What several runs say of one figure. */
interface Value {
  median: number
  least: number
  most: number
}

type Quantile = 'mean_ms' | 'p50_ms' | 'p95_ms' | 'p99_ms'

const SECONDS = 1000

function some(value: number | null): number | undefined {
  return value ?? undefined
}

function ratio(part: number, whole: number): number | undefined {
  return whole > 0 ? part / whole : undefined
}

function higher(key: string, label: string, unit: Unit, of: Figure['of']): Figure {
  return { key, label, unit, better: 'higher', of }
}

function lower(key: string, label: string, unit: Unit, of: Figure['of']): Figure {
  return { key, label, unit, better: 'lower', of }
}

/** A quantile of a duration, in seconds. */
function seconds(
  key: string,
  label: string,
  spread: (report: Report) => Spread,
  at: Quantile,
): Figure {
  return lower(key, label, 's', (report) => {
    const ms = spread(report)[at]
    return ms === null ? undefined : ms / SECONDS
  })
}

/** The same in milliseconds, for what takes some. */
function millis(
  key: string,
  label: string,
  spread: (report: Report) => Spread,
  at: Quantile,
): Figure {
  return lower(key, label, 'ms', (report) => some(spread(report)[at]))
}

/** Turns that did not get a whole answer. */
function failed({ turns }: Report): number {
  return turns.outgrown + turns.rejected + turns.refused + turns.given_up
}

const ttft = ({ latency }: Report) => latency.ttft
const itl = ({ latency }: Report) => latency.itl
const hold = ({ latency }: Report) => latency.hold
const completion = ({ sessions }: Report) => sessions.completion

/** In the order in which they are shown. */
const FIGURES = {
  throughput: higher(
    'output_tokens_per_second',
    'output tokens a second',
    'tokens/s',
    ({ work }) => work.output_tokens_per_second,
  ),
  turns: higher(
    'turns_per_minute',
    'turns a minute',
    'turns/min',
    ({ work }) => work.turns_per_minute,
  ),
  hitRate: higher('hit_rate', 'prefix hit rate', 'share', ({ work }) => some(work.hit_rate)),
  computed: lower(
    'prompt_tokens_computed',
    'prompt tokens computed',
    'tokens',
    ({ work }) => work.prompt_tokens_computed,
  ),
  ttftMean: seconds('ttft_mean', 'TTFT with hold, mean', ttft, 'mean_ms'),
  ttftP50: seconds('ttft_p50', 'TTFT with hold, p50', ttft, 'p50_ms'),
  ttftP95: seconds('ttft_p95', 'TTFT with hold, p95', ttft, 'p95_ms'),
  ttftP99: seconds('ttft_p99', 'TTFT with hold, p99', ttft, 'p99_ms'),
  itlP50: millis('itl_p50', 'inter-token latency, p50', itl, 'p50_ms'),
  itlP95: millis('itl_p95', 'inter-token latency, p95', itl, 'p95_ms'),
  itlP99: millis('itl_p99', 'inter-token latency, p99', itl, 'p99_ms'),
  heldTurns: lower('held_turns', 'turns held', 'turns', ({ latency }) => latency.hold.count),
  holdP50: seconds('hold_p50', 'hold of those held, p50', hold, 'p50_ms'),
  holdP95: seconds('hold_p95', 'hold of those held, p95', hold, 'p95_ms'),
  holdP99: seconds('hold_p99', 'hold of those held, p99', hold, 'p99_ms'),
  completionP50: seconds('session_completion_p50', 'session completion, p50', completion, 'p50_ms'),
  completionP95: seconds('session_completion_p95', 'session completion, p95', completion, 'p95_ms'),
  slowdown: lower('slowdown_mean', 'slowdown of sessions, mean', 'x', ({ sessions }) =>
    some(sessions.slowdown_mean),
  ),
  slowdownP99: lower('slowdown_p99', 'slowdown of sessions, p99', 'x', ({ sessions }) =>
    some(sessions.slowdown_p99),
  ),
  jain: higher('jain', 'fairness (Jain)', 'index', ({ sessions }) => some(sessions.jain)),
  slowest: higher('slowest_progress', 'progress of the slowest 5 %', 'share', ({ sessions }) =>
    some(sessions.slowest_progress),
  ),
  failed: lower('turns_failed', 'turns refused, cut or given up', 'turns', failed),
  notBest: lower('not_best', 'sent past a better cache', 'share', ({ regret }) =>
    ratio(regret.not_best, regret.placements),
  ),
  regret: lower('overlap_lost', 'cached tokens on offer, not taken', 'share', ({ regret }) =>
    ratio(regret.offered_tokens - regret.taken_tokens, regret.offered_tokens),
  ),
  missing: lower(
    'promised_missing',
    'cached tokens promised, not there',
    'share',
    ({ promises: told }) =>
      told === null ? undefined : ratio(told.missing_tokens, told.promised_tokens),
  ),
  unforeseen: lower(
    'cached_unforeseen',
    'cached tokens there, not promised',
    'share',
    ({ promises: told }) =>
      told === null
        ? undefined
        : ratio(
            told.unforeseen_tokens,
            told.promised_tokens - told.missing_tokens + told.unforeseen_tokens,
          ),
  ),
  broken: lower(
    'promises_broken_exact',
    "promises broken on an engine's word",
    'turns',
    ({ promises: told, events }) => (events === null ? undefined : told?.broken_exact),
  ),
  eventsLost: lower('events_lost', 'cache events lost', 'messages', ({ promises, events }) =>
    promises === null ? undefined : events?.lost,
  ),
  eventReplays: lower(
    'event_replays',
    'cache events asked for again',
    'times',
    ({ promises, events }) => (promises === null ? undefined : events?.replays),
  ),
  index: lower('index_bytes', "the router's index", 'bytes', ({ index }) => index?.bytes),
} as const satisfies Record<string, Figure>

const ALL: readonly Figure[] = Object.values(FIGURES)

/** A figure as people read it, with its unit. */
function show(value: number | undefined, unit: Unit): string {
  if (value === undefined) return '-'
  switch (unit) {
    case 'share':
      return `${(value * 100).toFixed(1)} %`
    case 'tokens':
    case 'bytes':
      return scaled(value, unit === 'bytes' ? 'B' : '')
    case 's':
      return `${value.toFixed(value < 10 ? 2 : 1)} s`
    case 'ms':
      return `${value.toFixed(value < 10 ? 2 : 1)} ms`
    case 'x':
      return `${value.toFixed(2)} x`
    case 'index':
      return value.toFixed(3)
    case 'turns':
    case 'messages':
    case 'times':
      return value.toLocaleString('en-US', { maximumFractionDigits: 1 })
    default:
      return value.toFixed(value < 100 ? 1 : 0)
  }
}

/** A figure over several runs: the median, and from the least to the most where they differ. */
function showRange(value: Value | undefined, unit: Unit): string {
  const middle = show(value?.median, unit)
  if (value === undefined || value.least === value.most) return middle
  return `${middle} (${show(value.least, unit)}..${show(value.most, unit)})`
}

function scaled(value: number, suffix: string): string {
  const [size, letter] =
    value >= 1e9 ? [1e9, 'G'] : value >= 1e6 ? [1e6, 'M'] : value >= 1e3 ? [1e3, 'k'] : [1, '']
  const digits = size === 1 ? 0 : 1
  return `${(value / size).toFixed(digits)} ${letter}${suffix}`.trim()
}

export { ALL, FIGURES, type Figure, failed, show, showRange, type Unit, type Value }
