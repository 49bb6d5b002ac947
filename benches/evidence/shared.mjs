/** What sections have in common: where public traces are, and how a claim is put. */
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { root } from '../../scripts/build.mjs'

const require = createRequire(import.meta.url)

/** A built module of the package. Loaded late: the build may have to come first. */
export function built(name) {
  return require(join(root, 'dist', name))
}

/** The path of a public trace, or undefined where it is not on this machine. */
export function publicTrace(name) {
  const base = process.env.WARMPATH_SHARED ?? join(root, '..', 'shared')
  const path = join(base, 'data', name)
  return existsSync(path) ? path : undefined
}

/** A row whose goal is that `ratio`, or without one `value`, is within `least` and `most`. */
export function within({
  name,
  value,
  unit,
  peer,
  ratio,
  goal,
  least = -Infinity,
  most = Infinity,
}) {
  const judged = ratio ?? value
  return {
    name,
    value,
    unit,
    ...(peer !== undefined && { peer }),
    ...(ratio !== undefined && { ratio }),
    goal,
    holds: judged >= least && judged <= most,
  }
}

export function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}
