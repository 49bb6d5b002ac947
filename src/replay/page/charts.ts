/**
 * Which charts does the page have, and what do they encode?
 *
 * Each is a Vega-Lite specification over one of the tables of data.ts. With several pressures a figure
 * is a line over them with the range of its seeds as a bar; with one load it is a bar a policy. Axes
 * of shares and counts start at zero; where they cannot be compared between panels each has its own.
 */
import { FIGURES, type Figure } from '../figures.js'
import { type Data, GAUGES, QUARTERS } from './data.js'

type Spec = Readonly<Record<string, unknown>>

interface Chart {
  title: string
  note: string
  /** Takes the room of two. */
  isWide: boolean
  spec: Spec
}

interface Section {
  title: string
  charts: readonly Chart[]
}

/** What the page compares. */
interface Frame {
  policies: readonly string[]
  fleets: readonly string[]
  /** Several make lines, one load makes bars. */
  pressures: readonly number[]
  /** Whether the trace ran at its own times: then the pooled cache is a bound. */
  isRecorded: boolean
  hasBounds: boolean
}

/** Readable on white and on near black, and apart for most colour-blind readers. */
const COLOURS = [
  '#8a8f98',
  '#c78f2c',
  '#2f7ed8',
  '#2fa36b',
  '#c2559d',
  '#d65f4a',
  '#6f63c9',
  '#3aa6b9',
]
const PANEL = { width: 250, height: 170 }

const isSwept = ({ pressures }: Frame) => pressures.length > 1

const color = ({ policies }: Frame) => ({
  field: 'policy',
  type: 'nominal',
  title: null,
  scale: { domain: policies, range: policies.map((_, i) => COLOURS[i % COLOURS.length]) },
})

/** The axis of a figure: its unit, how its numbers are written, and what they are multiplied by. */
function axis({ unit }: Figure): { title: string; format: string; by: number } {
  switch (unit) {
    case 'share':
      return { title: '%', format: '~f', by: 100 }
    case 'x':
      return { title: 'times alone', format: '~f', by: 1 }
    case 'index':
      return { title: 'index', format: '~f', by: 1 }
    case 's':
    case 'ms':
      return { title: unit, format: ',~f', by: 1 }
    default:
      return { title: unit, format: '~s', by: 1 }
  }
}

function scaled(by: number): Spec[] {
  return ['median', 'least', 'most'].map((name) => ({
    calculate: `datum.${name} * ${by}`,
    as: name,
  }))
}

/** One figure: a panel a fleet. */
function figureChart(
  frame: Frame,
  figure: Figure,
  note: string,
  more: readonly Spec[] = [],
): Chart {
  const { title, format, by } = axis(figure)
  const value = { type: 'quantitative', title, axis: { format }, scale: { zero: true } }
  const layers = isSwept(frame) ? lines(frame, value) : bars(frame, value)
  return {
    title: figure.label,
    isWide: false,
    note: `${note} ${figure.better === 'higher' ? 'Higher' : 'Lower'} is better.`.trim(),
    spec: {
      data: { name: 'points' },
      transform: [{ filter: `datum.figure === '${figure.key}'` }, ...scaled(by)],
      ...faceted(frame, [...layers, ...more]),
    },
  }
}

function faceted({ fleets }: Frame, layer: readonly Spec[]): Spec {
  if (fleets.length === 1) return { ...PANEL, width: 2 * PANEL.width, layer }
  return {
    facet: { field: 'fleet', type: 'nominal', title: null, sort: fleets },
    columns: 2,
    spec: { ...PANEL, layer },
  }
}

function lines(frame: Frame, value: Spec): Spec[] {
  const x = {
    field: 'pressure',
    type: 'quantitative',
    title: 'pressure',
    scale: { zero: false, nice: false },
    axis: { values: frame.pressures, format: '~f' },
  }
  const encoding = { x, color: color(frame) }
  const tooltip = [{ field: 'policy' }, { field: 'pressure' }, { field: 'median', format: '.4~s' }]
  return [
    { mark: { type: 'line' }, encoding: { ...encoding, y: { field: 'median', ...value } } },
    {
      mark: { type: 'rule', opacity: 0.6 },
      encoding: { ...encoding, y: { field: 'least', ...value }, y2: { field: 'most' } },
    },
    {
      mark: { type: 'point', filled: true, size: 36 },
      encoding: { ...encoding, y: { field: 'median', ...value }, tooltip },
    },
  ]
}

function bars(frame: Frame, value: Spec): Spec[] {
  const y = { field: 'policy', type: 'nominal', title: null, sort: frame.policies }
  const tooltip = [{ field: 'policy' }, { field: 'median', format: '.4~s' }]
  return [
    {
      mark: { type: 'bar', height: { band: 0.6 } },
      encoding: {
        y,
        x: { field: 'median', ...value },
        color: { ...color(frame), legend: null },
        tooltip,
      },
    },
    {
      mark: { type: 'rule' },
      encoding: { y, x: { field: 'least', ...value }, x2: { field: 'most' } },
    },
  ]
}

/** Reuse that the trace has, behind the hit rates. */
function boundRules(frame: Frame): Spec[] {
  const axisOf = isSwept(frame) ? 'y' : 'x'
  const kept = frame.isRecorded ? [] : [{ filter: "datum.bound === 'infinite cache'" }]
  return [
    {
      data: { name: 'bounds' },
      transform: [...kept, { calculate: 'datum.share * 100', as: 'share' }],
      mark: { type: 'rule', strokeDash: [5, 4], opacity: 0.8 },
      encoding: {
        [axisOf]: { field: 'share', type: 'quantitative' },
        tooltip: [{ field: 'bound' }, { field: 'share', format: '.1f' }],
      },
    },
    {
      data: { name: 'bounds' },
      transform: [...kept, { calculate: 'datum.share * 100', as: 'share' }],
      mark: {
        type: 'text',
        align: 'right',
        dx: -4,
        dy: isSwept(frame) ? -6 : 0,
        baseline: 'bottom',
      },
      encoding: {
        [axisOf]: { field: 'share', type: 'quantitative' },
        [isSwept(frame) ? 'x' : 'y']: { value: isSwept(frame) ? 'width' : 10 },
        text: { field: 'bound' },
      },
    },
  ]
}

function hitRateChart(frame: Frame): Chart {
  const found = 'Prompt tokens found in a cache.'
  if (!frame.hasBounds) return figureChart(frame, FIGURES.hitRate, found)
  const which = frame.isRecorded
    ? 'Dashed: one cache that never forgets, and one pooled cache of the fleet’s size, both in the order of the trace.'
    : 'Dashed: what a cache that never forgets would have reused of the trace.'
  return figureChart(frame, FIGURES.hitRate, `${found} ${which}`, boundRules(frame))
}

/** Slowdown by quarters of session size. */
function quartersChart(frame: Frame, data: Data): Chart {
  const loads = [...new Set(data.quarters.map(({ load }) => load))]
  const field = (name: string, sort: readonly string[]) => ({
    field: name,
    type: 'nominal',
    title: null,
    sort,
  })
  const layer = {
    mark: { type: 'line', point: { filled: true, size: 30 } },
    encoding: {
      x: {
        field: 'quarter',
        type: 'ordinal',
        sort: [...QUARTERS],
        title: 'quarter of the sessions, by largest prompt',
        axis: { labelAngle: 0 },
      },
      y: { field: 'mean', type: 'quantitative', title: 'slowdown (times alone)' },
      color: color(frame),
      tooltip: [{ field: 'policy' }, { field: 'quarter' }, { field: 'mean', format: '.3~g' }],
    },
  }
  return {
    title: 'slowdown by session size',
    isWide: true,
    note: 'Time that a session took over the time it would take alone. Each panel has its own scale. Lower is better.',
    spec: {
      data: { name: 'quarters' },
      facet: { column: field('load', loads), row: field('fleet', frame.fleets) },
      spec: { ...PANEL, ...layer },
      resolve: { scale: { y: 'independent' } },
    },
  }
}

function overTimeChart(frame: Frame, where: string): Chart {
  return {
    title: 'the fleet over time',
    isWide: true,
    note: `${where}, first seed. Each panel has its own scale.`,
    spec: {
      data: { name: 'moments' },
      facet: { field: 'gauge', type: 'nominal', title: null, sort: Object.keys(GAUGES) },
      columns: 2,
      spec: {
        ...PANEL,
        width: 2 * PANEL.width,
        mark: { type: 'line', strokeWidth: 1.2, interpolate: 'step-after' },
        encoding: {
          x: { field: 'minutes', type: 'quantitative', title: 'minutes of model time' },
          y: { field: 'value', type: 'quantitative', title: null, axis: { format: '~s' } },
          color: color(frame),
        },
      },
      resolve: { scale: { y: 'independent' } },
    },
  }
}

/** @param where the setting that is drawn over time */
function sections(frame: Frame, data: Data, where: string): Section[] {
  // A chart of nothing but zeros says less than the table of all figures.
  const figure = (of: Figure, note = '') =>
    data.points.some(({ figure: key, most }) => key === of.key && most > 0)
      ? [figureChart(frame, of, note)]
      : []
  return [
    {
      title: 'Work',
      charts: [
        ...figure(FIGURES.throughput),
        hitRateChart(frame),
        ...figure(FIGURES.computed, 'Computed again after a pre-emption included.'),
        ...figure(FIGURES.turns),
      ],
    },
    {
      title: 'Waiting',
      charts: [
        ...figure(FIGURES.ttftMean, 'From arrival to first token, any hold included.'),
        ...figure(FIGURES.ttftP50),
        ...figure(FIGURES.ttftP95),
        ...figure(
          FIGURES.ttftP99,
          'A wait that the end of the run cut short counts as long as it was.',
        ),
        ...figure(FIGURES.itlP50, 'Between two tokens of a turn.'),
        ...figure(FIGURES.itlP95),
        ...figure(FIGURES.heldTurns, 'Turns that the policy made wait.'),
        ...figure(FIGURES.holdP50, 'Turns that were held only.'),
        ...figure(FIGURES.holdP95),
        ...figure(FIGURES.holdP99),
      ],
    },
    {
      title: 'Sessions',
      charts: [
        ...figure(FIGURES.slowdown, 'Time that a session took over the time it would take alone.'),
        ...figure(FIGURES.completionP50, 'Of sessions that finished while it was measured.'),
        ...figure(FIGURES.completionP95),
        ...figure(FIGURES.jain, '1 when all sessions progress alike.'),
        ...figure(FIGURES.slowest, 'Time alone over time taken, mean of the slowest twentieth.'),
        ...figure(FIGURES.failed, 'Too large, outgrown, refused, or left by their client.'),
        ...(data.quarters.length > 0 ? [quartersChart(frame, data)] : []),
      ],
    },
    { title: 'Over time', charts: [overTimeChart(frame, where)] },
    {
      title: 'Choices, and what they cost',
      charts: [
        ...figure(
          FIGURES.regret,
          'Of the cached tokens that the best worker had at each placement.',
        ),
        ...figure(FIGURES.notBest, 'Placements where another worker had more of the prompt.'),
        ...figure(FIGURES.index, 'Memory of what the router knows of caches, at the end.'),
      ],
    },
  ]
}

export { type Chart, type Frame, type Section, type Spec, sections }
