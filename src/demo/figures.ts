/**
 * Which figures sum up a run, and what do they mean?
 *
 * One list of metrics that the table, the picture and the JSON rows all read, so that they cannot
 * disagree. Every figure comes from what the clients saw: the usage counts in the answers and the
 * clock at their end of the connection.
 *
 * Fairness is Jain's index over the progress of the top-level sessions, where progress is the time
 * a session would have taken alone on a warm engine over the time it took: sessions differ in
 * length, and an index over raw times would measure the workload. A session that did not complete
 * has made no progress.
 */
import { keptPace, PACE_GOAL } from './pace.js'
import { ROUTERS, type RouterName, type RunRecord, type SessionRecord } from './record.js'
import { jain, mean, quantile, sorted, sum } from './statistics.js'

type Unit = 'share' | 'tokens' | 'turns/min' | 's' | 'index'

interface Metric {
  /** Second half of the JSON name. */
  key: string
  /** What people read. */
  label: string
  unit: Unit
  better: 'higher' | 'lower'
  /** Undefined when nothing was measured. */
  of(run: RunRecord): number | undefined
}

interface Row {
  name: string
  /** null when nothing was measured. */
  value: number | null
  unit: string
  /** The better of the two baselines. */
  peer?: string
  /** value over the peer's value. */
  ratio?: number
  goal?: string
  holds?: boolean
}

function hitRate(run: RunRecord): number | undefined {
  const counted = run.turns.filter((turn) => turn.usage.promptTokens !== undefined)
  const prompt = sum(counted.map((turn) => turn.usage.promptTokens ?? 0))
  return prompt === 0
    ? undefined
    : sum(counted.map((turn) => turn.usage.cachedTokens ?? 0)) / prompt
}

function computedTokens(run: RunRecord): number {
  return sum(run.turns.map(({ usage }) => (usage.promptTokens ?? 0) - (usage.cachedTokens ?? 0)))
}

function completedTurns(run: RunRecord): number {
  return run.turns.filter((turn) => turn.error === undefined).length
}

function turnsAMinute(run: RunRecord): number | undefined {
  return run.elapsedMs > 0 ? completedTurns(run) / (run.elapsedMs / 60_000) : undefined
}

/** Seconds to the first byte of content. */
function firstContentSeconds(run: RunRecord): number[] {
  return sorted(
    run.turns.flatMap(({ sentMs, firstContentMs }) =>
      firstContentMs === undefined ? [] : [(firstContentMs - sentMs) / 1000],
    ),
  )
}

function heldSeconds(run: RunRecord): number[] {
  return sorted(run.turns.flatMap(({ heldMs }) => (heldMs === undefined ? [] : [heldMs / 1000])))
}

function topLevel(run: RunRecord): SessionRecord[] {
  return run.sessions.filter((session) => session.parent === undefined)
}

function completionSeconds(run: RunRecord): number[] {
  return sorted(
    topLevel(run).flatMap(({ startedMs, completedMs }) =>
      completedMs === undefined ? [] : [(completedMs - startedMs) / 1000],
    ),
  )
}

function progress({ startedMs, completedMs, aloneMs }: SessionRecord): number {
  return completedMs === undefined ? 0 : aloneMs / (completedMs - startedMs)
}

function seconds(key: string, label: string, of: Metric['of']): Metric {
  return { key, label, unit: 's', better: 'lower', of }
}

/** In the order in which they are shown. */
const METRICS: readonly Metric[] = [
  { key: 'hit_rate', label: 'prefix hit rate', unit: 'share', better: 'higher', of: hitRate },
  {
    key: 'computed_tokens',
    label: 'prompt tokens computed',
    unit: 'tokens',
    better: 'lower',
    of: computedTokens,
  },
  {
    key: 'turns_per_minute',
    label: 'turns a minute',
    unit: 'turns/min',
    better: 'higher',
    of: turnsAMinute,
  },
  seconds('ttft_p50', 'TTFT with hold, p50', (run) => quantile(firstContentSeconds(run), 0.5)),
  seconds('ttft_p95', 'TTFT with hold, p95', (run) => quantile(firstContentSeconds(run), 0.95)),
  seconds('ttft_p99', 'TTFT with hold, p99', (run) => quantile(firstContentSeconds(run), 0.99)),
  seconds('hold_p50', 'hold, p50', (run) => quantile(heldSeconds(run), 0.5)),
  seconds('hold_p95', 'hold, p95', (run) => quantile(heldSeconds(run), 0.95)),
  seconds('hold_max', 'hold, longest', (run) => heldSeconds(run).at(-1)),
  seconds('session_completion_mean', 'session completion, mean', (run) =>
    mean(completionSeconds(run)),
  ),
  seconds('session_completion_p99', 'session completion, p99', (run) =>
    quantile(completionSeconds(run), 0.99),
  ),
  {
    key: 'jain_fairness',
    label: 'fairness (Jain)',
    unit: 'index',
    better: 'higher',
    of: (run) => jain(topLevel(run).map(progress)),
  },
]

/** Top-level sessions that got their last answer. */
function completedSessions(run: RunRecord): number {
  return completionSeconds(run).length
}

function errors(run: RunRecord): number {
  return run.turns.filter((turn) => turn.error !== undefined).length
}

/** Whether every session completed and nothing is left behind in the router. */
function sound(run: RunRecord): boolean {
  return (
    completedSessions(run) === topLevel(run).length &&
    run.reservationsLeft === 0 &&
    errors(run) === 0
  )
}

function better(metric: Metric, a: number, b: number): boolean {
  return metric.better === 'higher' ? a > b : a < b
}

/** The router with the best figure; undefined when none has one or the best is shared. */
function winner(metric: Metric, runs: readonly RunRecord[]): RouterName | undefined {
  let best: { router: RouterName; value: number } | undefined
  let shared = false
  for (const run of runs) {
    const value = metric.of(run)
    if (value === undefined) continue
    shared = value === best?.value || (shared && !(best && better(metric, value, best.value)))
    if (best === undefined || better(metric, value, best.value))
      best = { router: run.router, value }
  }
  return shared ? undefined : best?.router
}

/** The baseline that a Warmpath figure is measured against: the better of the two. */
function peerOf(metric: Metric, runs: readonly RunRecord[]): RunRecord | undefined {
  let peer: RunRecord | undefined
  for (const run of runs) {
    const value = metric.of(run)
    if (run.router === 'warmpath' || value === undefined) continue
    const standing = peer && metric.of(peer)
    if (standing === undefined || better(metric, value, standing)) peer = run
  }
  return peer
}

function metricRow(metric: Metric, run: RunRecord, runs: readonly RunRecord[]): Row {
  const value = metric.of(run)
  const row: Row = { name: `${run.router}.${metric.key}`, value: value ?? null, unit: metric.unit }
  const peer = run.router === 'warmpath' ? peerOf(metric, runs) : undefined
  if (peer === undefined) return row
  row.peer = peer.router
  const standing = metric.of(peer)
  if (value !== undefined && standing) row.ratio = value / standing
  return row
}

function soundnessRows(run: RunRecord): Row[] {
  const wanted = topLevel(run).length
  const completed = completedSessions(run)
  const failed = errors(run)
  const left = run.reservationsLeft
  const row = (key: string, value: number, unit: string, goal: string, holds: boolean): Row => ({
    name: `${run.router}.${key}`,
    value,
    unit,
    goal,
    holds,
  })
  return [
    row('sessions_completed', completed, 'sessions', `all ${wanted}`, completed === wanted),
    row('reservations_left', left, 'reservations', '0', left === 0),
    row('errors', failed, 'turns', '0', failed === 0),
  ]
}

/** How far the machine is in the run's times. */
function paceRows(run: RunRecord): Row[] {
  const { router, pace } = run
  return [
    { name: `${router}.lag_p99`, value: pace.lagP99Ms / 1000, unit: 's' },
    {
      name: `${router}.overhead_mean`,
      value: pace.overheadMs / 1000,
      unit: 's',
      goal: PACE_GOAL,
      holds: keptPace(run),
    },
  ]
}

/** Every figure of every run, with names that stay the same between versions. */
function rows(runs: readonly RunRecord[]): Row[] {
  return ROUTERS.flatMap((router) => runs.filter((run) => run.router === router)).flatMap((run) => [
    ...METRICS.map((metric) => metricRow(metric, run, runs)),
    ...soundnessRows(run),
    ...paceRows(run),
  ])
}

/** A figure as people read it, with its unit. */
function show(value: number | undefined, unit: Unit): string {
  if (value === undefined) return '-'
  switch (unit) {
    case 'share':
      return `${(value * 100).toFixed(1)} %`
    case 'tokens':
      return value >= 1e6 ? `${(value / 1e6).toFixed(2)} M` : `${(value / 1e3).toFixed(1)} k`
    case 'turns/min':
      return value.toFixed(1)
    case 's':
      return `${value.toFixed(value < 10 ? 2 : 1)} s`
    case 'index':
      return value.toFixed(3)
  }
}

export {
  completedSessions,
  errors,
  METRICS,
  type Metric,
  type Row,
  rows,
  show,
  sound,
  topLevel,
  winner,
}
