/**
 * What did the clients of an endpoint see, as the simulator would report it?
 *
 * Figures come from the answers' usage counts and the clients' clock. Inside an endpoint nobody looks:
 * holds, passes, pre-emptions, placements and what a session would take alone are not known, and
 * absent. Between tokens only the mean of a turn is known, which counts once for each of its gaps.
 */
import { mean, quantile, sorted, sum } from '../../demo/statistics.js'
import type { WorkloadTurns } from '../../workload.js'
import type { Report, Sample, Spread } from '../report.js'
import type { TurnOutcome } from './drive.js'

/** Failures by what was wrong, the most frequent first. */
type Failures = readonly (readonly [what: string, count: number])[]

/** A status that says that the prompt is too large, or that the request is. */
const TOO_LARGE: ReadonlySet<number> = new Set([400, 413])
const GAVE_UP = 'no token in time'
const SAMPLES = 160
/** Of one answer, whatever its endpoint says of its length. */
const MOST_GAPS = 100_000

function report(label: string, turns: WorkloadTurns, outcomes: readonly TurnOutcome[]): Report {
  const answered = outcomes.filter(({ error }) => error === undefined)
  const seconds = span(outcomes) / 1000
  const output = total(answered, 'outputTokens')
  const prompt = total(answered, 'promptTokens')
  const cached = total(answered, 'cachedTokens')
  const perSecond = (count: number) => (seconds > 0 ? count / seconds : 0)
  return {
    router: label,
    workers: 0,
    seed: 0,
    population: null,
    drawn: null,
    turns: counts(turns, outcomes),
    work: {
      seconds,
      output_tokens: output,
      output_tokens_per_second: perSecond(output),
      turns_per_minute: 60 * perSecond(answered.length),
      prompt_tokens: prompt,
      cached_tokens: cached,
      loaded_tokens: 0,
      hit_rate: prompt > 0 ? cached / prompt : null,
      prompt_tokens_computed: prompt - cached,
      preemptions: 0,
      passes: 0,
      busy: 0,
    },
    latency: latency(outcomes),
    sessions: sessions(turns, outcomes),
    regret: { placements: 0, not_best: 0, offered_tokens: 0, taken_tokens: 0 },
    promises: null,
    events: null,
    series: series(turns, outcomes),
    index: null,
  }
}

function failures(outcomes: readonly TurnOutcome[]): Failures {
  const found = new Map<string, number>()
  for (const { error } of outcomes) {
    if (error !== undefined) found.set(error, (found.get(error) ?? 0) + 1)
  }
  return [...found].sort((a, b) => b[1] - a[1])
}

/** From the first turn that was due to the last end. */
function span(outcomes: readonly TurnOutcome[]): number {
  if (outcomes.length === 0) return 0
  const first = outcomes.reduce((least, { dueMs }) => Math.min(least, dueMs), Infinity)
  return outcomes.reduce((most, { endMs }) => Math.max(most, endMs), 0) - first
}

function total(
  outcomes: readonly TurnOutcome[],
  of: 'outputTokens' | 'promptTokens' | 'cachedTokens',
): number {
  return sum(outcomes.map((outcome) => outcome[of] ?? 0))
}

function counts({ session }: WorkloadTurns, outcomes: readonly TurnOutcome[]): Report['turns'] {
  const failed = outcomes.filter(({ error }) => error !== undefined)
  const rejected = failed.filter(({ status }) => status !== undefined && TOO_LARGE.has(status))
  const left = failed.filter(({ error }) => error === GAVE_UP)
  return {
    arrived: outcomes.length,
    completed: outcomes.length - failed.length,
    outgrown: 0,
    rejected: rejected.length,
    refused: failed.length - rejected.length - left.length,
    given_up: left.length,
    unfinished: session.length - outcomes.length,
    retried: 0,
  }
}

function latency(outcomes: readonly TurnOutcome[]): Report['latency'] {
  const waits = outcomes.flatMap(({ sentMs, firstMs }) =>
    firstMs === undefined ? [] : [firstMs - sentMs],
  )
  const ends = outcomes.filter(({ error }) => error === undefined)
  const gaps = ends.flatMap(({ firstMs, endMs, outputTokens = 0 }) => {
    if (firstMs === undefined || outputTokens < 2) return []
    const gap = (endMs - firstMs) / (outputTokens - 1)
    return Array.from({ length: Math.min(outputTokens - 1, MOST_GAPS) }, () => gap)
  })
  return {
    ttft: spread(waits),
    itl: spread(gaps),
    hold: spread([]),
    e2e: spread(ends.map(({ sentMs, endMs }) => endMs - sentMs)),
  }
}

function spread(values: readonly number[]): Spread {
  const ascending = sorted(values)
  const at = (q: number) => quantile(ascending, q) ?? null
  return {
    count: ascending.length,
    mean_ms: mean(ascending) ?? null,
    p50_ms: at(0.5),
    p95_ms: at(0.95),
    p99_ms: at(0.99),
    max_ms: ascending.at(-1) ?? null,
  }
}

function sessions(turns: WorkloadTurns, outcomes: readonly TurnOutcome[]): Report['sessions'] {
  const left = new Map<number, number>()
  for (const session of turns.session) left.set(session, (left.get(session) ?? 0) + 1)
  const lives = new Map<number, { from: number; to: number }>()
  for (const { turn, dueMs, endMs, error } of outcomes) {
    const session = turns.session[turn] ?? 0
    const life = lives.get(session) ?? { from: dueMs, to: endMs }
    lives.set(session, { from: Math.min(life.from, dueMs), to: Math.max(life.to, endMs) })
    if (error === undefined) left.set(session, (left.get(session) ?? 0) - 1)
  }
  const whole = [...lives].filter(([session]) => left.get(session) === 0)
  return {
    judged: lives.size,
    finished: whole.length,
    completion: spread(whole.map(([, { from, to }]) => to - from)),
    slowdown_mean: null,
    slowdown_p99: null,
    slowdown_by_size: [null, null, null, null],
    jain: null,
    slowest_progress: null,
    progress_mean: null,
  }
}

/** Requests under way, and the contexts of sessions that have begun and not finished. */
function series(turns: WorkloadTurns, outcomes: readonly TurnOutcome[]): Sample[] {
  const end = outcomes.reduce((most, { endMs }) => Math.max(most, endMs), 0)
  const moments = Array.from({ length: SAMPLES }, (_, i) => (end * i) / (SAMPLES - 1))
  return moments.map((at) => {
    const contexts = new Map<number, number>()
    let [running, queued] = [0, 0]
    for (const { turn, dueMs, sentMs, endMs } of outcomes) {
      if (dueMs <= at && at < sentMs) queued += 1
      if (sentMs <= at && at < endMs) running += 1
      if (sentMs > at) continue
      const session = turns.session[turn] ?? 0
      const isOver = turns.next[turn] === 'end' && endMs <= at
      const tokens = (turns.inputTokens[turn] ?? 0) + (turns.outputTokens[turn] ?? 0)
      contexts.set(session, isOver ? 0 : Math.max(contexts.get(session) ?? 0, tokens))
    }
    return {
      at_ms: Math.round(at),
      running,
      queued,
      held: 0,
      paused: 0,
      working_set_tokens: sum([...contexts.values()]),
    }
  })
}

export { type Failures, failures, report }
