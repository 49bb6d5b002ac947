/**
 * The scripts that draw the charts: Vega, Vega-Lite and Vega-Embed, as published.
 *
 * The build puts them beside this file, so the package needs none of them at run time; from the
 * sources they are taken where they were installed. They go into the page, which then needs no network.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** In the order in which a page loads them. */
const LIBRARIES = ['vega', 'vega-lite', 'vega-embed'] as const

const ROOT = join(__dirname, '..', '..', '..')

/** One script; `</script` in it would end its element. */
function scripts(): string {
  return LIBRARIES.map(script).join('\n').replaceAll('</script', '<\\/script')
}

function script(library: string): string {
  const built = join(__dirname, `${library}.js`)
  const installed = join(ROOT, 'node_modules', library, 'build', `${library}.min.js`)
  try {
    return readFileSync(built, 'utf8')
  } catch {
    return readFileSync(installed, 'utf8')
  }
}

export { LIBRARIES, scripts }
