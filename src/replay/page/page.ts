/**
 * How does a comparison become one page?
 *
 * A self-contained document: figures as a table, charts as Vega-Lite specifications with their data,
 * and the scripts that draw them. It asks no network for anything and follows the reader's light or
 * dark setting, also when that changes. What was run, with which seeds, and what it cannot say stand
 * on the page, so that it can be passed on by itself.
 */
import { ALL, showRange } from '../figures.js'
import type { Comparison } from '../run.js'
import { bySetting, caption, fleetName, type Group, groups, value, winner } from '../summary.js'
import { scripts } from './assets.js'
import { type Chart, type Frame, type Section, sections } from './charts.js'
import { data, hardest } from './data.js'
import { LOOK, STYLE } from './style.js'

/** Escapes what HTML reserves. */
function escaped(text: string): string {
  return text.replace(/[<>&"']/g, (character) => `&#${character.charCodeAt(0)};`)
}

/** JSON that may stand in a script: nothing in it ends the element. */
function embedded(value: unknown): string {
  return JSON.stringify(value).replaceAll('<', '\\u003c')
}

/** The page. @param command how it was made */
function page(comparison: Comparison, command: string): string {
  const frame = frameOf(comparison)
  const tables = data(comparison)
  const [hard] = hardest(comparison)
  const found = sections(frame, tables, hard === undefined ? '' : caption(hard)).filter(
    ({ charts }) => charts.length > 0,
  )
  const charts = found.flatMap((section) => section.charts)
  const ids = new Map(charts.map((chart, index) => [chart, `chart-${index}`]))
  const specs = charts.map(({ spec }, index) => ({ id: `chart-${index}`, spec }))
  return [
    '<!doctype html>',
    '<html lang="en"><head><meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="color-scheme" content="light dark">',
    '<title>Warmpath replay</title>',
    `<style>${STYLE}</style></head><body>`,
    header(comparison, command),
    ...found.map((section) => article(section, ids)),
    figureTables(comparison),
    limits(comparison),
    `<script>${scripts()}</script>`,
    `<script>const tables=${embedded(tables)};const charts=${embedded(specs)};${LOOK}</script>`,
    '</body></html>\n',
  ].join('\n')
}

function frameOf({ runs, bounds }: Comparison): Frame {
  const distinct = <T>(values: readonly T[]) => [...new Set(values)]
  const pressures = distinct(runs.flatMap((run) => run.pressure ?? []))
  return {
    policies: distinct(runs.map((run) => run.label)),
    fleets: distinct(runs.map(({ workers }) => fleetName(workers))),
    pressures,
    isRecorded: pressures.length === 0,
    hasBounds: bounds.size > 0,
  }
}

function header(comparison: Comparison, command: string): string {
  const facts = comparison.about.facts.map(
    ([name, text]) => `<dt>${escaped(name)}</dt><dd>${escaped(text)}</dd>`,
  )
  return [
    '<header><h1>The same sessions under different policies</h1>',
    `<dl>${facts.join('')}</dl>`,
    `<pre>${escaped(command)}</pre></header>`,
  ].join('\n')
}

function article({ title, charts }: Section, ids: ReadonlyMap<Chart, string>): string {
  const cards = charts.map(
    (chart) =>
      `<figure${chart.isWide ? ' class="wide"' : ''}><figcaption><b>${escaped(chart.title)}</b> ${escaped(chart.note)}</figcaption>` +
      `<div class="chart" id="${ids.get(chart)}"></div></figure>`,
  )
  return `<section><h2>${escaped(title)}</h2><div class="charts">${cards.join('\n')}</div></section>`
}

function figureTables({ runs }: Comparison): string {
  const tables = [...bySetting(groups(runs))].map(([name, of]) => figureTable(name, of))
  return `<section><h2>All figures</h2>${tables.join('\n')}</section>`
}

function figureTable(name: string, of: readonly Group[]): string {
  const lines = ALL.flatMap((figure) => {
    const values = of.map((group) => value(group, figure))
    if (values.every((found) => found === undefined)) return []
    const best = winner(of, figure)
    const cells = values.map((found, index) => {
      const isBest = of[index]?.label === best ? ' class="best"' : ''
      return `<td${isBest}>${escaped(showRange(found, figure.unit))}</td>`
    })
    return [`<tr><th>${escaped(figure.label)}</th>${cells.join('')}</tr>`]
  })
  const head = of.map(({ label }) => `<th>${escaped(label)}</th>`).join('')
  return (
    `<details><summary>${escaped(name)}</summary><table><thead><tr><th></th>${head}</tr></thead>` +
    `<tbody>${lines.join('')}</tbody></table></details>`
  )
}

/** What a reader must not conclude. */
function limits({ about }: Comparison): string {
  const found = about.limits.map((text) => `<li>${escaped(text)}</li>`)
  return `<section class="limits"><h2>What this does not say</h2><ul>${found.join('')}</ul></section>`
}

export { page }
