/** The commands as processes: what they print, how they end. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { until } from './gateway-support.js'
import { send } from './support/http-client.js'
import { answering, json, startWorker } from './support/http-worker.js'
import { folder, lines } from './support/trace.js'
import { API } from './support/wire-apis.js'

const MAIN = join(__dirname, '../src/cli/main.mts')
const { path, request, answer } = API['openai-chat']

interface Run {
  process: ChildProcessWithoutNullStreams
  out: string
  err: string
  /** The exit code, once it has ended. */
  code: Promise<number | null>
}

function run(t: ExecutionContext, args: string[], env: Record<string, string> = {}): Run {
  const process_ = spawn(process.execPath, ['--import=tsx', MAIN, ...args], {
    cwd: join(__dirname, '..'),
    env: { ...process.env, NODE_NO_WARNINGS: '1', ...env },
  })
  t.teardown(() => process_.kill('SIGKILL'))
  const ended: Run = {
    process: process_,
    out: '',
    err: '',
    code: once(process_, 'close').then(([code]) => code as number | null),
  }
  process_.stdout.on('data', (piece) => {
    ended.out += String(piece)
  })
  process_.stderr.on('data', (piece) => {
    ended.err += String(piece)
  })
  return ended
}

function configFile(t: ExecutionContext, content: unknown): string {
  const folder = mkdtempSync(join(tmpdir(), 'warmpath-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'config.json')
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content))
  return file
}

/** Starts `serve` and waits until it says where. */
function serve(t: ExecutionContext, config: unknown, ...more: string[]) {
  return serveWith(t, config, more)
}

async function serveWith(
  t: ExecutionContext,
  config: unknown,
  more: string[],
  env?: Record<string, string>,
) {
  const file = configFile(t, config)
  const served = run(t, ['serve', '--config', file, '--port', '0', ...more], env)
  await until(t, 'it listens', () => served.err.includes('listens on'), 60_000)
  const url = /listens on (\S+)/.exec(served.err)?.[1] ?? ''
  return { ...served, served, url, file }
}

test.serial('serve, status, explain, and a stop that lets a turn finish', async (t) => {
  let release: (() => void) | undefined
  const worker = await startWorker(t, answering())
  const scheduler = {
    workers: [
      { id: 'w0', url: worker.url },
      { id: 'w1', url: worker.url },
    ],
  }
  const { served, url } = await serve(t, { scheduler }, '--log')

  const turn = await send(url + path, { body: request })
  t.is(turn.status, 200)
  const id = String(turn.headers['x-warmpath-receipt'])
  const status = run(t, ['status', '--url', url])
  t.is(await status.code, 0)
  const explain = run(t, ['explain', id, '--url', `${url}/`])
  t.is(await explain.code, 0)
  const none = run(t, ['explain', '987654', '--url', url])
  t.is(await none.code, 1)
  t.regex(status.out, /^worker +health +turns/)
  t.regex(status.out, /^w0 +up +0 /m)
  t.regex(explain.out, new RegExp(`^Receipt ${id}: to ${turn.headers['x-warmpath-worker']}, `))
  t.regex(explain.out, /^> w[01] +\d/m)
  t.regex(explain.out, /^outcome +completed; reported 5 prompt tokens/m)
  t.regex(none.err, /no receipt with this id is kept.* \[WARMPATH_UNKNOWN_ID\]\n$/)

  worker.handler = (_req, res) => {
    release = () => json(res, 200, answer)
  }
  const pending = send(url + path, { body: request })
  await until(t, 'the worker is asked', () => release !== undefined)
  served.process.kill('SIGTERM')
  await until(t, 'it says that it stops', () => served.err.includes('stops'))
  // Whoever reloads while it stops does not end it.
  served.process.kill('SIGHUP')
  await sleep(50)
  release?.()
  t.is((await pending).status, 200)
  t.is(await served.code, 0)
  const logged = served.out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  t.is(logged.filter((line) => line.path === path && line.status === 200).length, 2)
})

test.serial('a trace is whole when it has stopped, and keyed when a key is given', async (t) => {
  const worker = await startWorker(t, answering())
  const scheduler = { workers: [{ id: 'w0', url: worker.url }] }
  const at = folder(t)
  const [file, keyFile] = [join(at, 'trace.jsonl.gz'), join(at, 'key')]
  writeFileSync(keyFile, '000102030405060708090a0b0c0d0e0f\n')
  const options = ['--trace', file, '--trace-key-file', keyFile]
  const { served, url } = await serve(t, { scheduler }, ...options)
  for (let turn = 0; turn < 3; turn += 1) {
    await send(url + path, { headers: { 'x-session-id': 'plain' }, body: request })
  }
  const { trace } = JSON.parse((await send(`${url}/status`)).body)
  t.is(trace.written + trace.waiting, 3)
  served.process.kill('SIGTERM')
  t.is(await served.code, 0)
  const records = lines(file).map((line) => JSON.parse(line).event)
  t.deepEqual(
    records.map(({ warmpath }) => warmpath.turn),
    [0, 1, 2],
  )
  t.false(JSON.stringify(records).includes('plain'))
})

test.serial('SIGINT stops it too, with exit code 0 and nothing on standard output', async (t) => {
  const { served } = await serve(t, { scheduler: { workers: [{ url: 'http://127.0.0.1:1' }] } })
  served.process.kill('SIGINT')
  t.is(await served.code, 0)
  t.is(served.out, '')
})

test.serial('SIGHUP changes the workers, and a session keeps what is known of it', async (t) => {
  const [one, two] = [await startWorker(t, answering()), await startWorker(t, answering())]
  const fleet = (...workers: [string, string][]) => ({
    scheduler: { workers: workers.map(([id, url]) => ({ id, url })) },
  })
  const { served, url, file } = await serve(t, fleet(['w1', one.url]))
  const ask = () => send(url + path, { headers: { 'x-session-id': 's' }, body: request })
  const status = async () => JSON.parse((await send(`${url}/status`)).body)
  const reload = async (config: unknown, said: string) => {
    writeFileSync(file, typeof config === 'string' ? config : JSON.stringify(config))
    served.err = ''
    served.process.kill('SIGHUP')
    await until(t, said, () => served.err.includes(said))
  }
  let release = () => {}
  t.is((await ask()).headers['x-warmpath-worker'], 'w1')
  one.handler = (_req, res) => {
    release = () => json(res, 200, answer)
  }
  const running = ask()
  await until(t, 'a turn is under way', () => one.received.length === 2)

  await reload('{', 'goes on as it was')
  await reload(fleet(['w1', 'no address']), 'goes on as it was: scheduler.workers[0].url')
  await reload({ ...fleet(['w1', one.url]), retry: { attempts: 1 } }, 'retry.attempts has changed')
  t.is((await status()).workers.length, 1)

  await reload(fleet(['w1', one.url], ['w2', two.url]), '1 workers came, 0 leave')
  await reload(fleet(['w2', two.url]), '0 workers came, 1 leave')
  t.is((await ask()).headers['x-warmpath-worker'], 'w2')
  release()
  t.is((await running).headers['x-warmpath-worker'], 'w1')
  t.is((await status()).sessions, 1)
  // The session's next turn finds the worker of its last one: the scheduler stayed.
  t.true(
    (await status()).workers.find(({ id }: { id: string }) => id === 'w2').predictedCachedTokens >
      0,
  )
  served.process.kill('SIGTERM')
  t.is(await served.code, 0)
})

test.serial(
  'SIGHUP changes targets, aliases and credentials, and refuses the rest by name',
  async (t) => {
    const [one, two] = [await startWorker(t, answering()), await startWorker(t, answering())]
    const workers = [
      { id: 'w1', url: one.url },
      { id: 'w2', url: two.url },
    ]
    const first = { workers: ['w1'], credential: 'env:FIRST_KEY' }
    const second = { workers: ['w2'], credential: 'env:SECOND_KEY' }
    const started = { workers: [workers[0]], targets: { first }, aliases: { auto: ['first'] } }
    const { served, url, file } = await serveWith(t, { scheduler: started }, [], {
      FIRST_KEY: 'one',
      SECOND_KEY: 'two',
    })
    const ask = async (model: string) =>
      send(url + path, { headers: { 'x-session-id': 's' }, body: { ...request, model } })
    const reload = async (scheduler: unknown, said: string) => {
      writeFileSync(file, JSON.stringify({ scheduler }))
      served.err = ''
      served.process.kill('SIGHUP')
      await until(t, said, () => served.err.includes(said))
      t.is(served.err.trim().split('\n').length, 1)
    }
    t.is((await ask('auto')).headers['x-warmpath-target'], 'first')
    const both = { workers, targets: { first, second }, aliases: { auto: ['second', 'first'] } }
    await reload(both, '1 workers came, 0 leave; targets added: second')
    t.is((await ask('second')).headers['x-warmpath-worker'], 'w2')
    t.is(two.received.at(-1)?.headers.authorization, 'Bearer two')

    const renamed = { ...both, targets: { first: { ...first, model: 'other' }, second } }
    await reload(renamed, 'goes on as it was: scheduler.targets.first.model has changed')
    const unset = { ...both, targets: { first, second: { ...second, credential: 'env:NOT_SET' } } }
    await reload(unset, 'goes on as it was: scheduler.targets.second.credential refers to')
    t.is((await ask('second')).status, 200)

    const left = { workers: [workers[1]], targets: { second: { ...second, credential: 'new' } } }
    await reload(
      { ...left, aliases: { auto: ['second'] } },
      'targets removed: first; targets changed',
    )
    t.is((await ask('auto')).headers['x-warmpath-worker'], 'w2')
    t.is(two.received.at(-1)?.headers.authorization, 'Bearer new')
    const gone = await ask('first')
    t.is(gone.status, 404)
    const status = JSON.parse((await send(`${url}/status`)).body)
    t.deepEqual([status.sessions, status.targets, status.workers.length], [1, ['second'], 1])
    served.process.kill('SIGTERM')
    t.is(await served.code, 0)
  },
)

test.serial('neither --check nor a file that is refused connects to an engine', async (t) => {
  const publisher = createServer().listen(0, '127.0.0.1')
  await once(publisher, 'listening')
  t.teardown(() => publisher.close())
  let connections = 0
  publisher.on('connection', (socket) => {
    connections += 1
    socket.destroy()
  })
  const { port } = publisher.address() as AddressInfo
  const kvEvents = `tcp://127.0.0.1:${port}`
  const worker = { url: 'http://127.0.0.1:1' }
  const listening = { scheduler: { workers: [{ ...worker, kvEvents }] } }
  const checked = run(t, ['serve', '--check', '-c', configFile(t, listening)])
  t.is(await checked.code, 0)
  const bad = { scheduler: { workers: [{ ...worker, kvEvents: `${kvEvents}9999` }] } }
  t.is(await run(t, ['serve', '--check', '-c', configFile(t, bad)]).code, 2)

  const { served, file } = await serve(t, { scheduler: { workers: [worker] } })
  const other = { ...listening.scheduler, seed: 5 }
  writeFileSync(file, JSON.stringify({ scheduler: other }))
  served.process.kill('SIGHUP')
  await until(t, 'it is refused', () => served.err.includes('scheduler.seed has changed'))
  t.is(connections, 0)
  writeFileSync(file, JSON.stringify(listening))
  served.process.kill('SIGHUP')
  await until(t, 'it is listened to', () => connections > 0)
  served.process.kill('SIGTERM')
  t.is(await served.code, 0)
})

test.serial('--check says whether a configuration is right, and starts nothing', async (t) => {
  const scheduler = { workers: [{ url: 'http://127.0.0.1:1' }] }
  const right = run(t, ['serve', '--check', '-c', configFile(t, { scheduler })])
  const wrong = run(t, ['serve', '--check', '-c', configFile(t, { scheduler: { workers: [] } })])
  t.is(await right.code, 0)
  t.regex(right.out, /is right: 1 workers, 1 targets\n$/)
  t.is(right.err, '')
  t.is(await wrong.code, 2)
  t.regex(wrong.err, /^warmpath: scheduler\.workers: needs at least one worker.*\n$/)
})

test.serial('a port that is taken is exit code 2 and one line', async (t) => {
  const worker = await startWorker(t, answering())
  const args = ['serve', '-c', configFile(t, ONE), '--port', String(worker.port)]
  const taken = run(t, args)
  t.is(await taken.code, 2)
  t.regex(taken.err, /^warmpath: .*cannot listen on 127\.0\.0\.1 port \d+ \(EADDRINUSE\).*\n$/)
})

test.serial(
  'what does not start, or only checks, leaves a trace alone that is written',
  async (t) => {
    const worker = await startWorker(t, answering())
    const at = folder(t)
    const file = join(at, 'trace.jsonl')
    writeFileSync(file, '{}\n')
    const args = ['serve', '-c', configFile(t, ONE), '--trace', file]
    t.is(await run(t, [...args, '--port', String(worker.port)]).code, 2)
    t.is(await run(t, [...args, '--check']).code, 0)
    t.deepEqual(readdirSync(at), ['trace.jsonl'])
    t.is(readFileSync(file, 'utf8'), '{}\n')
  },
)

test.serial('--check finds a trace that could not be written', async (t) => {
  const args = ['serve', '--check', '-c', configFile(t, ONE), '--trace']
  for (const [path, code] of [
    ['/none/a', 'ENOENT'],
    [folder(t), 'EISDIR'],
    [join(configFile(t, ONE), 'a'), 'ENOTDIR'],
  ] as const) {
    const wrong = run(t, [...args, path])
    t.is(await wrong.code, 2)
    t.true(
      wrong.err.includes(`scheduler.trace.sink: ${path} cannot be written (${code})`),
      wrong.err,
    )
    t.is(wrong.out, '')
  }
})

const ONE = { scheduler: { workers: [{ url: 'http://127.0.0.1:1' }] } }
const WORKER = { id: 'a', url: 'http://127.0.0.1:1' }
const WRONG: [string, unknown, string[], RegExp][] = [
  ['a file that is not JSON', '{"secret-value" 1', [], /is not valid JSON/],
  ['a file that is not there', ONE, ['-c', '/none.json'], /cannot read \/none\.json \(ENOENT\)/],
  [
    'a worker that nobody declared',
    { scheduler: { workers: [WORKER], targets: { t: { workers: ['b'] } } } },
    [],
    /scheduler\.targets\.t\.workers\[0\]: must be a, got "b"/,
  ],
  [
    'a worker URL that is no URL',
    { scheduler: { workers: [{ url: '10.0.0.1:8000' }] } },
    [],
    /scheduler\.workers\[0\]\.url: must be an absolute http:\/\/ or https:\/\/ address/,
  ],
  ['an unknown field', { scheduler: {}, prot: 1 }, [], /prot is not known; known: host, port/],
  ['a port that is none', { scheduler: {} }, ['--port', 'x'], /whole number from 0 to 65535/],
  ['a trace in no folder', ONE, ['--trace', '/none/a'], /scheduler.trace.sink: .* \(ENOENT\)/],
  ['a trace key that is not there', ONE, ['--trace', 'a', '--trace-key-file', '/none'], /ENOENT/],
  ['a trace key without a trace', ONE, ['--trace-key-file', 'a'], /needs --trace/],
]

for (const [what, content, more, message] of WRONG) {
  test.serial(`${what} is exit code 2 and one line that says so`, async (t) => {
    const wrong = run(t, ['serve', '-c', configFile(t, content), ...more])
    t.is(await wrong.code, 2)
    t.regex(wrong.err, message)
    t.regex(wrong.err, /^[^\n]+\n$/)
    t.notRegex(wrong.err, /secret-value/)
    t.is(wrong.out, '')
  })
}

test.serial('an unknown command is exit code 2', async (t) => {
  const unknown = run(t, ['surve'])
  t.is(await unknown.code, 2)
  t.regex(unknown.err, /unknown command 'surve'/)
})

test.serial('no gateway at the address is exit code 1 and says where it looked', async (t) => {
  const worker = await startWorker(t, answering())
  await worker.close()
  const none = run(t, ['status', '--url', worker.url])
  t.is(await none.code, 1)
  t.true(none.err.includes(`cannot reach a gateway at ${worker.url} (ECONNREFUSED)`), none.err)
})

test.serial('what answers but is no gateway is told as such', async (t) => {
  const worker = await startWorker(t, (req, res) => {
    if (req.path.startsWith('/a/')) return json(res, 200, { status: 'ok' })
    if (req.path.startsWith('/b/')) return json(res, 200, [])
    if (req.path.startsWith('/c/')) return json(res, 404, { error: 'not found' })
    if (req.path.startsWith('/d/')) return json(res, 404, { error: { code: 404, message: 'm' } })
    return res.end('null')
  })
  const runs = ['a', 'b', 'c', 'd', 'e'].flatMap((base) => {
    const url = `${worker.url}/${base}`
    return [
      [url, run(t, ['status', '--url', url])],
      [url, run(t, ['explain', 'nope', '--url', url])],
    ] as [string, Run][]
  })
  for (const [url, none] of runs) {
    t.is(await none.code, 1)
    t.true(none.err.startsWith(`warmpath: ${url} is no Warmpath gateway: it answered`), none.err)
    t.notRegex(none.err, /\n\s+at /)
  }
})

test.serial('help is exit code 0 and shows a configuration', async (t) => {
  const help = run(t, ['serve', '--help'])
  t.is(await help.code, 0)
  t.regex(help.out, /--config <file>/)
  t.regex(help.out, /"workers": \[\{ "id": "a"/)
  t.regex(help.out, /Exit codes:/)
})
