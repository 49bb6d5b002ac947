/**
 * How do the figures look as a picture?
 *
 * One small panel a metric, three bars in it, the number beside each bar; the best bar of a panel
 * is filled in the accent colour, whoever has it. Written by hand, no dependency, no script, no
 * font but the viewer's; colours follow the viewer's light or dark setting.
 *
 * Bars of a panel share one scale that starts at zero, so lengths may be compared within a panel
 * and only there.
 */
import { METRICS, type Metric, show, winner } from './figures.js'
import type { RunRecord } from './record.js'

const COLUMNS = 3
const PANEL = { width: 300, height: 100, gap: 24 }
const MARGIN = 24
const HEADING = 64
const BAR = { left: 92, right: 62, height: 16, step: 24, top: 30 }

const STYLE = `
  svg { color-scheme: light dark; background: #fff }
  text { font: 12px system-ui, sans-serif; fill: #333 }
  .title { font-size: 18px; font-weight: 600; fill: #111 }
  .name { font-weight: 600; fill: #111 }
  .note { fill: #666 }
  .back { fill: #fff } .track { fill: #eee } .bar { fill: #9aa7b4 } .best { fill: #2a7de1 }
  .value { text-anchor: end }
  @media (prefers-color-scheme: dark) {
    svg { background: #14171a }
    text { fill: #ccc } .title, .name { fill: #f2f2f2 } .note { fill: #999 }
    .back { fill: #14171a } .track { fill: #262b31 } .bar { fill: #66717d } .best { fill: #5aa2f5 }
  }`

/** Escapes what XML reserves. */
function escaped(text: string): string {
  return text.replace(/[<>&"']/g, (character) => `&#${character.charCodeAt(0)};`)
}

function rect(name: string, x: number, y: number, width: number, height: number): string {
  return `<rect class="${name}" x="${x}" y="${y}" width="${width.toFixed(1)}" height="${height}" rx="2"/>`
}

function text(name: string, x: number, y: number, content: string): string {
  return `<text class="${name}" x="${x}" y="${y}">${escaped(content)}</text>`
}

type Fill = 'bar' | 'best'

function bar(metric: Metric, run: RunRecord, row: number, scale: number, fill: Fill): string {
  const room = PANEL.width - BAR.left - BAR.right
  const y = BAR.top + row * BAR.step
  const value = metric.of(run)
  const width = value === undefined || scale <= 0 ? 0 : (room * value) / scale
  return [
    text('', 0, y + 12, run.router),
    rect('track', BAR.left, y, room, BAR.height),
    rect(fill, BAR.left, y, width, BAR.height),
    text('value', PANEL.width, y + 12, show(value, metric.unit)),
  ].join('')
}

function panel(metric: Metric, runs: readonly RunRecord[], index: number): string {
  const x = MARGIN + (index % COLUMNS) * (PANEL.width + PANEL.gap)
  const y = HEADING + Math.floor(index / COLUMNS) * (PANEL.height + PANEL.gap)
  const scale = Math.max(0, ...runs.map((run) => metric.of(run) ?? 0))
  const best = winner(metric, runs)
  const bars = runs.map((run, row) =>
    bar(metric, run, row, scale, run.router === best ? 'best' : 'bar'),
  )
  const title = `<tspan class="name">${escaped(metric.label)}</tspan> <tspan class="note">${metric.better} is better</tspan>`
  return `<g transform="translate(${x} ${y})"><text x="0" y="16">${title}</text>${bars.join('')}</g>`
}

/**
 * A complete SVG document.
 * @param caption one line under the title: what was run
 */
function svg(runs: readonly RunRecord[], caption: string): string {
  const lines = Math.ceil(METRICS.length / COLUMNS)
  const width = 2 * MARGIN + COLUMNS * PANEL.width + (COLUMNS - 1) * PANEL.gap
  const height = HEADING + lines * (PANEL.height + PANEL.gap) + MARGIN / 2
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escaped(caption)}">`,
    `<style>${STYLE}\n</style>`,
    rect('back', 0, 0, width, height),
    text('title', MARGIN, 30, 'The same agent sessions through three routers'),
    text('note', MARGIN, 50, caption),
    ...METRICS.map((metric, index) => panel(metric, runs, index)),
    '</svg>\n',
  ].join('\n')
}

export { svg }
