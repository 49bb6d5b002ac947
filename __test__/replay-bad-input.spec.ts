/** What is wrong with a trace, as `warmpath replay` says it: file, line, and an exit code. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { gzipSync } from 'node:zlib'
import test, { type ExecutionContext } from 'ava'
import { WarmpathError } from '../src/errors.js'
import { Workload } from '../src/workload.js'

const MAIN = join(__dirname, '../src/cli/main.mts')
// The traces' folders are elsewhere, so the loader is named by its place.
const TSX = pathToFileURL(require.resolve('tsx')).href
const ROW = '{"timestamp":1,"input_length":600,"output_length":5,"hash_ids":[1,2]}'

interface Ended {
  code: number | string
  out: string
  err: string
}

function warmpath(folder: string, ...args: string[]): Promise<Ended> {
  const env = { ...process.env, NODE_NO_WARNINGS: '1' }
  const all = [`--import=${TSX}`, MAIN, ...args]
  return new Promise((resolve) => {
    execFile(process.execPath, all, { env, cwd: folder }, (error, out, err) =>
      resolve({ code: error?.code ?? 0, out, err }),
    )
  })
}

/** A folder with one trace in it. */
function trace(t: ExecutionContext, content: string | Uint8Array, name = 'bad.jsonl'): string {
  const folder = mkdtempSync(join(tmpdir(), 'warmpath-replay-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, name), content)
  return folder
}

function record(
  id: string,
  block: number,
  { timestamp, unix } = { timestamp: 0, unix: 9 },
): string {
  const replay = { trace_block_size: block, input_length: 64, input_sequence_hashes: [1] }
  const request = { request_id: id, input_tokens: 64, output_tokens: 1, total_time_ms: 1, replay }
  const schema = 'dynamo.request.trace.v1'
  const event = { schema, event_type: 'request_end', event_time_unix_ms: unix, request }
  return JSON.stringify({ timestamp, event })
}

/** Kind as it is counted, lines, and the line at fault. */
const BAD: Record<string, { kind: string; lines: string[]; line: number }> = {
  'records out of order': {
    kind: 'out-of-order',
    lines: [ROW, ROW.replace(':1,', ':0.5,'), ROW],
    line: 2,
  },
  'records of ours out of order': {
    kind: 'out-of-order',
    lines: [record('a', 64, { timestamp: 5, unix: 9 }), record('b', 64, { timestamp: 4, unix: 8 })],
    line: 2,
  },
  'a negative time of ours': {
    kind: 'negative-time',
    lines: [record('a', 64), record('b', 64).replace('"total_time_ms":1', '"total_time_ms":-1')],
    line: 2,
  },
  'a byte order mark': { kind: 'encoding', lines: [`\u{feff}${ROW}`, ROW], line: 1 },
  'an unknown version': {
    kind: 'unknown-version',
    lines: [record('a', 64), record('b', 64).replace('trace.v1', 'trace.v9')],
    line: 2,
  },
  'a negative time': { kind: 'negative-time', lines: [ROW, ROW.replace(':1,', ':-1,')], line: 2 },
  'a missing field': {
    kind: 'missing-field',
    lines: [ROW, ROW.replace('"output_length":5,', '')],
    line: 2,
  },
  'blocks of two sizes': {
    kind: 'block-size',
    lines: [record('a', 64), record('b', 32)],
    line: 2,
  },
  'a session that is its own parent': {
    kind: 'parent',
    lines: [ROW, ROW.replace('{', '{"session_id":"a","warmpath":{"parent":"a"},')],
    line: 2,
  },
  'a line that is no JSON': { kind: 'syntax', lines: [ROW, '{"timestamp": x}'], line: 2 },
}

for (const [name, { kind, lines, line }] of Object.entries(BAD)) {
  test(`${name}: file and line, and lenient counts it`, async (t) => {
    const folder = trace(t, lines.join('\n'))
    const path = join(folder, 'bad.jsonl')
    const error = await t.throwsAsync(Workload.read({ paths: [path] }))
    t.true(WarmpathError.is(error))
    t.is((error as WarmpathError).code, 'WARMPATH_TRACE')
    t.true(error?.message.startsWith(`${path}:${line}: `), error?.message)
    const workload = await Workload.read({ paths: [path], lenient: true })
    t.deepEqual(workload.summary().skipped, { [kind]: 1 })
    t.is(workload.summary().turns, lines.length - 1)
  })
}

test('a gzip stream that is cut: one line with file and line, exit code 1; lenient goes on', async (t) => {
  const rows = Array.from({ length: 5000 }, (_, time) => ROW.replace(':1,', `:${time},`))
  const whole = gzipSync(rows.join('\n'))
  const folder = trace(t, whole.subarray(0, whole.length / 2), 'cut.jsonl.gz')
  const strict = await warmpath(folder, 'replay', 'cut.jsonl.gz')
  t.is(strict.code, 1)
  t.regex(strict.err, /\nwarmpath: cut\.jsonl\.gz:\d+: .+ \[WARMPATH_TRACE\]\n$/)
  t.is(strict.out, '')
  const lenient = await warmpath(folder, 'replay', 'cut.jsonl.gz', '--lenient', '--workers', '1')
  t.is(lenient.code, 0, lenient.err)
  t.regex(lenient.out, /records left out: 1 truncated/)
})

test('a trace that is not there, and wrong options, are one line', async (t) => {
  const folder = trace(t, ROW)
  const missing = await warmpath(folder, 'replay', 'none.jsonl')
  t.is(missing.code, 1)
  t.regex(missing.err, /warmpath: none\.jsonl: .+ \[WARMPATH_TRACE\]\n$/)
  const wrong = await warmpath(folder, 'replay', 'bad.jsonl', '--pressure', '3..1')
  t.is(wrong.code, 2)
  t.regex(wrong.err, /--pressure.*FROM\.\.TO/)
})

test('a policy that is none is refused before anything is read, with all names', async (t) => {
  const folder = trace(t, ROW)
  const { code, err } = await warmpath(folder, 'replay', 'none.jsonl', '--compare', 'kv,magic')
  t.is(code, 2)
  t.regex(err, /round-robin, least-loaded, kv, none, thunderagent, lease.*"magic"/)
})

test('options that would do nothing are refused before anything is read', async (t) => {
  const folder = trace(t, ROW)
  for (const [args, message] of [
    [['--speed', '2'], /--speed does nothing without --endpoint/],
    [['--prefill', 'fcfs'], /--prefill does nothing without --engine h100-class/],
    [['--event-delay', '5'], /--event-delay does nothing without --events exact/],
    [
      ['--events', 'exact', '--event-recovery', 'never'],
      /--event-recovery .* without --event-loss/,
    ],
    [
      ['--events', 'exact', '--engine', 'h100-class'],
      /--events does nothing with --engine h100-class/,
    ],
    [['--warm-up', '1', '--as-recorded'], /--warm-up does nothing with --as-recorded/],
    [['--pressure', '1', '--endpoint', 'http://x'], /--pressure does nothing with --endpoint/],
    [['--verify', '--json', 'x'], /--json does nothing with --verify/],
  ] as const) {
    const { code, err } = await warmpath(folder, 'replay', 'none.jsonl', ...args)
    t.is(code, 2, args.join(' '))
    t.regex(err, message)
  }
})

test('what is read is not written over, whatever it is called', async (t) => {
  const folder = trace(t, ROW)
  const before = readFileSync(join(folder, 'bad.jsonl'), 'utf8')
  symlinkSync('bad.jsonl', join(folder, 'link.jsonl'))
  for (const [args, message] of [
    [['replay', 'bad.jsonl', '--html', './bad.jsonl'], /--html would overwrite/],
    [['replay', '.', '--json', 'link.jsonl'], /--json would overwrite/],
    [['replay', 'bad.jsonl', '--html', 'x', '--json', 'x'], /--html and --json are the same/],
    [['convert', 'bad.jsonl', '--to', 'mooncake', '--out', 'link.jsonl'], /--out would overwrite/],
  ] as const) {
    const { code, err } = await warmpath(folder, ...args)
    t.is(code, 2, args.join(' '))
    t.regex(err, message)
  }
  t.is(readFileSync(join(folder, 'bad.jsonl'), 'utf8'), before)
})

test('endpoints at which no turn succeeds fail the run', async (t) => {
  const folder = trace(t, ROW)
  // A port that is reserved and that nobody listens on.
  const args = ['--endpoint', 'http://127.0.0.1:1', '--json', 'rows.json']
  const { code, err } = await warmpath(folder, 'replay', 'bad.jsonl', ...args)
  t.is(code, 1)
  t.regex(err, /warmpath: no turn succeeded at 127\.0\.0\.1:1\n$/)
  t.true(existsSync(join(folder, 'rows.json')))
})

test('a reader of the output that leaves early ends nothing with an error', async (t) => {
  const folder = trace(t, ROW)
  const args = [`--import=${TSX}`, MAIN, 'replay', 'bad.jsonl', '--compare', 'kv']
  const env = { ...process.env, NODE_NO_WARNINGS: '1' }
  const child = spawn(process.execPath, args, {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  child.stdout.destroy()
  let err = ''
  child.stderr.on('data', (chunk) => {
    err += chunk
  })
  const [code] = await once(child, 'close')
  t.is(code, 0, err)
  t.notRegex(err, /EPIPE/)
  t.true(existsSync(join(folder, 'replay-results', 'report.html')))
})

test('prompts that are too large, and answers that outgrow the cache, are counted', async (t) => {
  const rows = [
    ROW,
    '{"timestamp":2,"input_length":5000,"output_length":5,"hash_ids":[1,2]}',
    '{"timestamp":3,"input_length":1900,"output_length":900,"hash_ids":[1,2,3]}',
  ]
  const folder = trace(t, rows.join('\n'))
  const { code, err } = await warmpath(
    folder,
    ...['replay', 'bad.jsonl', '--workers', '1', '--cache', '2048', '--compare', 'kv'],
    ...['--json', 'rows.json'],
  )
  t.is(code, 0, err)
  const { rows: found } = JSON.parse(readFileSync(join(folder, 'rows.json'), 'utf8'))
  const failed = found.find((row: { name: string }) => row.name === 'kv.w1.recorded.turns_failed')
  t.is(failed.value, 2)
})
