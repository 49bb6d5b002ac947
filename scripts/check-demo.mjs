/**
 * `check-demo.mjs FILE`: what must be true of a demo's figures on any machine, however slow: every
 * session came to its end, nothing is left behind, nothing failed, and warmth was found.
 */
import { readFileSync } from 'node:fs'

const { rows } = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const value = new Map(rows.map((row) => [row.name, row.value]))
const routers = ['round-robin', 'least-loaded', 'warmpath']

const claims = routers.flatMap((router) => [
  [`${router}.errors`, (n) => n === 0],
  [`${router}.hit_rate`, (n) => n > 0 && n < 1],
  [`${router}.turns_per_minute`, (n) => n > 0],
])
claims.push(['warmpath.reservations_left', (n) => n === 0])
claims.push([
  'warmpath.sessions_completed',
  (n) => n > 0 && n === value.get('round-robin.sessions_completed'),
])

const broken = claims.filter(([name, holds]) => !holds(value.get(name)))
for (const [name] of broken) process.stderr.write(`${name} is ${value.get(name)}\n`)
process.exit(broken.length > 0 ? 1 : 0)
