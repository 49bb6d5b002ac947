/** A recording of decisions decides the same again, and says where it does not. */
import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { jsonl, Scheduler, type SchedulerOptions } from '../src/index.js'
import { verifyDecisions } from '../src/workload.js'
import { folder, lines } from './support/trace.js'
import { told } from './support/trace-fleet.js'
import { served } from './support/trace-run.js'

const MAIN = join(__dirname, '../src/cli/main.mts')

const POLICIES: Record<string, Partial<SchedulerOptions>> = {
  none: {},
  thunderagent: { admission: { policy: 'thunderagent', intervalMs: 1_000 } },
  lease: { admission: { policy: 'lease', holdLimitSeconds: 8 } },
  gates: {
    admission: { maxRunning: 2, maxSessions: 3, sessionIdleSeconds: 2, tenantWeights: { t1: 3 } },
    identity: { tenant: 'x-tenant' },
  },
  'shortest first': {
    admission: { maxRunning: 1, queue: { order: 'wspt', maxAgeSeconds: 3 } },
  },
  'last first by classes': {
    admission: {
      maxRunning: 1,
      queue: {
        order: 'lcfs',
        priority: 'head-start',
        classes: [
          { name: 'short', maxTokens: 300, quantumTokens: 500 },
          { name: 'low', maxPriority: -1, order: 'wspt', maxWaiting: 2 },
          { name: 'rest' },
        ],
      },
    },
    identity: { tenant: 'x-tenant' },
  },
  'lease behind gates': {
    admission: { policy: 'lease', maxRunning: 2, maxSessions: 4, tenantWeights: { t0: 0.5 } },
    identity: { tenant: 'x-tenant' },
  },
  'thunderagent behind gates': {
    admission: { policy: 'thunderagent', intervalMs: 1_000, maxRunning: 1, maxSessions: 3 },
  },
  warm: { score: { temperature: 0.5 }, seed: 7 },
  soft: { sessionAffinity: { mode: 'soft', creditTokens: 300 }, fanOut: { minTokens: 200 } },
  hard: {
    sessionAffinity: { mode: 'hard' },
    fanOut: { minTokens: 200, maxWaitSeconds: 4 },
    admission: { policy: 'lease' },
  },
  'hard behind gates': {
    sessionAffinity: { mode: 'hard' },
    admission: { maxRunning: 1 },
  },
  targets: {
    workers: ['a', 'b', 'c'].map((id) => ({ id, url: `http://${id}`, capacityTokens: 6_000 })),
    targets: {
      big: { model: 'big', workers: ['a', 'b'], price: { input: 5, output: 25 }, grade: 'large' },
      small: { model: 'small', workers: ['c'], price: { input: 1, output: 5 }, grade: 'small' },
    },
    aliases: { m: ['big', 'small'] },
    continuity: { policy: 'lookahead', ownerDown: { toolLoop: 'escape' } },
  },
}

for (const [name, options] of Object.entries(POLICIES)) {
  test(`whatever a scheduler was told, it decides the same again: ${name}`, async (t) => {
    const path = folder(t)
    for (let seed = 1; seed <= 6; seed += 1) {
      const file = join(path, `${seed}.jsonl`)
      const completed = await told({ path: file, seed, steps: 240, options, changes: true })
      const verified = await verifyDecisions([file])
      t.is(verified.difference, null, `seed ${seed}: ${JSON.stringify(verified.difference)}`)
      t.deepEqual([verified.decisions, verified.alone, verified.gaps], [verified.of, {}, []])
      t.true(verified.of >= completed && completed > 10, `${verified.of} of ${completed}`)
    }
  })
}

test('every native call that can change a decision is kept as a step', (t) => {
  const rooms = ['scheduler', 'fleet', 'pool', 'snapshot', 'trace'].map((name) => {
    return readFileSync(join(__dirname, `../crates/node/src/${name}.rs`), 'utf8')
  })
  const calls = rooms
    .join('\npub(crate) fn ')
    .split(/^pub\(crate\) fn /m)
    .slice(1)
  const changing = calls.filter((call) => /handle\.(call|change)\(|settling\(|close\(/.test(call))
  const name = (call: string) => /^\w+/.exec(call)?.[0] ?? call
  const isKept = (call: string) => /\.note\(|journal|state\.advance\(/.test(call)
  // Closing cancels turn by turn, which is kept where it is done.
  // Nor is what engines tell kept: of their caches, and of the tokens by which these are found.
  const bare = [
    'pulled_events',
    'pool_told',
    'learn_tokens',
    'close_scheduler',
    'recall_body',
    'prompt_tokens',
    'revise_worker',
    'provoke_panic',
  ]
  const snapshots = ['begin_snapshot', 'write_snapshot', 'end_snapshot']
  const missing = changing.filter((call) => !isKept(call)).map(name)
  t.deepEqual(missing.sort(), [...bare, ...snapshots].sort())
  t.true(changing.length > 20)
})

test('what another version was told is not guessed at, and a step that cannot be read is a line', async (t) => {
  const path = folder(t)
  const all = await served(t, { receipts: 'full' })
  const changed = (name: string, change: (steps: Record<string, unknown>[]) => void) => {
    const records = all.map((line) => JSON.parse(unquoted(line)))
    const record = records.find((each) => each.event.warmpath?.steps?.length > 1)
    change(record.event.warmpath.steps)
    const file = join(path, name)
    write(
      file,
      records.map((each) => JSON.stringify(each)),
    )
    return file
  }
  const newer = changed('newer.jsonl', ([first]) => {
    ;(first?.options as Record<string, unknown>).later = 1
  })
  const { alone, difference, of } = await verifyDecisions([newer])
  t.deepEqual([alone, difference], [{ 'other-form': of }, null])
  const kind = changed('kind.jsonl', (steps) => {
    const submit = steps.find((step) => step.do === 'submit') as { head: number[] }
    submit.head[1] = 99
  })
  t.deepEqual((await verifyDecisions([kind])).alone, { 'other-form': of })

  const bad = changed('bad.jsonl', (steps) => delete steps[1]?.n)
  const strict = await verify([bad])
  t.is(strict.code, 1)
  t.regex(strict.err, /bad\.jsonl:\d+: a step of the scheduler: missing field `n`/)
  const lenient = await verify([bad, '--lenient'])
  t.regex(lenient.out, /lines left out that cannot be read: 1/)
})

test('a gateway that served text decided the same, whatever usage was reported', async (t) => {
  const path = join(folder(t), 'again.jsonl')
  write(path, (await served(t, { receipts: 'full' })).map(unquoted))
  const verified = await verifyDecisions([path])
  t.is(verified.difference, null, JSON.stringify(verified.difference))
  t.deepEqual([verified.decisions, verified.of, verified.alone], [7, 7, {}])
  const { code, out } = await verify([path])
  t.is(code, 0)
  t.is(out, 'same decisions: 7 of 7 made again, all as recorded\n')
})

test('a trace with a key decides the same and names nobody', async (t) => {
  const path = join(folder(t), 'trace.jsonl')
  await told({ path, seed: 5, steps: 120, changes: true, trace: { key: 'x'.repeat(16) } })
  const verified = await verifyDecisions([path])
  t.is(verified.difference, null, JSON.stringify(verified.difference))
  t.is(verified.decisions, verified.of)
  const steps = lines(path).map((line) => JSON.stringify(JSON.parse(line).event.warmpath.steps))
  t.true(steps.some((text) => text.includes('"do":"submit"')))
  for (const text of steps) t.notRegex(text, /http:|"s\d"|call_|You are|xxxx|787878/)
})

test('recordings one after the other, rotated files and a folder are one trace', async (t) => {
  const path = folder(t)
  const file = join(path, 'trace.jsonl')
  const trace = { sink: jsonl({ path: file, rotate: { lines: 20 } }) }
  await told({ path: file, seed: 3, steps: 200, trace, changes: true })
  const again = { sink: jsonl({ path: file, rotate: { lines: 20 } }) }
  await told({ path: file, seed: 4, steps: 200, trace: again })
  writeFileSync(join(path, 'package.json'), '{"name":"x","version":"1.0.0"}')
  const { code, out } = await verify([path])
  t.is(code, 0, out)
  t.regex(out, /^same decisions: (\d+) of \1 made again, all as recorded, of 2 schedulers/)
  t.regex(out, /^files passed over that are no trace of ours: 1$/m)
})

test('missing records end the check of what follows, and are no difference', async (t) => {
  const path = join(folder(t), 'trace.jsonl')
  await told({ path, seed: 3, steps: 200, changes: true })
  const all = lines(path)
  write(path, [...all.slice(0, 20), ...all.slice(23)])
  const { code, out } = await verify([path])
  t.is(code, 0, out)
  t.regex(out, /^same decisions: \d+ of \d+ made again/)
  t.regex(out, /^\d+ calls to the scheduler are missing after request [\w-]+, with the records/m)
  t.regex(
    out,
    /^\d+ not made again, each receipt checked by itself: records before them are missing$/m,
  )
  write(path, all.slice(5))
  const headless = await verify([path])
  t.is(headless.code, 0, headless.out)
  const torn = join(folder(t), 'torn.jsonl')
  writeFileSync(torn, all.join('\n').slice(0, -500))
  t.regex((await verify([torn])).err, /torn\.jsonl:\d+: /)
  const lenient = await verify([torn, '--lenient'])
  t.is(lenient.code, 0, lenient.out)
  t.regex(lenient.out, new RegExp(`^same decisions: ${all.length - 1} of ${all.length - 1} `))
  t.regex(lenient.out, /^lines left out that cannot be read: 1$/m)
  t.regex(
    headless.out,
    /^no decision was made again: \d+ receipts\n\d+ calls .* missing at the start/,
  )
})

test('the first decision that differs is shown beside what it would be', async (t) => {
  const path = join(folder(t), 'trace.jsonl')
  await told({ path, seed: 3, steps: 200, changes: true })
  const wrong = lines(path).map((line, at) => {
    const { receipt } = JSON.parse(line).event.warmpath
    if (at !== 9) return line
    const [row] = receipt.candidates
    const rows = [{ ...row, overlapTokens: row.overlapTokens + 64 }, ...receipt.candidates.slice(1)]
    return changed(line, { candidates: rows })
  })
  write(path, wrong)
  const { code, out } = await verify([path])
  t.is(code, 1)
  t.regex(out, /^decision \d+ of \d+, request .*: overlapTokens of \w+ differs/)
  t.regex(out, /as recorded +\| +as decided now/)
  t.regex(out, /^! .*\|/m)
  t.notRegex(out, /^! (session|outcome) /m)
})

test('records that do not say what was told: each receipt follows from its own terms', async (t) => {
  const path = join(folder(t), 'again.jsonl')
  const found = (await served(t, { receipts: 'full' })).map(unquoted)
  const bare = found.map((line) => dropped(line, ['steps', 'scheduler']))
  write(path, bare)
  const verified = await verifyDecisions([path])
  t.is(verified.difference, null, JSON.stringify(verified.difference))
  t.deepEqual([verified.decisions, verified.alone], [0, { 'no-steps': 7 }])
  write(path, [bare[0]?.replace(/"cost":([\d.]+)/, '"cost":12345.5') ?? ''])
  const { difference } = await verifyDecisions([path])
  t.regex(difference?.what ?? '', /cost of a/)
  write(
    path,
    bare.map((line) => changed(line, { worker: 'x' })),
  )
  const stranger = await verifyDecisions([path])
  t.regex(stranger.difference?.what ?? '', /"x" is not among the candidates/)
  write(
    path,
    bare.map((line) => changed(line, { candidates: [] })),
  )
  const { code, out } = await verify([path])
  t.is(code, 1)
  t.regex(out, /^nothing could be checked: 0 of 7 decisions/)
  t.regex(out, /^receipts without candidates, not checked: 7$/m)
})

test('what engines told and what a snapshot held is not recorded, and that is said', async (t) => {
  const path = join(folder(t), 'trace.jsonl')
  const kvEvents = { endpoint: 'tcp://127.0.0.1:9' }
  const workers = ['a', 'b', 'c'].map((id) => ({ id, url: `http://${id}`, kvEvents }))
  await told({ path, seed: 3, steps: 80, options: { workers } })
  const { alone, decisions, of, difference } = await verifyDecisions([path])
  t.deepEqual([alone, decisions, difference], [{ engines: of }, 0, null])
  const restored = join(folder(t), 'restored.jsonl')
  const first = new Scheduler({ workers: [{ id: 'a', url: 'http://a' }] })
  const chunks = []
  for await (const chunk of first.snapshot()) chunks.push(chunk)
  const options = { workers: [{ id: 'a', url: 'http://a' }] }
  const second = new Scheduler({
    ...options,
    trace: { sink: jsonl({ path: restored }), receipts: 'full' },
  })
  second.restore(Buffer.concat(chunks))
  const turn = await second.submit({
    path: '/v1/messages',
    headers: {},
    hashes: BigUint64Array.of(1n),
  })
  turn.complete()
  second.close()
  await second.flush()
  t.deepEqual((await verifyDecisions([restored])).alone, { snapshot: 1 })
})

test('a recording without receipts is told how to get them', async (t) => {
  const path = join(folder(t), 'again.jsonl')
  write(path, (await served(t)).map(unquoted))
  await t.throwsAsync(verifyDecisions([path]), { message: /receipts: 'full'/ })
})

test('what cannot be verified is named: a file without records, a folder, a receipt that is none', async (t) => {
  const path = folder(t)
  const file = join(path, 'trace.jsonl')
  writeFileSync(file, '')
  const empty = await verify([file])
  t.is(empty.code, 1)
  t.regex(empty.err, /trace\.jsonl: there is no record in it/)
  mkdirSync(join(path, 'empty'))
  const none = await verify([join(path, 'empty')])
  t.regex(none.err, /no \.json or \.jsonl file in it/)
  await told({ path: join(path, 'told.jsonl'), seed: 3, steps: 60 })
  const [line = ''] = lines(join(path, 'told.jsonl'))
  write(file, [line.replace(/"cost":[\d.]+/, '"cost":null')])
  const { code, err } = await verify([file])
  t.is(code, 1)
  t.regex(err, /trace\.jsonl:1: the receipt: candidates\[0\]\.cost is no number/)
  write(file, [line.replace('"do":"start"', '"do":"begin"')])
  t.regex((await verify([file])).err, /trace\.jsonl:1: a step of the scheduler: /)
  const idle = await verify([file, '--cache', '100'])
  t.is(idle.code, 2)
  t.regex(idle.err, /--cache does nothing with --verify/)
})

function write(path: string, all: readonly string[]): void {
  writeFileSync(path, `${all.join('\n')}\n`)
}

/** A line whose receipt has other fields; hashes stay as they are, since a double cannot hold them. */
function changed(line: string, fields: object): string {
  const { receipt } = JSON.parse(line).event.warmpath ?? {}
  if (receipt === undefined) return line
  return line.replace(JSON.stringify(receipt), JSON.stringify({ ...receipt, ...fields }))
}

/** A line without members of `warmpath`, which are its last ones. */
function dropped(line: string, names: readonly string[]): string {
  const { warmpath } = JSON.parse(line).event
  const kept = Object.entries(warmpath).filter(([name]) => !names.includes(name))
  return line.replace(JSON.stringify(warmpath), JSON.stringify(Object.fromEntries(kept)))
}

/** Hashes as numbers again. */
function unquoted(record: object): string {
  return JSON.stringify(record).replace(/"input_sequence_hashes":\[([^\]]*)\]/, (whole) =>
    whole.replaceAll(/"(\d+)"/g, '$1'),
  )
}

interface Ran {
  readonly code: number | string
  readonly out: string
  readonly err: string
}

function verify(more: readonly string[]): Promise<Ran> {
  const env = { ...process.env, NODE_NO_WARNINGS: '1' }
  const args = ['--import=tsx', MAIN, 'replay', '--verify', ...more]
  return new Promise((resolve) => {
    execFile(process.execPath, args, { env }, (error, out, err) =>
      resolve({ code: error?.code ?? 0, out, err }),
    )
  })
}
