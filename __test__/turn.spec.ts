import { getEventListeners } from 'node:events'
import test from 'ava'
import fc from 'fast-check'

import { Scheduler, type Turn, WarmpathError } from '../src/index.js'
import { collected } from './support/gc.js'
import {
  CHAT,
  CHAT_STREAM,
  chat,
  fleet,
  JSON_ANSWER,
  SSE,
  settled,
  source,
  USAGE_CHUNK,
} from './support/requests.js'

const asked = { stream: true, stream_options: { include_usage: true } }

/** A logger that keeps the warnings. */
function ears() {
  const warnings: string[] = []
  const ignore = () => undefined
  const warn = (_: object, message: string) => warnings.push(message)
  return { warnings, logger: { debug: ignore, info: ignore, error: ignore, warn } }
}

test.serial('a turn that everybody forgot gives its room back', async (t) => {
  const { logger, warnings } = ears()
  using f = fleet({ logger })
  const { signal } = new AbortController()
  await (async () => {
    await f.scheduler.submit({ ...chat('s'), signal })
  })()
  t.is(f.left(), 1)
  t.true(await collected(() => f.left() === 0))
  t.is(getEventListeners(signal, 'abort').length, 0)
  t.deepEqual(warnings, ['a turn was forgotten: observe, end or dispose it'])
})

test.serial(
  'an answer that everybody forgot gives its room back and stops the upstream',
  async (t) => {
    const { logger, warnings } = ears()
    using f = fleet({ logger })
    const { body, cancelled } = source(CHAT_STREAM)
    await (async () => {
      const turn = await f.scheduler.submit(chat('s', 'hello', asked))
      t.true(turn.observe(new Response(body, SSE)).ok)
    })()
    t.true(await collected(() => f.left() === 0))
    t.is(cancelled.length, 1)
    t.deepEqual(warnings, ['an answer was forgotten: read or cancel its body'])
  },
)

test.serial('the body alone keeps an answer alive', async (t) => {
  using f = fleet()
  const reader = await (async () => {
    const turn = await f.scheduler.submit(chat('s', 'hello', asked))
    return turn.observe(new Response(source(CHAT_STREAM).body, SSE)).body?.getReader()
  })()
  t.false(await collected(() => f.left() === 0, 5))
  let text = ''
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true }
    if (done) break
    text += Buffer.from(value ?? []).toString()
  }
  t.is(text, CHAT_STREAM.join(''))
  t.is(f.left(), 0)
})

test('a key of ours is not sent beside one of the client`s in the query', async (t) => {
  const url = async (target: object, headers = {}) => {
    const scheduler = new Scheduler({
      workers: [{ id: 'a', url: 'http://a', headers }],
      targets: { m: { workers: ['a'], ...target } },
    })
    t.teardown(() => scheduler.close())
    const path = '/v1/chat/completions?key=client&beta=true'
    const turn = await scheduler.submit({ path, body: { model: 'm', messages: [] } })
    turn.complete()
    return turn.url
  }
  t.is(await url({ credential: 'own' }), 'http://a/v1/chat/completions?beta=true')
  t.is(await url({}, { 'x-api-key': 'own' }), 'http://a/v1/chat/completions?beta=true')
  t.is(await url({}), 'http://a/v1/chat/completions?key=client&beta=true')
})

test('a turn says where to send what', async (t) => {
  using f = fleet({
    targets: { qwen: { model: 'Qwen/Qwen3-32B', credential: 'key' } },
    aliases: { auto: ['qwen'] },
  })
  const turn = await f.scheduler.submit({
    path: `${CHAT}?trace=1`,
    headers: { authorization: 'Bearer client', 'x-session-id': 's', 'user-agent': 'agent/1' },
    body: { messages: [{ role: 'user', content: 'hi' }], model: 'auto', seed: 1 },
  })
  t.is(turn.url, 'http://a/v1/chat/completions?trace=1')
  t.deepEqual(turn.init, {
    method: 'POST',
    redirect: 'manual',
    headers: {
      'x-session-id': 's',
      'user-agent': 'agent/1',
      'content-type': 'application/json',
      authorization: 'Bearer key',
    },
    body: '{"messages":[{"role":"user","content":"hi"}],"model":"Qwen/Qwen3-32B","seed":1}',
  })
  t.deepEqual(
    [turn.worker, turn.target, turn.model, turn.session, turn.parent, turn.state, turn.heldMs],
    ['a', 'qwen', 'Qwen/Qwen3-32B', 's', undefined, 'running', 0],
  )
  t.true(turn.promptTokens > 0)
})

test('raw bytes are sent on untouched when nothing must change', async (t) => {
  using f = fleet()
  const raw = Buffer.from('{ "messages": [{"role":"user","content":"\\u00e9"}],  "model":"m" }\n')
  const turn = await f.scheduler.submit({ path: CHAT, raw })
  t.is(turn.init.body, raw)
  const text = await f.scheduler.submit({ path: CHAT, raw: raw.toString() })
  t.is(text.init.body, raw.toString())
  const parsed = await f.scheduler.submit({ path: CHAT, body: JSON.parse(raw.toString()) })
  t.is(parsed.promptTokens, turn.promptTokens)
  t.is(parsed.predictedCachedTokens, turn.promptTokens)
})

test('an answer passes byte for byte, however it is cut, and ends the turn', async (t) => {
  using f = fleet()
  const bytes = new TextEncoder().encode(CHAT_STREAM.join(''))
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(bytes.length), { maxLength: 8 }), async (cuts) => {
      const turn = await f.scheduler.submit(chat('s', 'hello', asked))
      const ends = [...cuts, bytes.length].sort((a, b) => a - b)
      const parts = ends.map((end, at) => bytes.slice(ends[at - 1] ?? 0, end))
      const body = ReadableStream.from(parts.filter((part) => part.length > 0))
      const response = turn.observe(new Response(body, { ...SSE, status: 201, statusText: 'Yes' }))
      t.is(response.status, 201)
      t.is(response.statusText, 'Yes')
      t.is(response.headers.get('content-type'), 'text/event-stream')
      t.deepEqual(new Uint8Array(await response.arrayBuffer()), bytes)
      t.is(turn.state, 'ended')
      t.deepEqual(turn.receipt()?.outcome, {
        state: 'completed',
        promptTokens: 7,
        cachedTokens: null,
        completionTokens: 2,
      })
    }),
    { numRuns: 30 },
  )
  t.is(f.left(), 0)
})

test('usage that the client did not ask for is asked for and taken out again', async (t) => {
  using f = fleet()
  const turn = await f.scheduler.submit(chat('s', 'hello', { stream: true }))
  t.deepEqual(JSON.parse(String(turn.init.body)).stream_options, { include_usage: true })
  const { body } = source(CHAT_STREAM)
  const response = turn.observe(new Response(body, SSE))
  t.is(await response.text(), CHAT_STREAM.filter((event) => event !== USAGE_CHUNK).join(''))
  t.like(turn.receipt()?.outcome, { promptTokens: 7, completionTokens: 2 })
})

test('a JSON answer is read at its end', async (t) => {
  using f = fleet()
  const turn = await f.scheduler.submit(chat('s'))
  const answer = {
    id: 'c',
    choices: [{ message: { role: 'assistant', content: 'ok' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 9, completion_tokens: 3, prompt_tokens_details: { cached_tokens: 4 } },
  }
  const response = turn.observe(Response.json(answer))
  t.is(turn.state, 'running')
  t.deepEqual(await response.json(), answer)
  t.deepEqual(turn.receipt()?.outcome, {
    state: 'completed',
    promptTokens: 9,
    cachedTokens: 4,
    completionTokens: 3,
  })
})

test('a whole answer to a request for a stream passes as it is', async (t) => {
  using f = fleet()
  const turn = await f.scheduler.submit(chat('s', 'hello', { stream: true }))
  const text = '{"choices":[],\n\n"usage":{"prompt_tokens":7}}'
  t.is(await turn.observe(new Response(text, JSON_ANSWER)).text(), text)
  t.like(turn.receipt()?.outcome, { state: 'completed', promptTokens: 7 })
})

test('an answer that cannot be read passes all the same', async (t) => {
  using f = fleet({ limits: { bodyBytes: 200 } })
  const answers: [string, ResponseInit][] = [
    ['{"half', JSON_ANSWER],
    [`{"long":"${'x'.repeat(300)}"}`, JSON_ANSWER],
    ['data: {"half\n\n\u0000: junk', SSE],
    ['plain', { headers: { 'content-type': 'text/plain' } }],
  ]
  for (const [text, init] of answers) {
    const turn = await f.scheduler.submit(chat('s', 'hello', asked))
    t.is(await turn.observe(new Response(text, init)).text(), text)
    t.is(turn.receipt()?.outcome.state, 'completed')
  }
})

test('a tool result goes back to the target whose model asked for it', async (t) => {
  using f = fleet({
    targets: { one: { workers: ['a'] }, two: { workers: ['b'] } },
    aliases: { first: ['one', 'two'], second: ['two', 'one'] },
  })
  const start = await f.scheduler.submit({ ...chat('s'), model: 'first' })
  t.is(start.target, 'one')
  const call = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }
  const message = { role: 'assistant', content: null, tool_calls: [call] }
  const answer = { choices: [{ message, finish_reason: 'tool_calls' }] }
  await start.observe(Response.json(answer)).text()
  const messages = [
    { role: 'user', content: 'hello' },
    message,
    { role: 'tool', tool_call_id: 'call_1', content: 'done' },
  ]
  const body = { model: 'second', messages }
  const locked = await f.scheduler.submit({ ...chat('s'), body })
  t.is(locked.target, 'one')
  t.is(locked.receipt()?.lock.decided, 'tool-loop')
  locked.complete()
  const free = await f.scheduler.submit({ ...chat('t', 'hello', { model: 'second' }) })
  t.is(free.target, 'two')
})

test('an answer that is not 2xx ends the turn and is returned as it is', async (t) => {
  using f = fleet()
  const turn = await f.scheduler.submit(chat('s'))
  const response = new Response('overloaded', { status: 529 })
  t.is(turn.observe(response), response)
  t.is(await response.text(), 'overloaded')
  t.is(turn.receipt()?.outcome.state, 'failed')
  t.is(f.left(), 0)
})

test('an answer without body ends the turn', async (t) => {
  using f = fleet()
  const turn = await f.scheduler.submit(chat('s'))
  t.is(turn.observe(new Response(null, { status: 204 })).status, 204)
  t.is(turn.receipt()?.outcome.state, 'completed')
})

test('an upstream that breaks off reaches the client and ends the turn', async (t) => {
  using f = fleet()
  const turn = await f.scheduler.submit(chat('s', 'hello', asked))
  const { body } = source(CHAT_STREAM.slice(0, 1), new Error('reset'))
  await t.throwsAsync(turn.observe(new Response(body, SSE)).text(), { message: 'reset' })
  t.is(turn.receipt()?.outcome.state, 'failed')
  t.is(f.left(), 0)
})

test('an error event in the stream counts as a failure', async (t) => {
  using f = fleet()
  const turn = await f.scheduler.submit(chat('s', 'hello', asked))
  const { body } = source(['data: {"error":{"message":"boom","type":"server_error"}}\n\n'])
  await turn.observe(new Response(body, SSE)).text()
  t.is(turn.receipt()?.outcome.state, 'failed')
})

test('a client that cancels stops the upstream and ends the turn', async (t) => {
  using f = fleet()
  const turn = await f.scheduler.submit(chat('s', 'hello', asked))
  const { body, cancelled } = source(CHAT_STREAM)
  const reader = turn.observe(new Response(body, SSE)).body?.getReader()
  await reader?.read()
  await reader?.cancel('bye')
  t.deepEqual(cancelled, ['bye'])
  t.is(turn.receipt()?.outcome.state, 'cancelled')
})

test('a client that stops reading after the last event has had its answer', async (t) => {
  using f = fleet()
  const turn = await f.scheduler.submit(chat('s', 'hello', asked))
  const { body, cancelled } = source(CHAT_STREAM)
  const reader = turn.observe(new Response(body, SSE)).body?.getReader()
  for (let at = 0; at < CHAT_STREAM.length; at += 1) await reader?.read()
  t.is(turn.state, 'ended')
  await reader?.cancel()
  t.is(cancelled.length, 1)
  t.like(turn.receipt()?.outcome, { state: 'completed', promptTokens: 7 })
})

test('chunks are pulled from the upstream only when the client reads', async (t) => {
  using f = fleet()
  const turn = await f.scheduler.submit(chat('s', 'hello', asked))
  const { body, pulled } = source(CHAT_STREAM)
  const reader = turn.observe(new Response(body, SSE)).body?.getReader()
  await settled()
  t.is(pulled(), 0)
  await reader?.read()
  t.is(pulled(), 1)
  await reader?.cancel()
})

test('an abort in mid-stream breaks the answer off, and no listener is left', async (t) => {
  using f = fleet()
  const abort = new AbortController()
  const turn = await f.scheduler.submit({ ...chat('s', 'hello', asked), signal: abort.signal })
  t.is(turn.init.signal, abort.signal)
  t.is(getEventListeners(abort.signal, 'abort').length, 1)
  const { body, cancelled } = source(CHAT_STREAM)
  const reader = turn.observe(new Response(body, SSE)).body?.getReader()
  await reader?.read()
  abort.abort(new Error('gone'))
  await t.throwsAsync(async () => reader?.read(), { message: 'gone' })
  t.is(cancelled.length, 1)
  t.is(turn.state, 'ended')
  t.is(getEventListeners(abort.signal, 'abort').length, 0)
  t.is(f.left(), 0)
})

const ends: [string, (turn: Turn) => void][] = [
  ['fail', (turn) => turn.fail(new Error('refused'))],
  ['complete', (turn) => turn.complete({ promptTokens: 5 })],
  ['dispose', (turn) => turn[Symbol.dispose]()],
]

for (const [name, end] of ends) {
  test(`${name} ends a turn once; later ends do nothing`, async (t) => {
    using f = fleet()
    const abort = new AbortController()
    const turn = await f.scheduler.submit({ ...chat('s'), signal: abort.signal })
    end(turn)
    t.is(turn.state, 'ended')
    const before = turn.receipt()?.outcome
    for (const [, again] of ends) again(turn)
    turn.firstToken()
    abort.abort()
    const response = new Response('late')
    t.is(turn.observe(response), response)
    t.false(turn.next())
    t.deepEqual(turn.receipt()?.outcome, before)
    t.is(getEventListeners(abort.signal, 'abort').length, 0)
    t.like(f.scheduler.status(), { reservations: 0, anomalies: { lateCalls: 0 } })
  })
}

test('disposing an observed turn leaves its end to the body', async (t) => {
  using f = fleet()
  let response: Response
  {
    await using turn = await f.scheduler.submit(chat('s', 'hello', asked))
    response = turn.observe(new Response(source(CHAT_STREAM).body, SSE))
  }
  t.is(f.left(), 1)
  await response.text()
  t.is(f.left(), 0)
})

test('next moves a turn that has shown nothing yet, while candidates are left', async (t) => {
  using f = fleet({
    workers: [
      { id: 'a', url: 'http://a', headers: { 'x-engine': 'a' } },
      { id: 'b', url: 'http://b/v1', headers: { 'x-engine': 'b' } },
    ],
  })
  const turn = await f.scheduler.submit(chat('s'))
  const { worker, receiptId } = turn
  t.is(turn.init.headers['x-engine'], worker)
  t.true(turn.next())
  t.not(turn.worker, worker)
  t.not(turn.receiptId, receiptId)
  t.is(turn.url, `http://${turn.worker}${'/v1/chat/completions'}`)
  t.is(turn.init.headers['x-engine'], turn.worker)
  t.false(turn.next())
  t.is(turn.state, 'running')
  turn.fail()
  t.is(f.left(), 0)

  const heard = await f.scheduler.submit(chat('s'))
  heard.firstToken()
  t.false(heard.next())
  heard.complete()
})

test('a second answer, or a body that is in use, is refused and costs nothing', async (t) => {
  using f = fleet()
  const turn = await f.scheduler.submit(chat('s', 'hello', asked))
  const used = new Response('x')
  await used.text()
  const refused = { instanceOf: WarmpathError, code: 'WARMPATH_INVALID_ARGUMENT' }
  t.throws(() => turn.observe(used), refused)
  t.is(turn.state, 'running')
  const response = turn.observe(new Response(source(CHAT_STREAM).body, SSE))
  t.throws(() => turn.observe(new Response('y')), refused)
  await response.text()
  t.is(f.left(), 0)
})
