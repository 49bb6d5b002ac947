/**
 * What do the charts draw?
 *
 * Four flat tables, so that every chart is a choice of columns. A point is a policy in a setting with
 * its median and the range over the seeds; a missing figure is a missing row. Over time only the first
 * seed of the hardest setting is drawn: the others would hide it.
 */
import { ALL, type Value } from '../figures.js'
import type { Comparison, Run } from '../run.js'
import { fleetName, type Group, groups, loadName, value } from '../summary.js'

/** A figure of a policy in a setting. */
interface Point {
  figure: string
  policy: string
  fleet: string
  /** Undefined as recorded. */
  pressure?: number
  median: number
  least: number
  most: number
}

/** Mean slowdown of a quarter of the sessions. */
interface Quarter {
  policy: string
  fleet: string
  load: string
  quarter: string
  /** The median over the seeds. */
  mean: number
}

/** The fleet at a moment; counts. */
interface Moment {
  policy: string
  gauge: string
  minutes: number
  value: number
}

/** Reuse that caches could have given. */
interface Bound {
  fleet: string
  bound: string
  share: number
}

interface Data {
  points: readonly Point[]
  quarters: readonly Quarter[]
  moments: readonly Moment[]
  bounds: readonly Bound[]
}

const QUARTERS = ['smallest', 'small', 'large', 'largest'] as const
/** Enough for a curve as wide as a screen's half. */
const MOST_MOMENTS = 160

function data(comparison: Comparison): Data {
  const of = groups(comparison.runs)
  return {
    points: of.flatMap(points),
    quarters: of.flatMap(quarters),
    moments: hardest(comparison).flatMap(moments),
    bounds: bounds(comparison),
  }
}

function points(group: Group): Point[] {
  return ALL.flatMap((figure) => {
    const found = value(group, figure)
    if (found === undefined) return []
    const { label: policy, pressure } = group
    const fleet = fleetName(group.workers)
    const at = pressure === undefined ? {} : { pressure }
    return [{ figure: figure.key, policy, fleet, ...at, ...rounded(found) }]
  })
}

function quarters(group: Group): Quarter[] {
  return QUARTERS.flatMap((quarter, index) => {
    const of = ({ sessions }: Run['report']) => sessions.slowdown_by_size[index] ?? undefined
    const found = value(group, { of })
    if (found === undefined) return []
    const { label: policy, pressure } = group
    return [
      {
        policy,
        fleet: fleetName(group.workers),
        load: loadName(pressure),
        quarter,
        mean: round(found.median),
      },
    ]
  })
}

/** The first seed of each policy in the setting with the most pressure and the fewest workers. */
function hardest({ runs }: Comparison): Run[] {
  const most = Math.max(...runs.map((run) => run.pressure ?? 0))
  const pressed = runs.filter((run) => (run.pressure ?? 0) === most && run.seed === runs[0]?.seed)
  const fewest = Math.min(...pressed.map((run) => run.workers))
  return pressed.filter((run) => run.workers === fewest)
}

const GAUGES = {
  'working set (tokens)': 'working_set_tokens',
  'turns running': 'running',
  'turns queued in engines': 'queued',
  'turns held': 'held',
  'sessions paused': 'paused',
} as const

function moments({ label: policy, report }: Run): Moment[] {
  const every = Math.ceil(report.series.length / MOST_MOMENTS)
  return report.series
    .filter((_, index) => index % every === 0)
    .flatMap((sample) =>
      Object.entries(GAUGES).map(([gauge, key]) => ({
        policy,
        gauge,
        minutes: round(sample.at_ms / 60_000),
        value: sample[key],
      })),
    )
}

function bounds(comparison: Comparison): Bound[] {
  return [...comparison.bounds].flatMap(([workers, found]) => {
    if (found.prompt_tokens === 0) return []
    const of = (bound: string, tokens: number) => ({
      fleet: fleetName(workers),
      bound,
      share: round(tokens / found.prompt_tokens),
    })
    return [
      of('infinite cache', found.infinite_tokens),
      of('one pooled cache', found.pooled_tokens),
    ]
  })
}

function rounded({ median, least, most }: Value) {
  return { median: round(median), least: round(least), most: round(most) }
}

/** Five digits: more than a chart shows. */
function round(value: number): number {
  return Number(value.toPrecision(5))
}

export { type Data, data, GAUGES, hardest, QUARTERS }
