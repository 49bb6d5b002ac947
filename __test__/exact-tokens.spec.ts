/** Exact tokens: who is asked, with which bytes, for how long, and what a turn is known by otherwise. */
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import test, { type ExecutionContext } from 'ava'
import { readTokens } from '../src/engines/index.js'
import { Scheduler, type SchedulerOptions, type TurnRequest } from '../src/index.js'
import { type Handler, json, startWorker } from './support/http-worker.js'
import { CHAT } from './support/requests.js'

const MESSAGES = [{ role: 'user', content: 'hello' }]
/** Written as no library would: what is sent must be this. */
const RAW = `{"model" : "m", "2":1, "messages":${JSON.stringify(MESSAGES)}}`

const ids = (count: number, from = 0) => Array.from({ length: count }, (_, at) => from + at)

function scheduler(urls: readonly string[], more: Partial<SchedulerOptions> = {}): Scheduler {
  return new Scheduler({
    workers: urls.map((url, at) => ({ id: `w${at}`, url })),
    cache: { blockTokens: 16 },
    tokens: { from: 'engine', timeoutMs: 30_000 },
    ...more,
  })
}

async function known(s: Scheduler, request: Partial<TurnRequest> = {}) {
  await using turn = await s.submit({ path: CHAT, raw: Buffer.from(RAW), ...request })
  const prompt = turn.receipt()?.prompt
  return { form: prompt?.form, origin: prompt?.origin, tokens: prompt?.tokens, init: turn.init }
}

const rendering: Handler = (_, res) => json(res, 200, { request_id: 'r', token_ids: ids(40) })
const tokenizing: Handler = ({ path }, res) =>
  path === '/tokenize' ? json(res, 200, { tokens: ids(33), count: 33 }) : json(res, 403, {})

test('the renderer gets the bytes of the turn, and the turn is known by its tokens', async (t) => {
  const engine = await startWorker(t, rendering)
  using s = scheduler([engine.url], { workers: [{ url: engine.url, headers: { 'x-key': 'k' } }] })
  const turn = await known(s)
  t.like(turn, { form: 'tokens', origin: 'engine', tokens: 40 })
  t.deepEqual(turn.init.body, Buffer.from(RAW))
  const [asked] = engine.received
  t.is(asked?.path, `${CHAT}/render`)
  t.is(asked?.body, RAW)
  t.is(asked?.headers['x-key'], 'k')
})

test('an engine without a renderer is asked to tokenize, and its lack is remembered', async (t) => {
  const engine = await startWorker(t, tokenizing)
  using s = scheduler([`${engine.url}/prefix/v1`])
  engine.handler = (req, res) => tokenizing({ ...req, path: req.path.replace('/prefix', '') }, res)
  t.like(await known(s), { form: 'tokens', origin: 'engine', tokens: 33 })
  t.like(await known(s), { origin: 'engine' })
  t.deepEqual(
    engine.received.map(({ path }) => path),
    ['/prefix/v1/chat/completions/render', '/prefix/tokenize', '/prefix/tokenize'],
  )
})

test('a model that is called otherwise upstream is asked for by that name, all else as it came', async (t) => {
  const engine = await startWorker(t, rendering)
  using s = scheduler([engine.url], { targets: { m: { model: 'org/m' } } })
  const { origin, init } = await known(s, {
    raw: gzipSync(RAW),
    headers: { 'content-encoding': 'gzip' },
  })
  t.is(origin, 'engine')
  t.is(engine.received[0]?.body, String(init.body))
  t.is(String(init.body), RAW.replace('"m"', '"org/m"'))
})

test('tokens that come too late leave the turn to its text', async (t) => {
  const engine = await startWorker(t, () => undefined)
  using s = scheduler([engine.url], { tokens: { from: 'engine', timeoutMs: 30 } })
  const began = performance.now()
  t.like(await known(s), { form: 'text', origin: 'late' })
  t.true(performance.now() - began < 5_000)
})

test('an engine that fails is left alone after three times, and asked again later', async (t) => {
  const engine = await startWorker(t, (_, res) => json(res, 500, {}))
  using s = scheduler([engine.url])
  for (let turn = 0; turn < 3; turn += 1) t.is((await known(s)).origin, 'failed')
  t.like(await known(s), { form: 'text', origin: 'resting' })
  t.is(engine.received.length, 3)
  engine.handler = rendering
  await sleep(1_050)
  t.is((await known(s)).origin, 'engine')
})

test('another engine of the group is asked where one cannot be reached', async (t) => {
  const gone = await startWorker(t, rendering)
  await gone.close()
  const engine = await startWorker(t, rendering)
  using s = scheduler([gone.url, engine.url])
  for (let turn = 0; turn < 4; turn += 1) t.is((await known(s)).origin, 'engine')
})

test('what an engine refuses, or does not understand, is told apart', async (t) => {
  const engine = await startWorker(t, (_, res) => json(res, 400, { error: 'too long' }))
  using s = scheduler([engine.url])
  for (let turn = 0; turn < 5; turn += 1) t.is((await known(s)).origin, 'refused')
  engine.handler = (_, res) => json(res, 200, { tokens: ['a'] })
  t.is((await known(s)).origin, 'failed')
  engine.handler = (_, res) => json(res, 404, {})
  t.is((await known(s)).origin, 'unsupported')
  const asked = engine.received.length
  t.is((await known(s)).origin, 'unsupported')
  t.is(engine.received.length, asked)
})

test('images, several models and dialects that nobody renders are known by text', async (t) => {
  const engine = await startWorker(t, tokenizing)
  const other = await startWorker(t, tokenizing)
  using s = scheduler([engine.url, other.url], {
    targets: {
      m: { workers: ['w0'] },
      n: { workers: ['w1'] },
      off: { workers: ['w1'], tokens: 'text' },
    },
    aliases: { both: ['m', 'n'], plain: ['off'] },
  })
  const body = (model: string, content: unknown) => ({
    raw: JSON.stringify({ model, messages: [{ role: 'user', content }] }),
  })
  t.is((await known(s, body('both', 'hello'))).origin, 'models')
  t.is((await known(s, body('plain', 'hello'))).origin, 'given')
  const image = [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }]
  t.is((await known(s, body('m', image))).origin, 'media')
  t.is(engine.received.length, 0)
  const messages = { ...body('m', 'hello'), path: '/v1/messages' }
  t.is((await known(s, messages)).origin, 'unsupported')
  t.deepEqual(
    engine.received.map(({ path }) => path),
    ['/v1/messages/render'],
  )
})

test("the caller's tokens come first, then the caller's tokenizer", async (t) => {
  const asked: unknown[] = []
  using s = scheduler(['http://127.0.0.1:9'], {
    tokens: {
      tokenize: (prompt) => {
        asked.push(prompt)
        return Uint32Array.from(ids(50))
      },
    },
  })
  t.like(await known(s, { tokens: Uint32Array.from(ids(20)) }), { origin: 'given', tokens: 20 })
  t.is(asked.length, 0)
  t.like(await known(s), { form: 'tokens', origin: 'tokenizer', tokens: 50 })
  t.deepEqual(asked, [{ path: CHAT, body: JSON.parse(RAW), model: undefined }])
})

test('a tokenizer may not know, fail, be wrong or be late', async (t) => {
  const cases: [() => unknown, string][] = [
    [() => undefined, 'unsupported'],
    [() => Promise.reject(new Error('no')), 'failed'],
    [() => [1, 2], 'failed'],
    [() => new Uint32Array(0), 'failed'],
    [() => new Promise(() => undefined), 'late'],
  ]
  for (const [tokenize, origin] of cases) {
    using s = scheduler(['http://127.0.0.1:9'], {
      tokens: { tokenize: tokenize as () => undefined, timeoutMs: 20 },
    })
    t.like(await known(s), { form: 'text', origin })
  }
})

test('a client that leaves meanwhile is not waited for, and reserves nothing', async (t) => {
  const engine = await startWorker(t, () => undefined)
  using s = scheduler([engine.url], { tokens: { from: 'engine', timeoutMs: 60_000 } })
  const leaving = new AbortController()
  const turn = s.submit({ path: CHAT, raw: RAW, signal: leaving.signal })
  while (engine.received.length === 0) await sleep(5)
  leaving.abort()
  await t.throwsAsync(turn, { code: 'WARMPATH_ABORTED' })
  t.is(s.status().reservations, 0)
})

test('closing settles what waits for tokens, lets go of the engine, and asks nobody any more', async (t) => {
  const engine = await startWorker(t, () => undefined)
  const tokenize = () => new Promise<undefined>(() => undefined)
  const timeoutMs = 60_000
  for (const tokens of [
    { from: 'engine' as const, timeoutMs },
    { tokenize, timeoutMs },
  ]) {
    const s = scheduler([engine.url], { tokens })
    const asksEngine = 'from' in tokens
    const turn = s.submit({ path: CHAT, raw: RAW })
    while (asksEngine && engine.received.length === 0) await sleep(5)
    const began = performance.now()
    s.close()
    await t.throwsAsync(turn, { code: 'WARMPATH_CLOSED' })
    t.true(performance.now() - began < 5_000)
    await t.throwsAsync(s.submit({ path: CHAT, raw: RAW }), { code: 'WARMPATH_CLOSED' })
    t.is(engine.received.length, 1)
  }
})

test('nobody is asked where nobody wants tokens, and bad requests are refused as ever', async (t) => {
  const engine = await startWorker(t, rendering)
  using off = scheduler([engine.url], { tokens: {} })
  t.like(await known(off), { form: 'text', origin: 'given' })
  t.is(engine.received.length, 0)
  using on = scheduler([engine.url])
  await t.throwsAsync(known(on, { raw: '[]' }), { code: 'WARMPATH_INVALID_BODY' })
  await t.throwsAsync(known(on, { raw: undefined as never }), { code: 'WARMPATH_INVALID_BODY' })
  await t.throwsAsync(known(on, { path: '/v1/models' }), { code: 'WARMPATH_UNSUPPORTED_PATH' })
})

test('answers of renderers and tokenizers', (t) => {
  const read = (answer: unknown) => readTokens(JSON.stringify(answer))
  t.deepEqual(read([{ token_ids: [1, 4294967295] }]), Uint32Array.of(1, 0xffff_ffff))
  t.is(read({ token_ids: [1], features: { mm_hashes: { image: ['a'] } } }), 'media')
  t.deepEqual(read({ token_ids: [1], features: { mm_hashes: {} } }), Uint32Array.of(1))
  for (const bad of [1, null, [], {}, { tokens: [] }, { tokens: [-1] }, { tokens: [1.5] }]) {
    t.is(read(bad), 'failed', JSON.stringify(bad))
  }
  t.is(readTokens('{'), 'failed')
})

test('options that cannot be are refused by name', (t: ExecutionContext) => {
  const refused = (more: object, message: RegExp) =>
    t.throws(() => scheduler(['http://a'], more as Partial<SchedulerOptions>), { message })
  refused({ tokens: { from: 'guess' } }, /^tokens\.from: must be one of text, engine, tokenize/)
  refused({ tokens: { from: 'tokenize' } }, /^tokens\.tokenize/)
  refused({ tokens: { timeoutMs: 0 } }, /^tokens\.timeoutMs/)
  refused({ tokens: {}, targets: { m: { tokens: 'tokenize' } } }, /^targets\.m\.tokens/)
})
