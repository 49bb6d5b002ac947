import test from 'ava'
import fc from 'fast-check'

import {
  ASK_FOR_USAGE,
  changed,
  requestHeaders,
  responseHeaders,
  UsageChunkFilter,
  upstreamUrl,
  withoutCredentials,
} from '../src/forward/index.js'
import { readHeaders } from '../src/identity/index.js'

const client = readHeaders({
  Authorization: 'Bearer client',
  'X-Api-Key': 'client',
  Cookie: 'a=b',
  Connection: 'keep-alive',
  Host: 'router',
  'Content-Length': '12',
  'Content-Encoding': 'gzip',
  'Content-Type': 'application/json; charset=utf-8',
  'Anthropic-Beta': 'x-2026',
  'OpenAI-Organization': 'org',
  'X-Stainless-Lang': 'js',
  'X-Claude-Code-Session-Id': 's',
  'X-Internal': 'secret',
  'X-Wanted': 'yes',
})

test('only listed headers pass, and no credential of the client', (t) => {
  const headers = requestHeaders({ client, auth: { kind: 'none' }, worker: {}, extra: [] })
  t.deepEqual(headers, {
    'content-type': 'application/json; charset=utf-8',
    'anthropic-beta': 'x-2026',
    'x-stainless-lang': 'js',
    'x-claude-code-session-id': 's',
  })
})

test('the key of a target replaces whatever the client sent', (t) => {
  const auth = { kind: 'header', name: 'authorization', value: 'Bearer own' } as const
  const headers = requestHeaders({ client, auth, worker: {}, extra: [] })
  t.is(headers.authorization, 'Bearer own')
  t.is(headers['x-api-key'], undefined)
  t.is(headers['openai-organization'], undefined)
})

test('pass-through sends the account of the client on', (t) => {
  const headers = requestHeaders({ client, auth: { kind: 'pass-through' }, worker: {}, extra: [] })
  t.is(headers.authorization, 'Bearer client')
  t.is(headers['x-api-key'], 'client')
  t.is(headers['openai-organization'], 'org')
  t.is(headers.cookie, undefined)
})

test('the worker has the last word; extra names pass, but never credentials or hop-by-hop', (t) => {
  const headers = requestHeaders({
    client,
    auth: { kind: 'header', name: 'authorization', value: 'Bearer own' },
    worker: { authorization: 'Bearer engine', 'x-route': '1' },
    extra: ['x-wanted', 'cookie', 'x-api-key', 'connection', 'content-length'],
  })
  t.is(headers.authorization, 'Bearer engine')
  t.is(headers['x-route'], '1')
  t.is(headers['x-wanted'], 'yes')
  for (const name of ['cookie', 'x-api-key', 'connection', 'content-length']) {
    t.is(headers[name], undefined, name)
  }
})

test('answers lose what described the one hop and keep repeats', (t) => {
  const kept = responseHeaders([
    ['Content-Type', 'text/event-stream'],
    ['Content-Encoding', 'gzip'],
    ['Content-Length', '3'],
    ['Connection', 'close, X-Hop'],
    ['X-Hop', '1'],
    ['Set-Cookie', 'a=b'],
    ['Warning', 'one'],
    ['Warning', 'two'],
    ['retry-after', '3'],
  ])
  t.deepEqual(kept, [
    ['content-type', 'text/event-stream'],
    ['warning', 'one'],
    ['warning', 'two'],
    ['retry-after', '3'],
  ])
})

const addresses: [base: string, path: string, url: string][] = [
  ['http://h:8000', '/v1/messages?beta=true', 'http://h:8000/v1/messages?beta=true'],
  ['http://h:8000/v1', '/v1/messages', 'http://h:8000/v1/messages'],
  ['http://h/a/v1', '/v1/chat/completions', 'http://h/a/v1/chat/completions'],
  ['http://h/a', '/v1/responses', 'http://h/a/v1/responses'],
  ['http://h', '/chat/completions', 'http://h/v1/chat/completions'],
  ['http://h/v4', '/gateway/v1/chat/completions/', 'http://h/v4/chat/completions'],
  ['http://h', '/v1/../admin/v1/responses/compact#x', 'http://h/v1/responses/compact'],
  ['http://h/v1', '/v1/models', 'http://h/v1/models'],
  ['http://h', '/v1/models?x', 'http://h/v1/models?x'],
]

for (const [base, path, url] of addresses) {
  test(`${base} and ${path} meet`, (t) => {
    t.is(upstreamUrl(base, path), url)
  })
}

test('usage is asked for beside the other stream options', (t) => {
  const body = { model: 'm', stream: true, stream_options: { include_obfuscation: false } }
  t.deepEqual(changed(body, [ASK_FOR_USAGE]), {
    model: 'm',
    stream: true,
    stream_options: { include_obfuscation: false, include_usage: true },
  })
  const asked = { stream_options: { include_usage: true } }
  t.deepEqual(changed({ stream_options: null }, [ASK_FOR_USAGE]), asked)
})

const events = [
  'data: {"choices":[{"delta":{"content":"\\"usage\\" é"}}],"usage":null}\n\n',
  ': ping\r\n\r\n',
  'data: {"choices":[{"delta":{}}],"usage":{"prompt_tokens":1}}\r\n\r\n',
  'event: x\rdata: not json "usage"\r\r',
  'data: {"error":{"message":"out of memory"},"choices":[],"usage":{"prompt_tokens":3}}\n\n',
]
const usageChunks = [
  'data: {"id":"x","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\n',
  'data:{"choices":[],\r\ndata: "usage":{"prompt_tokens":3}}\r\n\r\n',
]

/** What comes out when `text` goes in, cut at `cuts`. */
function filtered(text: string, cuts: readonly number[]): string {
  const bytes = new TextEncoder().encode(text)
  const filter = new UsageChunkFilter()
  const out: Uint8Array[] = []
  const ends = [...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) => a - b)
  let from = 0
  for (const end of ends) {
    out.push(filter.push(bytes.slice(from, end)))
    from = end
  }
  out.push(filter.end())
  return Buffer.concat(out).toString('utf8')
}

test('exactly the usage chunk is taken out, wherever the bytes are split', (t) => {
  const plain = [...events, 'data: [DONE]\n\n']
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(...plain, ...usageChunks), { maxLength: 12 }),
      fc.array(fc.nat(), { maxLength: 12 }),
      (sent, cuts) => {
        const wanted = sent.filter((event) => !usageChunks.includes(event)).join('')
        return filtered(sent.join(''), cuts) === wanted
      },
    ),
  )
  t.pass()
})

test('complete events pass at once, a cut one when it is complete or the stream ends', (t) => {
  const filter = new UsageChunkFilter()
  const [event = ''] = events
  const bytes = new TextEncoder().encode(`${event}data: {"cho`)
  t.is(Buffer.from(filter.push(bytes)).toString(), event)
  t.is(Buffer.from(filter.end()).toString(), 'data: {"cho')
})

test('an event without end is not kept back for ever', (t) => {
  const filter = new UsageChunkFilter()
  let passed = 0
  const chunk = new Uint8Array(64 * 1024).fill(0x61)
  for (let at = 0; at < 20; at += 1) passed += filter.push(chunk).length
  t.is(passed, 20 * chunk.length)
})

test('a long event in single bytes costs one pass, and what was passed on is not written to again', (t) => {
  const filter = new UsageChunkFilter()
  const byte = Buffer.from('a')
  const began = performance.now()
  const passed: Uint8Array[] = []
  const lead = Buffer.from('data: 1\n\ndata: ')
  for (const each of lead) passed.push(filter.push(Buffer.of(each)))
  for (let n = 0; n < 500_000; n += 1) {
    if (filter.push(byte).length > 0) return t.fail()
  }
  for (const each of Buffer.from('\r\n\r\ndata: 2\n\n')) passed.push(filter.push(Buffer.of(each)))
  t.true(performance.now() - began < 5_000)
  const text = Buffer.concat(passed).toString()
  t.is(text, `${lead}${'a'.repeat(500_000)}\r\n\r\ndata: 2\n\n`)
})

test('what proves who asks is taken out of a query, the rest stays as it was', (t) => {
  const cases = [
    ['/v1/messages', '/v1/messages'],
    ['/v1/messages?beta=true', '/v1/messages?beta=true'],
    ['/p?key=K&a=%20b&api-version=1', '/p?a=%20b&api-version=1'],
    ['/p?api_key=K', '/p'],
    ['/p?subscription-key=K&sig=S&X-Amz-Signature=T&client_secret=C&stream=1', '/p?stream=1'],
    ['/p?API-KEY=K&access_token=T&x=1&', '/p?x=1&'],
    ['/p?api%5Fkey=K&%zz=1', '/p?%zz=1'],
  ] as const
  for (const [given, sent] of cases) t.is(withoutCredentials(given), sent)
})
