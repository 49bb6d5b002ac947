/** The demo as its command sees it: a comparison, and the ways to show one. */
export { rows, sound } from './figures.js'
export { paceWarning } from './pace.js'
export { compare, type DemoOptions, describe, type Plan, planDemo } from './run.js'
export { svg } from './svg.js'
export { table } from './table.js'
