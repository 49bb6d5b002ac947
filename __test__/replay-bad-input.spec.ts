/** What is wrong with a trace, as `warmpath replay` says it: file, line, and an exit code. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { gunzipSync, gzipSync } from 'node:zlib'
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
  t.regex(err, /round-robin, least-loaded, kv, none, warmpath, thunderagent, lease.*"magic"/)
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

test('numbers are refused in the words of their option, with exit code 2', async (t) => {
  const folder = trace(t, ROW)
  for (const [args, message] of [
    [['--cache', '100'], /--cache 100: it must be from one block of 512 tokens to \d+ of them/],
    [['--host', '100'], /--host 100: it must be from one block of 512 tokens/],
    [['--cache', '1099511627776'], /--cache 1099511627776: it must be from one block/],
    [['--seed', '4,8'], /--seed.*Allowed: one whole number from 0 to 2147483648/],
    [['--measure', 'x'], /--measure.*Allowed: one number from 0\.1 to 100000/],
    [['--workers', 'x'], /--workers.*whole numbers from 1 to 1024, such as 4,8/],
  ] as const) {
    const { code, err } = await warmpath(folder, 'replay', 'bad.jsonl', ...args)
    t.is(code, 2, `${args.join(' ')}: ${err}`)
    t.regex(err, message)
  }
})

test('what else lies in a folder is passed over, and said once', async (t) => {
  const folder = trace(t, ROW, 'trace.jsonl')
  writeFileSync(join(folder, 'package.json'), '{"name":"x","requests":{"a":1}}')
  writeFileSync(join(folder, 'app.json'), '{"event":"start"}\n{"event":"stop"}\n')
  const { code, out, err } = await warmpath(folder, 'replay', '.', '--compare', 'kv')
  t.is(code, 0, err)
  t.regex(out, /^1 turns of 1 sessions; files passed over: 2, the first \.\/app\.json \(.+\)$/m)
  rmSync(join(folder, 'trace.jsonl'))
  const none = await warmpath(folder, 'replay', '.')
  t.is(none.code, 1)
  t.regex(none.err, /warmpath: \.\/app\.json: no trace, as none of the 2 files there: /)
})

test('where lenient leaves nothing, it says why', async (t) => {
  const folder = trace(t, [ROW.replace('600', '0'), ROW.replace('600', '-1')].join('\n'))
  const { code, err } = await warmpath(folder, 'replay', 'bad.jsonl', '--lenient')
  t.is(code, 1)
  t.regex(err, /bad\.jsonl:1: every record was left out \(2 invalid-value\); the first: .* is 0/)
})

test('absurd sizes are a fault of their record; large ones are rejected, counted and not sent', async (t) => {
  for (const size of ['2147483648', '4294967295', '9007199254740993']) {
    const folder = trace(t, [ROW, ROW.replace('600', size)].join('\n'))
    const { code, err } = await warmpath(folder, 'replay', 'bad.jsonl')
    t.is(code, 1)
    t.regex(err, /bad\.jsonl:2: input_length is too large: .* at most 100000000 tokens/)
  }
  const large = ROW.replace('600', '100000000').replace(':5,', ':100000000,')
  const folder = trace(t, [ROW, large].join('\n'))
  const fleet = await warmpath(folder, 'replay', 'bad.jsonl', '--compare', 'kv,lease')
  t.is(fleet.code, 0, fleet.err)
  t.regex(fleet.out, /turns refused, cut or given up +1 +1/)
  const sent = await warmpath(folder, 'replay', 'bad.jsonl', '--endpoint', 'http://127.0.0.1:1')
  t.is(sent.code, 1, sent.err)
  t.regex(sent.out, /1 not sent: a prompt of more than 2,000,000 tokens/)
})

test('a population says which sessions it is drawn from, and refuses to be drawn from none', async (t) => {
  const row = (session: string, tokens: number, turn: number) =>
    `{"session_id":"${session}","timestamp":${turn},"input_length":${tokens},"output_length":5}`
  const rows = [0, 1, 2].flatMap((turn) => [
    row('fits', 2_000, turn),
    row('huge', 90_000_000, turn),
  ])
  const folder = trace(t, rows.join('\n'))
  const args = ['--pressure', '0.01', '--measure', '1', '--warm-up', '0', '--compare', 'kv']
  const { code, out, err } = await warmpath(folder, 'replay', 'bad.jsonl', ...args)
  t.is(code, 0, err)
  t.regex(out, /^drawn from 1 sessions of the trace; left out: 1 with a prompt of 600,000 tokens/m)
  const small = await warmpath(folder, 'replay', 'bad.jsonl', ...args, '--cache', '2048')
  t.is(small.code, 1)
  t.regex(small.err, /no session of the trace can be drawn: 0 have fewer than 3 turns, 2 a prompt/)
})

test('what is converted is compressed where its name says so, and a picture needs our records', async (t) => {
  const folder = trace(t, ROW)
  const gz = await warmpath(
    folder,
    'convert',
    'bad.jsonl',
    '--to',
    'mooncake',
    '--out',
    'x.jsonl.gz',
  )
  t.is(gz.code, 0, gz.err)
  const bytes = readFileSync(join(folder, 'x.jsonl.gz'))
  t.is(JSON.parse(gunzipSync(bytes).toString()).input_length, 600)
  const picture = ['convert', 'bad.jsonl', '--to', 'perfetto', '--out', 'p.json']
  const foreign = await warmpath(folder, ...picture)
  t.is(foreign.code, 1)
  t.regex(foreign.err, /bad\.jsonl: this needs records of ours, and these are mooncake/)
  t.regex((await warmpath(folder, ...picture, '--lenient')).err, /--lenient does nothing with --to/)
  writeFileSync(join(folder, 'own.jsonl'), record('a', 64))
  const own = ['convert', 'own.jsonl', '--to', 'perfetto', '--out', 'p.json.gz']
  const drawn = await warmpath(folder, ...own)
  t.is(drawn.out, '1 records as a picture in p.json.gz: open it in ui.perfetto.dev\n')
  t.true(
    JSON.parse(gunzipSync(readFileSync(join(folder, 'p.json.gz'))).toString()).traceEvents.length >
      0,
  )
})
