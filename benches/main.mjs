/**
 * `npm run bench -- [options]`: what decisions cost, as ratios to what the same process pays anyway.
 * Rows with a goal say whether it holds; a goal that is missed is no error.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { decisionRows } from './rows/decision.mjs'
import { forwardRows } from './rows/forward.mjs'
import { sessionRows } from './rows/sessions.mjs'
import { throughputRows } from './rows/throughput.mjs'
import { tokenRows } from './rows/tokens.mjs'

const BENCHES = {
  decision: decisionRows,
  forward: forwardRows,
  tokens: tokenRows,
  sessions: sessionRows,
  throughput: throughputRows,
}

const HELP = `Usage: npm run bench -- [options]

  --json FILE   write the rows to FILE
  --only NAME   one of ${Object.keys(BENCHES).join(', ')}; may be given several times
  --quick       few rounds: shows that everything works, not what it costs; else it takes minutes
  --help        this text

Builds a node-addon-api addon that does nothing first: a call into it is the floor of a native call.
`

const FLOOR = join(import.meta.dirname, 'floor', 'build', 'Release', 'floor.node')

const { values } = parseArgs({
  options: {
    json: { type: 'string' },
    only: { type: 'string', multiple: true },
    quick: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

if (values.help) process.stdout.write(HELP)
else await main()

async function main() {
  buildFloor()
  const rows = []
  for (const name of values.only ?? Object.keys(BENCHES)) {
    if (BENCHES[name] === undefined) throw new Error(`no bench is called ${name}: see --help`)
    progress(`${name} ...`)
    for (const row of await BENCHES[name]({ floor: FLOOR, quick: values.quick, progress })) {
      rows.push(row)
      print(row)
    }
  }
  const [load] = loadavg()
  process.stdout.write(`load ${load.toFixed(1)}\n`)
  if (values.json) writeFileSync(values.json, `${JSON.stringify({ rows }, null, 2)}\n`)
}

/** Goes where the rows do not. */
function progress(line) {
  process.stderr.write(`${line}\n`)
}

function buildFloor() {
  if (existsSync(FLOOR)) return
  const { status } = spawnSync(
    process.execPath,
    [join(import.meta.dirname, 'floor', 'build.mjs')],
    {
      stdio: 'inherit',
    },
  )
  if (status !== 0) throw new Error('the floor addon could not be built')
}

function print({ name, value, unit, goal, holds }) {
  const verdict = goal === undefined ? '' : `${goal} ${holds ? 'ok' : 'MISSED'}`
  process.stdout.write(
    `${name.padEnd(40)} ${String(value).padStart(10)} ${unit.padEnd(6)} ${verdict}\n`,
  )
}
