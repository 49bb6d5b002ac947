/**
 * Builds the floor addon, without a download where Node's headers lie beside it: node-gyp fetches
 * them unless it is told where they are. Distributions put them at <prefix>/include/node.
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, resolve } from 'node:path'

const prefix = resolve(dirname(process.execPath), '..')
const hasHeaders = existsSync(join(prefix, 'include', 'node', 'node_api.h'))
const nodeGyp = createRequire(import.meta.url).resolve('node-gyp/bin/node-gyp.js')
const where = hasHeaders ? [`--nodedir=${prefix}`] : []
const args = [nodeGyp, 'rebuild', '--silent', '-C', import.meta.dirname, ...where]
// An empty npm_config_nodedir would override the flag.
const { npm_config_nodedir: _, ...env } = process.env
process.exit(spawnSync(process.execPath, args, { stdio: 'inherit', env }).status ?? 1)
