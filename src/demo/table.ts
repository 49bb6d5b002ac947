/**
 * How do the figures look in a terminal?
 *
 * Plain text, one line a metric, one column a router, numbers flush right; a star marks the best
 * figure of a line, whoever has it. No colours, so that it can be pasted.
 */
import { columns } from '../cli/table.js'
import { completedSessions, errors, METRICS, show, topLevel, winner } from './figures.js'
import type { RunRecord } from './record.js'

/** The comparison as text, without a newline at its end. */
function table(runs: readonly RunRecord[]): string {
  const head = ['', ...runs.map((run) => `${run.router}  `)]
  const body = METRICS.map((metric) => {
    const best = winner(metric, runs)
    const cells = runs.map(
      (run) => `${show(metric.of(run), metric.unit)}${run.router === best ? ' *' : '  '}`,
    )
    return [metric.label, ...cells]
  })
  const counted = (label: string, of: (run: RunRecord) => string) => [
    label,
    ...runs.map((run) => `${of(run)}  `),
  ]
  return columns(
    [
      head,
      ...body,
      counted('sessions completed', (run) => `${completedSessions(run)}/${topLevel(run).length}`),
      counted('reservations left', (run) => String(run.reservationsLeft)),
      counted('failed turns', (run) => String(errors(run))),
    ],
    3,
  )
}

export { table }
