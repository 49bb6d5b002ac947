/**
 * `npm run test:agents -- [--json FILE] [--folder DIR] [--only NAME]`: real coding agents through
 * `warmpath serve`.
 *
 * Each of Claude Code, Codex and OpenCode does a scripted task four times at once, with a tool loop
 * and a sub-agent, over two engine doubles that have less room than they want, one of which is killed
 * in the middle. The agents come from npm, into DIR (default: in the system's temporary folder), and
 * see no other network. Exits with 1 when a check fails.
 */
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { check, figures } from './agents/checks.mjs'
import { CLIENTS } from './agents/clients.mjs'
import { install } from './agents/install.mjs'
import { runRound } from './agents/round.mjs'
import { build } from './build.mjs'

const { values } = parseArgs({
  options: {
    json: { type: 'string' },
    folder: { type: 'string', default: join(tmpdir(), 'warmpath-agents') },
    only: { type: 'string' },
  },
})

build()
const rows = []
for (const [name, client] of Object.entries(CLIENTS)) {
  if (values.only !== undefined && values.only !== name) continue
  const bin = install(join(values.folder, 'packages'), client)
  const folder = mkdtempSync(join(values.folder, `${name}-`))
  process.stderr.write(`${name} ${client.version} in ${folder}\n`)
  const round = await runRound(name, client, folder, bin)
  writeFileSync(join(folder, 'exchanges.json'), JSON.stringify(round.exchanges, null, 1))
  writeFileSync(
    join(folder, 'receipts.json'),
    JSON.stringify([...round.receipts.values()], null, 1),
  )
  const seen = check(round)
  for (const { row, wrong } of seen) {
    if (!row.holds) process.stderr.write(`${row.name}: ${JSON.stringify(wrong, null, 1)}\n`)
  }
  rows.push(...seen.map(({ row }) => row), ...figures(round))
}

for (const { name, value, unit, goal, holds } of rows) {
  const verdict = holds === undefined ? '' : holds ? 'holds' : 'DOES NOT HOLD'
  process.stdout.write(`| ${name} | ${value} ${unit} | ${goal ?? ''} | ${verdict} |\n`)
}
if (values.json) writeFileSync(values.json, `${JSON.stringify({ rows }, null, 2)}\n`)
process.exit(rows.some(({ holds }) => holds === false) ? 1 : 0)
