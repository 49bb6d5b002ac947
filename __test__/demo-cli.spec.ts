/** `warmpath demo` as a process: what it writes where, and how it ends. */
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'

const COMMAND = join(__dirname, '../src/cli/demo.mts')
// Neither the command nor its threads are built here: each is run through a loader of its own.
const SCRIPT = `
  import { demoCommand } from ${JSON.stringify(COMMAND)}
  await demoCommand(['--require=tsx/cjs']).parseAsync(process.argv.slice(1), { from: 'user' })`
const NODE = ['--import=tsx', '--input-type=module', '--eval', SCRIPT, '--']

interface Ended {
  code: number | string
  out: string
  err: string
}

function demo(...args: string[]): Promise<Ended> {
  const env = { ...process.env, NODE_NO_WARNINGS: '1' }
  return new Promise((resolve) => {
    execFile(process.execPath, [...NODE, ...args], { env }, (error, out, err) =>
      resolve({ code: error?.code ?? 0, out, err }),
    )
  })
}

test('a wrong number is refused by name, with what is allowed', async (t) => {
  const { code, err } = await demo('--sessions', '0')
  t.is(code, 1)
  t.regex(err, /--sessions.*whole number from 1 to 1024/)
})

test('a small comparison: table on stdout, progress on stderr, picture and rows in files', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'warmpath-demo-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const files = { json: join(folder, 'deep', 'rows.json'), svg: join(folder, 'picture.svg') }
  const { code, out, err } = await demo(
    ...['--sessions', '2', '--speed', '100', '--seed', '7'],
    ...['--json', files.json, '--svg', files.svg],
  )
  t.is(code, 0, err)
  t.regex(out, /round-robin +least-loaded +warmpath/)
  t.regex(out, /sessions completed +2\/2 +2\/2 +2\/2/)
  t.true(out.includes(`picture: ${files.svg}`))
  t.regex(err, /warmpath +\d+\/\d+ turns, 2\/2 sessions/)
  t.regex(readFileSync(files.svg, 'utf8'), /^<svg [\s\S]*<\/svg>\n$/)
  const { rows } = JSON.parse(readFileSync(files.json, 'utf8')) as {
    rows: { name: string; value: unknown; holds?: boolean }[]
  }
  const left = rows.find((row) => row.name === 'warmpath.reservations_left')
  t.deepEqual([left?.value, left?.holds], [0, true])
  t.true(rows.some((row) => row.name === 'least-loaded.ttft_p99'))
})
