/**
 * The figures as rows of JSON, with names that stay the same between versions:
 * `POLICY.w4.p1.5.FIGURE`, and `recorded` in place of the pressure. Values are medians over the seeds, with the
 * least and the most where there are several.
 */
import { ALL } from './figures.js'
import type { Comparison } from './run.js'
import { type Group, groups, value } from './summary.js'

interface Row {
  name: string
  /** null when nothing was measured. */
  value: number | null
  unit: string
  /** Over several seeds. */
  least?: number
  most?: number
  peer?: string
  ratio?: number
  goal?: string
  holds?: boolean
}

function rows({ runs, bounds }: Comparison): Row[] {
  const figures = groups(runs).flatMap((group) =>
    ALL.map((figure) => {
      const found = value(group, figure)
      return {
        name: `${prefix(group)}.${figure.key}`,
        value: found?.median ?? null,
        unit: figure.unit,
        ...(found !== undefined &&
          group.runs.length > 1 && { least: found.least, most: found.most }),
      }
    }),
  )
  const reuse = [...bounds].flatMap(([workers, found]) => [
    {
      name: `bound.w${workers}.infinite_cache`,
      value: share(found, 'infinite_tokens'),
      unit: 'share',
    },
    { name: `bound.w${workers}.pooled_cache`, value: share(found, 'pooled_tokens'), unit: 'share' },
  ])
  return [...figures, ...reuse]
}

function share(
  found: { prompt_tokens: number; infinite_tokens: number; pooled_tokens: number },
  of: 'infinite_tokens' | 'pooled_tokens',
): number | null {
  return found.prompt_tokens > 0 ? found[of] / found.prompt_tokens : null
}

function prefix({ label, workers, pressure }: Group): string {
  return `${label}.w${workers}.${pressure === undefined ? 'recorded' : `p${pressure}`}`
}

export { type Row, rows, share }
