/** Puts the scripts that draw a replay's charts beside the built page, so that the package has them. */
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './build.mjs'

const PAGE = join(root, 'dist', 'replay', 'page')

for (const library of ['vega', 'vega-lite', 'vega-embed']) {
  const installed = join(root, 'node_modules', library, 'build', `${library}.min.js`)
  copyFileSync(installed, join(PAGE, `${library}.js`))
}
