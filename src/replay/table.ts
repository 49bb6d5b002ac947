/**
 * How do the figures look in a terminal?
 *
 * One table a setting, a line a figure, a column a policy; a star marks the best of a line, whoever
 * has it. Over several seeds it is the median, with the least and the most behind it. Figures that no policy has are left out. No colours, so that it can be pasted.
 */
import { columns } from '../cli/table.js'
import { ALL, type Figure, showRange } from './figures.js'
import type { Comparison } from './run.js'
import { bySetting, type Group, groups, value, winner } from './summary.js'

function tables(comparison: Comparison): string {
  return [...bySetting(groups(comparison.runs))].map(([name, of]) => table(name, of)).join('\n\n')
}

function table(name: string, of: readonly Group[]): string {
  const rows = ALL.map((figure) => row(figure, of)).filter((cells) => cells !== undefined)
  const population = of[0]?.runs[0]?.report.population
  const live = population ? `, ${population} live sessions` : ''
  const head = [`${name}${live}`, ...of.map(({ label }) => label)]
  return columns([head, ...rows], 2)
}

function row(figure: Figure, of: readonly Group[]): string[] | undefined {
  const best = winner(of, figure)
  const cells = of.map((group) => {
    const text = showRange(value(group, figure), figure.unit)
    return `${text}${group.label === best ? ' *' : '  '}`
  })
  return cells.every((cell) => cell.trim() === '-') ? undefined : [figure.label, ...cells]
}

export { tables }
