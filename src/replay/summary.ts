/**
 * What do the seeds of one policy in one setting say together?
 *
 * The median of a figure, and its least and largest value over the seeds. A seed without the figure is
 * left out; none at all is no figure.
 */
import { quantile, sorted } from '../demo/statistics.js'
import type { Figure, Value } from './figures.js'
import type { Setting } from './plan.js'
import type { Run } from './run.js'

/** The runs of one policy in one setting, one a seed. */
interface Group extends Setting {
  label: string
  runs: readonly Run[]
}

function groups(runs: readonly Run[]): Group[] {
  const found = new Map<string, Run[]>()
  for (const run of runs) {
    const key = JSON.stringify([run.workers, run.pressure, run.label])
    found.set(key, [...(found.get(key) ?? []), run])
  }
  return [...found.values()].map((of) => {
    const { workers, pressure, label } = of[0] as Run
    return { workers, pressure, label, runs: of }
  })
}

function value({ runs }: Group, figure: Pick<Figure, 'of'>): Value | undefined {
  const values = runs.flatMap(({ report }) => figure.of(report) ?? [])
  const ascending = sorted(values)
  const [least, median, most] = [ascending[0], quantile(ascending, 0.5), ascending.at(-1)]
  if (least === undefined || median === undefined || most === undefined) return undefined
  return { median, least, most }
}

/** A fleet in words. */
function fleetName(workers: number): string {
  if (workers === 0) return 'behind an endpoint'
  return `${workers} worker${workers === 1 ? '' : 's'}`
}

/** The pressure in words. */
function loadName(pressure: number | undefined): string {
  return pressure === undefined ? 'as recorded' : `pressure ${pressure}`
}

/** The setting in words. */
function caption({ workers, pressure }: Setting): string {
  return `${fleetName(workers)}, ${loadName(pressure)}`
}

/** Groups of one setting beside each other, by the setting in words. */
function bySetting(of: readonly Group[]): ReadonlyMap<string, readonly Group[]> {
  const found = new Map<string, Group[]>()
  for (const group of of) {
    const name = caption(group)
    found.set(name, [...(found.get(name) ?? []), group])
  }
  return found
}

/** The label with the best median; undefined when the best is shared, or alone. */
function winner(of: readonly Group[], figure: Figure): string | undefined {
  const sign = figure.better === 'higher' ? 1 : -1
  const ranked = of
    .flatMap((group) => {
      const found = value(group, figure)
      return found === undefined ? [] : [{ label: group.label, rank: sign * found.median }]
    })
    .sort((a, b) => b.rank - a.rank)
  const [first, second] = ranked
  return second === undefined || first?.rank === second.rank ? undefined : first?.label
}

export { bySetting, caption, fleetName, type Group, groups, loadName, value, winner }
