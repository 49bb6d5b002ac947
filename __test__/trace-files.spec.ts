/** Trace files: what is in them, when the next one begins, and what is left when something breaks. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import test from 'ava'
import { formatRecord, type JsonlOptions, jsonl, Scheduler, WarmpathError } from '../src/index.js'
import { chat } from './support/requests.js'
import { folder, lines, linesOf } from './support/trace.js'
import { idsOf, range, record } from './support/trace-record.js'

/** Writes batches and closes. */
async function write(options: JsonlOptions, ...batches: number[][]): Promise<void> {
  const sink = jsonl(options)
  sink.open?.()
  for (const ids of batches) await sink.write(ids.map((id) => record(id)))
  await sink.close?.()
}

const idsByFile = (path: string) =>
  Object.fromEntries(Object.entries(linesOf(path)).map(([name, found]) => [name, idsOf(found)]))

test('lines are what formatRecord makes of records', async (t) => {
  const path = join(folder(t), 'trace.jsonl')
  await write({ path }, [1, 2], [3])
  t.deepEqual(
    lines(path),
    [1, 2, 3].map((id) => formatRecord(record(id))),
  )
  t.is(statSync(path).mode & 0o777, 0o600)
})

test('a file that is there is moved aside and never written to', async (t) => {
  const at = folder(t)
  const path = join(at, 'trace.jsonl')
  writeFileSync(path, '{"torn')
  await write({ path }, [1])
  await write({ path }, [2])
  t.is(readFileSync(join(at, 'trace.000001.jsonl'), 'utf8'), '{"torn')
  t.deepEqual(idsOf(lines(join(at, 'trace.000002.jsonl'))), [1])
  t.deepEqual(idsOf(lines(path)), [2])
})

test('an empty file, and files of other names, stay', async (t) => {
  const at = folder(t)
  const path = join(at, 'trace.jsonl')
  writeFileSync(path, '')
  for (const other of ['trace.000007.jsonl.gz', 'trace.x.jsonl', 'trace2.000009.jsonl']) {
    writeFileSync(join(at, other), '')
  }
  await write({ path }, [1])
  t.false(existsSync(join(at, 'trace.000001.jsonl')))
  await write({ path, rotate: { files: 0 } }, [2])
  t.false(existsSync(join(at, 'trace.000001.jsonl')))
  t.true(existsSync(join(at, 'trace.000007.jsonl.gz')))
  t.true(existsSync(join(at, 'trace.x.jsonl')))
  t.true(existsSync(join(at, 'trace2.000009.jsonl')))
})

test('lines: each file has exactly as many, whatever the batches', async (t) => {
  const at = folder(t)
  await write({ path: join(at, 'a.jsonl'), rotate: { lines: 4 } }, range(0, 3), range(3, 11))
  t.deepEqual(idsByFile(at), {
    'a.000001.jsonl': range(0, 4),
    'a.000002.jsonl': range(4, 8),
    'a.jsonl': range(8, 11),
  })
})

for (const name of ['a.jsonl', 'a.jsonl.gz']) {
  test(`${name}: files stay below their size, and only so many are kept`, async (t) => {
    const at = folder(t)
    const options = { path: join(at, name), rotate: { bytes: 3000, files: 2 } }
    await write(options, ...range(0, 40).map((batch) => range(batch * 3, batch * 3 + 3)))
    const files = idsByFile(at)
    t.is(Object.keys(files).length, 3)
    const kept = [...Object.values(files).slice(0, 2), files[name] ?? []].flat()
    t.deepEqual(kept, range(120 - kept.length, 120))
    for (const file of Object.keys(files)) t.true(statSync(join(at, file)).size <= 3000, file)
    t.true(Object.values(files).every((ids) => ids.length > 0))
  })
}

test('a record larger than a file gets one of its own', async (t) => {
  const at = folder(t)
  const sink = jsonl({ path: join(at, 'a'), rotate: { bytes: 2000 } })
  sink.open?.()
  await sink.write([record(1), record(2, 500), record(3)])
  await sink.close?.()
  t.deepEqual(idsByFile(at), { 'a.000001': [1], 'a.000002': [2], a: [3] })
})

test('age: a file that is old enough is full', async (t) => {
  const at = folder(t)
  const sink = jsonl({ path: join(at, 'a.jsonl'), rotate: { ageSeconds: 1 } })
  sink.open?.()
  await sink.write([record(1)])
  await new Promise((resolve) => setTimeout(resolve, 1100))
  await sink.write([record(2)])
  await sink.close?.()
  await write({ path: join(at, 'b.jsonl'), rotate: { ageSeconds: 3600 } }, [3], [4])
  t.deepEqual(idsByFile(at), { 'a.000001.jsonl': [1], 'a.jsonl': [2], 'b.jsonl': [3, 4] })
})

test('a large batch is written in pieces, whole', async (t) => {
  const path = join(folder(t), 'a.jsonl.gz')
  const sink = jsonl({ path })
  sink.open?.()
  await sink.write(range(0, 60).map((id) => record(id, 2000)))
  await sink.close?.()
  t.deepEqual(idsOf(lines(path)), range(0, 60))
  const bytes = readFileSync(path)
  const members = [...bytes.keys()].filter((at) => bytes.subarray(at, at + 4).equals(GZIP_HEAD))
  t.true(members.length > 2, String(members.length))
})

const GZIP_HEAD = Buffer.of(0x1f, 0x8b, 8, 0)

test('gzip: by the name, or as told', async (t) => {
  const at = folder(t)
  await write({ path: join(at, 'a.gz') }, [1])
  await write({ path: join(at, 'b'), gzip: true }, [2])
  await write({ path: join(at, 'c.gz'), gzip: false }, [3])
  t.deepEqual(readFileSync(join(at, 'a.gz')).subarray(0, 4), GZIP_HEAD)
  t.deepEqual(readFileSync(join(at, 'b')).subarray(0, 4), GZIP_HEAD)
  t.is(readFileSync(join(at, 'c.gz'), 'utf8'), `${formatRecord(record(3))}\n`)
})

/** Traces turn after turn and says when a flush is done; killed in between. */
const ENDLESS = `
import { jsonl, Scheduler } from '../src/index.js'
void (async () => {
  const trace = { sink: jsonl({ path: process.argv[2] as string }) }
  const scheduler = new Scheduler({ workers: [{ url: 'http://a' }], trace })
  for (let count = 1; ; count += 1) {
    const messages = [{ role: 'user', content: 'x'.repeat(count) }]
    const turn = await scheduler.submit({ path: '/v1/chat/completions', body: { model: 'm', messages } })
    turn.complete({ promptTokens: 9, completionTokens: 1 })
    if (count % 50 !== 0) continue
    await scheduler.flush()
    process.stdout.write(count + ' ')
  }
})()
`

for (const name of ['a.jsonl', 'a.jsonl.gz']) {
  test(`${name}: what was flushed is whole after a crash`, async (t) => {
    const at = folder(t)
    const script = join(__dirname, `crash-${process.pid}-${name.length}.tmp.ts`)
    writeFileSync(script, ENDLESS)
    t.teardown(() => rmSync(script, { force: true }))
    const path = join(at, name)
    const child = spawn(process.execPath, ['--import=tsx', script, path])
    let told = ''
    child.stdout.on('data', (piece) => {
      told += String(piece)
      if (told.split(' ').length > 5) child.kill('SIGKILL')
    })
    child.stderr.on('data', (piece) => t.log(String(piece)))
    await once(child, 'close')
    const flushed = Math.max(...told.split(' ').map(Number))
    t.true(flushed >= 200)
    const bytes = readFileSync(path)
    const text = (name.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString()
    const found = text.split('\n').slice(0, -1)
    t.true(found.length >= flushed, `${found.length} of ${flushed}`)
    for (const line of found) t.notThrows(() => JSON.parse(line))
  })
}

test('a disk that is full loses records and no turn; nothing torn is left', async (t) => {
  if (!existsSync('/dev/full')) return t.pass('no /dev/full here')
  const sink = jsonl({ path: '/dev/full' })
  const scheduler = new Scheduler({ workers: [{ url: 'http://a' }], trace: { sink } })
  for (let count = 0; count < 3; count += 1) (await scheduler.submit(chat('s'))).complete()
  await scheduler.flush()
  t.deepEqual(scheduler.status().trace, { written: 0, dropped: 0, lost: 3, waiting: 0 })
  scheduler.close()
  await scheduler.flush()
})

test('a folder that goes away and comes back costs the records in between', async (t) => {
  const at = join(folder(t), 'in')
  mkdirSync(at)
  const sink = jsonl({ path: join(at, 'a.jsonl'), rotate: { lines: 1 } })
  sink.open?.()
  await sink.write([record(1)])
  rmSync(at, { recursive: true })
  await t.throwsAsync(async () => sink.write([record(2)]))
  mkdirSync(at)
  await sink.write([record(3)])
  await sink.close?.()
  t.deepEqual(idsByFile(at), { 'a.jsonl': [3] })
})

test('a file has one scheduler at a time', async (t) => {
  const sink = jsonl({ path: join(folder(t), 'a.jsonl') })
  const workers = [{ url: 'http://a' }]
  const first = new Scheduler({ workers, trace: { sink } })
  const error = t.throws(() => new Scheduler({ workers, trace: { sink } }))
  t.regex(String(error), /trace\.sink: .*a\.jsonl is written by another scheduler/)
  first.close()
  await first.flush()
  const second = new Scheduler({ workers, trace: { sink } })
  second.close()
  await second.flush()
})

test('what is wrong with options is said by name', (t) => {
  const refusal = (options: unknown) => {
    const error = t.throws(() => jsonl(options as JsonlOptions))
    t.true(WarmpathError.is(error) && error.code === 'WARMPATH_CONFIG')
    return error?.message ?? ''
  }
  t.regex(refusal(undefined), /^jsonl: must be an object/)
  t.regex(refusal({}), /^jsonl\.path: /)
  t.regex(refusal({ path: 'a', zip: true }), /^jsonl\.zip: unknown field/)
  t.regex(refusal({ path: 'a', gzip: 1 }), /^jsonl\.gzip: must be true or false/)
  t.regex(refusal({ path: 'a', rotate: { bytes: 10 } }), /^jsonl\.rotate\.bytes: .* from 1024/)
  t.regex(refusal({ path: 'a', rotate: { lines: 0 } }), /^jsonl\.rotate\.lines: /)
  t.regex(refusal({ path: 'a', rotate: { size: 1 } }), /^jsonl\.rotate\.size: unknown/)
})

test('a path that does not work is an error of the constructor', (t) => {
  const at = folder(t)
  const open = (path: string) => {
    const trace = { sink: jsonl({ path }) }
    const error = t.throws(() => new Scheduler({ workers: [{ url: 'http://a' }], trace }))
    t.true(WarmpathError.is(error) && error.code === 'WARMPATH_CONFIG')
    return error?.message ?? ''
  }
  t.regex(open(join(at, 'none/a.jsonl')), /cannot be written \(ENOENT\)/)
  t.regex(open(at), /cannot be written \(EISDIR\)/)
  if (process.getuid?.() === 0) return
  chmodSync(at, 0o500)
  t.regex(open(join(at, 'a.jsonl')), /cannot be written \(EACCES\)/)
  chmodSync(at, 0o700)
})

test('two sinks of one process do not write one file, whatever the path is called', async (t) => {
  const at = folder(t)
  const workers = [{ url: 'http://a' }]
  const path = join(at, 'a.jsonl')
  const first = new Scheduler({ workers, trace: { sink: jsonl({ path }) } })
  symlinkSync(path, join(at, 'link.jsonl'))
  symlinkSync(at, join(at, 'in'))
  for (const other of [path, join(at, 'link.jsonl'), join(at, 'in', 'a.jsonl')]) {
    const trace = { sink: jsonl({ path: other }) }
    t.throws(() => new Scheduler({ workers, trace }), {
      code: 'WARMPATH_CONFIG',
      message: /^trace\.sink: .*jsonl is written by another sink/,
    })
  }
  const both = {
    sink: [jsonl({ path: join(at, 'b.jsonl') }), jsonl({ path: join(at, 'b.jsonl') })],
  }
  t.throws(() => new Scheduler({ workers, trace: both }), { code: 'WARMPATH_CONFIG' })
  first.close()
  await first.flush()
  const second = new Scheduler({ workers, trace: { sink: jsonl({ path }) } })
  second.close()
  await second.flush()
})
