/** What a body is sent on as: the client's own bytes, but for the members that have to change. */
import { brotliCompressSync, gzipSync } from 'node:zlib'
import test from 'ava'
import fc from 'fast-check'
import { changed } from '../src/forward/index.js'
import { Scheduler } from '../src/index.js'
import { sentBody } from '../src/turn/sent.js'
import { CHAT, fleet } from './support/requests.js'

const MESSAGES = '"messages":[{"role":"user","content":"hi \\u00e9 \\\\\\"}"}]'

const sent = async (
  scheduler: Scheduler,
  request: Omit<Parameters<Scheduler['submit']>[0], 'path'>,
): Promise<string> => {
  await using turn = await scheduler.submit({ path: CHAT, ...request })
  return String(turn.init.body)
}

test('where a model has another name, that name alone is another', async (t) => {
  using f = fleet({ targets: { m: { model: 'org/"m"' } } })
  const before = `{ "2" : 1.0, "seed":12345678901234567890, "1":[1e2 ,{"model":"m"}],`
  const raw = `${before} "mod\\u0065l" : "m" ,${MESSAGES}}`
  const want = `${before} "mod\\u0065l" : "org/\\"m\\"" ,${MESSAGES}}`
  t.is(await sent(f.scheduler, { raw: Buffer.from(raw) }), want)
  t.is(await sent(f.scheduler, { raw }), want)
  t.is(await sent(f.scheduler, { raw: Buffer.from(raw), body: JSON.parse(raw) }), want)
  const marked = Buffer.from(`\ufeff \n${raw}\n`)
  t.is(await sent(f.scheduler, { raw: marked }), ` \n${want}\n`)
  const encodings = { gzip: gzipSync(raw), br: brotliCompressSync(raw) }
  for (const [encoding, bytes] of Object.entries(encodings)) {
    const headers = { 'content-encoding': encoding, 'content-length': String(bytes.length) }
    await using turn = await f.scheduler.submit({ path: CHAT, raw: bytes, headers })
    t.is(String(turn.init.body), want)
    const { headers: out } = turn.init
    t.deepEqual([out['content-encoding'], out['content-length']], [undefined, undefined])
  }
  const written = JSON.parse(await sent(f.scheduler, { body: JSON.parse(raw) }))
  t.deepEqual(written, JSON.parse(want), 'of a parsed body what the parser has kept')
})

test('a name that a body lacks comes last, as does what is asked for on behalf of its client', async (t) => {
  using f = fleet({ targets: { m: { model: 'other', tokens: 'answers' } } })
  const streamed = `{"stream":true, ${MESSAGES} }`
  t.is(
    await sent(f.scheduler, { raw: Buffer.from(streamed), model: 'm' }),
    `{"stream":true, ${MESSAGES},"model":"other","stream_options":{"include_usage":true},"return_token_ids":true }`,
  )
  const asks = `{"stream_options":{ "a":1.0 },"stream":true,"return_token_ids":0,"model":"m",${MESSAGES}}`
  t.is(
    await sent(f.scheduler, { raw: Buffer.from(asks) }),
    asks
      .replace('1.0 }', '1.0,"include_usage":true }')
      .replace('ids":0', 'ids":true')
      .replace('"m"', '"other"'),
  )
})

test('a body that names a member twice says the same to whoever reads it', async (t) => {
  using f = fleet({ targets: { m: { model: 'other' } } })
  for (const raw of [
    `{"model":"x","model":"m",${MESSAGES}}`,
    `{"mod\\u0065l":"m",${MESSAGES},"model":"m"}`,
  ]) {
    const body = await sent(f.scheduler, { raw: Buffer.from(raw) })
    t.deepEqual(JSON.parse(body), { ...JSON.parse(raw), model: 'other' })
    t.is(body.split('model').length, 2, body)
  }
  const options = '{"include_usage":false,"a":1,"include_usage":false}'
  const body = await sent(f.scheduler, {
    raw: `{"model":"other","stream":true,"stream_options":${options},${MESSAGES}}`,
  })
  t.is(body.split('include_usage').length, 2, body)
})

test('what is known by a key of its provider is spliced in too', async (t) => {
  using scheduler = new Scheduler({
    workers: [{ id: 'a', url: 'http://a' }],
    targets: { gpt: { workers: ['a'], credential: 'k', provider: 'openai', affinity: true } },
  })
  const raw = `{"seed":1.0,"model":"gpt",${MESSAGES} }`
  const body = await sent(scheduler, { raw: Buffer.from(raw), session: 's' })
  t.regex(body, /,"prompt_cache_key":"[0-9a-f]{32}" }$/)
  t.true(body.startsWith(raw.slice(0, -2)))
  const own = raw.replace('1.0', '1.0,"prompt_cache_key":"mine"')
  t.is(await sent(scheduler, { raw: Buffer.from(own), session: 's' }), own)
})

test('where a request goes that is no turn, its body has the name of the model there', (t) => {
  using scheduler = new Scheduler({
    workers: [{ id: 'a', url: 'http://a' }],
    targets: { m: { model: 'org/m' } },
  })
  const raw = Buffer.from('{"input":"é", "model":"m", "n":1.0}')
  const to = scheduler.destination('m')
  t.is(String(to.body(JSON.parse(String(raw)), raw)), '{"input":"é", "model":"org/m", "n":1.0}')
  t.is(to.body({ n: 1 }), '{"n":1,"model":"org/m"}')
  const named = Buffer.from('{"model":"org/m"}')
  t.is(to.body({ model: 'org/m' }, named), named)
})

const NAMES = [
  'model',
  'stream_options',
  'include_usage',
  'return_token_ids',
  'a',
  '1',
  '__proto__',
]

/** JSON as people write it: any spaces, names with escapes, members in any order. */
const json = fc.letrec<{ value: string; object: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom('null', 'true', '1.0', '12345678901234567890', '-0', '"\\ud83d"', '"}\\\\"'),
    fc.string().map((text) => JSON.stringify(text)),
    fc.array(tie('value'), { maxLength: 3 }).map((items) => `[${items.join(' , ')}]`),
    tie('object'),
  ),
  object: fc
    .array(fc.tuple(name(), fc.constantFrom('', ' ', '\n\t'), tie('value')), { maxLength: 5 })
    .map((all) => `{${all.map(([key, gap, value]) => `${gap}${key}${gap}:${value}`).join()} }`),
}))

function name(): fc.Arbitrary<string> {
  const escaped = (text: string) =>
    text.replace(/[aeiou]/, (c) => `\\u00${c.charCodeAt(0).toString(16)}`)
  return fc
    .tuple(fc.oneof(fc.constantFrom(...NAMES), fc.string()), fc.boolean())
    .map(([text, hides]) => {
      const quoted = JSON.stringify(text)
      return hides && !quoted.includes('\\') ? escaped(quoted) : quoted
    })
}

const CHANGES = [
  { name: 'model', value: 'ö "x"' },
  { name: 'stream_options', inner: 'include_usage', value: true },
  { name: 'return_token_ids', value: true },
] as const

test('what is spliced into bytes reads as what is written anew', (t) => {
  let kept = 0
  fc.assert(
    fc.property(json.object, fc.subarray([...CHANGES], { minLength: 1 }), (raw, changes) => {
      const parsed = JSON.parse(raw)
      const bytes = Buffer.from(raw)
      const body = sentBody(parsed, bytes, changes)
      const want = changed(parsed, changes)
      // Writing JSON keeps no sign of a zero.
      const isAnew = typeof body === 'string'
      t.deepEqual(JSON.parse(String(body)), isAnew ? JSON.parse(JSON.stringify(want)) : want)
      t.is(String(bytes), raw, 'the bytes of the client are not written to')
      kept += isAnew ? 0 : 1
    }),
    { numRuns: 2_000 },
  )
  t.true(kept > 1_000, `${kept}`)
})
