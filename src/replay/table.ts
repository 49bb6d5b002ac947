/**
 * How do the figures look in a terminal?
 *
 * One table a setting, a line a figure, a column a policy; a star marks the best of a line, whoever
 * has it. Over several seeds it is the median, with the least and the most behind it. Figures that no policy has are left out. No colours, so that it can be pasted.
 */
import { columns, text } from '../cli/table.js'
import { ALL, type Figure, showRange } from './figures.js'
import type { Report } from './report.js'
import type { Comparison } from './run.js'
import { bySetting, type Group, groups, value, winner } from './summary.js'

function tables(comparison: Comparison): string {
  return [...bySetting(groups(comparison.runs))].map(([name, of]) => table(name, of)).join('\n\n')
}

function table(name: string, of: readonly Group[]): string {
  const rows = ALL.map((figure) => row(figure, of)).filter((cells) => cells !== undefined)
  const { population, drawn } = of[0]?.runs[0]?.report ?? {}
  const live = population ? `, ${population} live sessions` : ''
  const head = [`${name}${live}`, ...of.map(({ label }) => label)]
  return [columns([head, ...rows], 2), ...(drawn ? [pool(drawn)] : [])].join('\n')
}

/** Which sessions of the trace live, since the others are not in the figures. */
function pool(drawn: NonNullable<Report['drawn']>): string {
  const { sessions, too_short, too_large, children, least_turns, largest_tokens } = drawn
  const left: [number, string][] = [
    [too_short, `of fewer than ${least_turns} turns`],
    [too_large, `with a prompt of ${text(largest_tokens)} tokens or more`],
    [children, 'spawned by another one'],
  ]
  const out = left.flatMap(([count, why]) => (count > 0 ? [`${text(count)} ${why}`] : []))
  const without = out.length === 0 ? '' : `; left out: ${out.join(', ')}`
  return `drawn from ${text(sessions)} sessions of the trace${without}`
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
