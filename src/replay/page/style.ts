/** How does the page look, in light and in dark? Style, and the script that draws the charts. */

const STYLE = `
  :root { color-scheme: light dark; --back: #fff; --card: #f6f7f9; --ink: #1b1f24; --soft: #5b6570; --line: #d9dee4; --best: #1d6fd1 }
  @media (prefers-color-scheme: dark) {
    :root { --back: #14171a; --card: #1b1f24; --ink: #e8eaed; --soft: #9aa4af; --line: #323a43; --best: #6cb0ff }
  }
  body { margin: 0 auto; padding: 2rem 1.5rem 4rem; max-width: 1320px; background: var(--back); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
  h1 { font-size: 1.6rem; margin: 0 0 1rem } h2 { font-size: 1.15rem; margin: 2.5rem 0 .75rem }
  dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; margin: 0 } dt { color: var(--soft) } dd { margin: 0 }
  pre { background: var(--card); padding: .75rem 1rem; border-radius: 8px; overflow-x: auto }
  .charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(610px, 100%), 1fr)); gap: 1rem }
  figure { margin: 0; padding: 1rem; background: var(--card); border-radius: 8px; overflow-x: auto }
  figure.wide { grid-column: 1 / -1 }
  figcaption { color: var(--soft); margin-bottom: .5rem } figcaption b { color: var(--ink) }
  .chart summary, .chart .vega-actions { display: none }
  table { border-collapse: collapse; margin: .5rem 0 1rem; font-variant-numeric: tabular-nums }
  th, td { padding: .2rem .9rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap }
  th:first-child { text-align: left; font-weight: 400 } td.best { color: var(--best); font-weight: 600 }
  summary { cursor: pointer } .limits { color: var(--soft) }`

/** Draws every chart in the colours of the reader's setting, and again when that changes. */
const LOOK = `
const dark = matchMedia('(prefers-color-scheme: dark)')
function look() {
  const [ink, soft, line] = dark.matches ? ['#e8eaed', '#9aa4af', '#323a43'] : ['#1b1f24', '#5b6570', '#d9dee4']
  return {
    background: 'transparent', font: 'system-ui, sans-serif',
    axis: { labelColor: soft, titleColor: soft, gridColor: line, domainColor: line, tickColor: line, titleFontWeight: 'normal', labelFontSize: 11, titleFontSize: 11, tickCount: 6 },
    legend: { labelColor: ink, titleColor: soft, orient: 'bottom', columns: 4, symbolStrokeWidth: 3, labelLimit: 220 },
    header: { labelColor: ink, titleColor: soft, labelFontSize: 12 },
    view: { stroke: null }, rule: { color: ink }, text: { color: soft, fontSize: 11 },
  }
}
function tablesOf(spec, found = new Set()) {
  if (Array.isArray(spec)) spec.forEach((each) => tablesOf(each, found))
  else if (spec && typeof spec === 'object') {
    if (spec.data && spec.data.name) found.add(spec.data.name)
    Object.values(spec).forEach((each) => tablesOf(each, found))
  }
  return found
}
function draw() {
  for (const { id, spec } of charts) {
    const datasets = Object.fromEntries([...tablesOf(spec)].map((name) => [name, tables[name]]))
    vegaEmbed('#' + id, { ...spec, datasets }, { mode: 'vega-lite', actions: false, renderer: 'svg', config: look() })
  }
}
dark.addEventListener('change', draw)
draw()`

export { LOOK, STYLE }
