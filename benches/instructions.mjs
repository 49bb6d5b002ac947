/**
 * `npm run bench:instructions`: how many instructions the index spends, counted by valgrind, against
 * the committed counts. Instructions do not depend on how busy a machine is, so they may gate.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const root = fileURLToPath(new URL('..', import.meta.url))
const committed = join(root, 'benches', 'instructions.json')
/** Compilers and libraries differ a little from one machine to the next. */
const TOLERANCE = 0.05

/**
 * What is counted, and the most that one operation may cost. What hashes much is counted only with
 * AVX2, since other processors need up to three times as many instructions for it.
 */
const SCENARIOS = [
  { name: 'store', operation: 'a block in the events of a turn', goal: 150 },
  { name: 'predict', operation: 'a block in the look-up and the decision of a turn' },
  { name: 'remove', operation: 'a block, the end of a prompt first', goal: 200 },
  { name: 'find-64', operation: 'a look-up, 64 workers have all of 64 blocks', goal: 600 },
  { name: 'find-4096', operation: 'a look-up, 64 workers have all of 4,096 blocks', goal: 600 },
  { name: 'find-16384', operation: 'a look-up, 64 workers have all of 16,384 blocks', goal: 600 },
  { name: 'follow', operation: "a turn, for its session's path and the working set" },
  { name: 'hash', operation: 'a block of 64 tokens, chain included', wide: true },
  { name: 'turn-10k', operation: 'a turn of 10k tokens of text, submit to completion', wide: true },
  { name: 'turn-100k', operation: 'the same of 100k tokens', wide: true },
  { name: 'turn-10k-body', operation: 'the same of 10k, held against the last body', wide: true },
  { name: 'turn-100k-body', operation: 'the same of 100k', wide: true },
  { name: 'workers-1k', operation: 'a worker of 1,000 that come at once' },
  { name: 'workers-16k', operation: 'a worker of 16,000 that come at once' },
  { name: 'choice-bound', operation: 'a turn of one in 100,000 sessions that keeps its model' },
  { name: 'choice-lookahead', operation: 'the same, three models weighed' },
  {
    name: 'choice',
    operation: 'what weighing them costs beyond the rest of the turn',
    beyond: ['choice-lookahead', 'choice-bound'],
  },
  { name: 'gate-none', operation: 'a decision of one in 100,000 sessions, nothing gated' },
  { name: 'gate-lease', operation: 'the same with leases, nobody held' },
  {
    name: 'gate',
    operation: 'what leases cost beyond the rest of it',
    beyond: ['gate-lease', 'gate-none'],
    goal: 4_000,
  },
  { name: 'release-16', operation: 'each of 16 holds that one event ends, 100,000 sessions' },
  { name: 'release-1024', operation: 'each of 1,024' },
  { name: 'hold-1k', operation: 'a turn that has to wait behind 1,000' },
  { name: 'hold-16k', operation: 'the same behind 16,000' },
]

const HELP = `Usage: npm run bench:instructions -- [options]

Counts instructions with valgrind and compares them with benches/instructions.json.

  --update      write the counts instead of comparing
  --json FILE   write the rows to FILE
  --help        this text
`

const { values } = parseArgs({
  options: {
    update: { type: 'boolean', default: false },
    json: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})

if (values.help) {
  process.stdout.write(HELP)
} else if (spawnSync('valgrind', ['--version']).error) {
  console.log('instructions: skipped, valgrind is not installed')
} else {
  main()
}

function isCounted({ wide }) {
  return !wide || /\bavx2\b/.test(readFileSync('/proc/cpuinfo', 'utf8'))
}

function main() {
  const binary = build()
  const rows = []
  for (const scenario of SCENARIOS.filter(isCounted)) {
    rows.push(scenario.beyond ? difference(scenario, rows) : count(binary, scenario))
  }
  if (values.update) {
    const kept = JSON.parse(readFileSync(committed, 'utf8'))
    const counts = { ...kept, ...Object.fromEntries(rows.map((row) => [row.name, row.value])) }
    writeFileSync(committed, `${JSON.stringify(counts, null, 2)}\n`)
  }
  const before = JSON.parse(readFileSync(committed, 'utf8'))
  const judged = rows.map((row) => judge(row, before[row.name]))
  if (values.json) writeFileSync(values.json, `${JSON.stringify({ rows: judged }, null, 2)}\n`)
  for (const row of judged) {
    console.log(
      `${row.name.padEnd(17)} ${String(row.value).padStart(7)} (${row.goal}) ${row.holds ? 'ok' : 'TOO MANY'}`,
    )
  }
  if (judged.some((row) => !row.holds)) process.exitCode = 1
}

function build() {
  const args = [
    'build',
    '-q',
    '--profile',
    'count',
    '-p',
    'warmpath-core',
    '--example',
    'instructions',
    '--message-format',
    'json',
  ]
  const out = execFileSync('cargo', args, {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const artifacts = out
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))
  return artifacts.find((a) => a.target?.name === 'instructions' && a.executable).executable
}

function count(binary, { name, operation, goal }) {
  const folder = mkdtempSync(join(tmpdir(), 'instructions-'))
  const file = join(folder, 'counts')
  try {
    const args = [
      '--tool=callgrind',
      `--callgrind-out-file=${file}`,
      '--toggle-collect=*measured*',
      binary,
      name,
    ]
    const run = spawnSync('valgrind', args, { encoding: 'utf8' })
    if (run.status !== 0) throw new Error(`${name}: ${run.stderr}`)
    const total = Number(/^(?:summary|totals): (\d+)/m.exec(readFileSync(file, 'utf8'))[1])
    return {
      name,
      operation,
      limit: goal,
      value: Math.round(total / Number(run.stdout)),
      unit: 'instructions',
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function difference({ name, operation, goal, beyond }, rows) {
  const [whole, rest] = beyond.map((other) => rows.find((row) => row.name === other).value)
  return { name, operation, limit: goal, value: whole - rest, unit: 'instructions' }
}

function judge({ limit, ...row }, before) {
  const most = Math.ceil(before * (1 + TOLERANCE))
  const goal = limit === undefined ? `<= ${most}` : `<= ${Math.min(most, limit)}`
  return { ...row, goal, holds: row.value <= most && row.value <= (limit ?? Infinity) }
}
