/**
 * One turn through the gateway, when all goes well and when the client is at fault: bytes and
 * headers in both directions, for each wire API, over real sockets.
 */
import { gzipSync } from 'node:zlib'
import test from 'ava'
import { gatewayOver, openGateway, until } from './gateway-support.js'
import { open, send } from './support/http-client.js'
import { answering, json, startWorker } from './support/http-worker.js'
import { API, API_NAMES } from './support/wire-apis.js'

for (const name of API_NAMES) {
  const api = API[name]

  test(`${name}: a JSON answer passes as it is and says where it came from`, async (t) => {
    const worker = await startWorker(t, answering())
    const gateway = await gatewayOver(t, [worker])
    const answer = await send(gateway.url + api.path, { body: api.request })
    t.is(answer.status, 200)
    t.is(answer.body, JSON.stringify(api.answer))
    t.is(answer.headers['content-type'], 'application/json')
    t.is(answer.headers['x-warmpath-worker'], 'w0')
    t.is(answer.headers['x-warmpath-model'], 'm')
    t.truthy(answer.headers['x-warmpath-target'])
    t.truthy(answer.headers['x-warmpath-receipt'])
    t.truthy(answer.headers['x-warmpath-session'])
    t.deepEqual(JSON.parse(worker.received[0]?.body ?? ''), api.request)
    t.is(gateway.scheduler.status().reservations, 0)
  })

  test(`${name}: a stream passes event by event`, async (t) => {
    const worker = await startWorker(t, answering())
    const gateway = await gatewayOver(t, [worker])
    const answer = await send(gateway.url + api.path, { body: { ...api.request, stream: true } })
    t.is(answer.status, 200)
    t.is(answer.headers['content-type'], 'text/event-stream')
    t.is(answer.headers['content-length'], undefined)
    t.is(answer.body, api.events.join(''))
    t.is(answer.headers['x-warmpath-worker'], 'w0')
    t.is(gateway.scheduler.status().reservations, 0)
  })

  test(`${name}: the version may be left out, the query is kept`, async (t) => {
    const worker = await startWorker(t, answering())
    const gateway = await gatewayOver(t, [worker])
    const path = `${api.path.replace('/v1', '')}?beta=true`
    const answer = await send(gateway.url + path, { body: api.request })
    t.is(answer.status, 200)
    t.is(worker.received[0]?.path, `${api.path}?beta=true`)
  })

  test(`${name}: errors of the client are told in its dialect`, async (t) => {
    const worker = await startWorker(t, answering())
    const gateway = await gatewayOver(t, [worker], { limits: { bodyBytes: 1000 } })
    const url = gateway.url + api.path
    const bad = [
      { body: '{"model": ', status: 400 },
      { body: '[1, 2]', status: 400 },
      { body: '"text"', status: 400 },
      { body: 'null', status: 400 },
      { body: '', status: 400 },
      { body: api.request, headers: { 'content-encoding': 'rot13' }, status: 415 },
      { body: api.request, headers: { 'content-encoding': 'gzip' }, status: 400 },
      { body: { ...api.request, padding: 'x'.repeat(1000) }, status: 413 },
    ]
    for (const { status, ...sent } of bad) {
      const answer = await send(url, sent)
      t.is(answer.status, status, JSON.stringify(sent).slice(0, 80))
      const { error, type } = JSON.parse(answer.body)
      t.is(typeof error.message, 'string')
      if (name === 'anthropic-messages') t.is(type, 'error')
      else t.regex(String(error.code), /./)
    }
    t.is(worker.received.length, 0)
    t.is(gateway.scheduler.status().reservations, 0)
    t.is((await send(url, { body: api.request })).status, 200)
  })
}

test('a body that declares no length is refused once it passes the limit', async (t) => {
  const worker = await startWorker(t, answering())
  const gateway = await gatewayOver(t, [worker], { limits: { bodyBytes: 1000 } })
  const { path, request } = API['openai-chat']
  const body = JSON.stringify({ ...request, padding: 'x'.repeat(500_000) })
  const headers = { 'transfer-encoding': 'chunked' }
  const answer = await send(gateway.url + path, { body, headers })
  t.is(answer.status, 413)
  t.false(answer.broken)
})

test('an unknown model is 404 and names what /v1/models lists, no more', async (t) => {
  const worker = await startWorker(t, answering())
  const gateway = await openGateway(t, {
    scheduler: {
      workers: [{ id: 'a', url: worker.url }],
      targets: { secretive: { workers: ['a'], model: 'upstream-name' } },
      aliases: { public: ['secretive'] },
    },
  })
  const { path, request } = API['openai-chat']
  const unknown = await send(gateway.url + path, { body: { ...request, model: 'other' } })
  t.is(unknown.status, 404)
  const list = JSON.parse((await send(`${gateway.url}/v1/models`)).body)
  const names = list.data.map((model: { id: string }) => model.id)
  t.is(
    JSON.parse(unknown.body).error.message,
    `unknown model "other"; available: ${names.join(', ')}`,
  )
  const known = await send(gateway.url + path, { body: { ...request, model: 'public' } })
  t.is(known.status, 200)
  t.is(known.headers['x-warmpath-target'], 'secretive')
  t.is(known.headers['x-warmpath-model'], 'upstream-name')
  t.is(JSON.parse(worker.received[0]?.body ?? '').model, 'upstream-name')
})

test('an encoded answer keeps encoding and length; headers of the hop stay behind', async (t) => {
  const worker = await startWorker(t, (_req, res) => {
    res.writeHead(200, {
      'content-type': 'application/json',
      'content-encoding': 'x-any',
      'content-length': '4',
      connection: 'close, x-of-the-hop',
      'x-of-the-hop': '1',
      'x-passes': '1',
      'x-warmpath-worker': 'a lie',
      'keep-alive': 'timeout=1',
    })
    res.end('\x01\x02\x03\x04')
  })
  const gateway = await gatewayOver(t, [worker])
  const { path, request } = API['openai-chat']
  const { headers, body } = await send(gateway.url + path, { body: request })
  t.is(body, '\x01\x02\x03\x04')
  t.is(headers['content-encoding'], 'x-any')
  t.is(headers['content-length'], '4')
  t.is(headers['x-passes'], '1')
  t.is(headers['x-of-the-hop'], undefined)
  t.is(headers['x-warmpath-worker'], 'w0')
})

test('an error of a worker passes with its status and its body', async (t) => {
  const worker = await startWorker(t, (_req, res) => json(res, 422, { detail: 'no such tool' }))
  const spare = await startWorker(t, answering())
  const gateway = await gatewayOver(t, [worker, spare])
  const { path, request } = API['openai-chat']
  spare.handler = worker.handler
  const answer = await send(gateway.url + path, { body: request })
  t.is(answer.status, 422)
  t.is(answer.body, '{"detail":"no such tool"}')
  t.is(worker.received.length + spare.received.length, 1)
  t.is(gateway.scheduler.status().reservations, 0)
})

test('a session id that no header may hold is told in a form that one may', async (t) => {
  const worker = await startWorker(t, answering())
  const gateway = await gatewayOver(t, [worker])
  const { path, request } = API['openai-chat']
  const answer = await send(gateway.url + path, {
    body: { ...request, prompt_cache_key: 'séance 1' },
  })
  t.is(answer.status, 200)
  t.is(answer.headers['x-warmpath-session'], 's%C3%A9ance%201')
})

test('a slow reader slows the worker down, and nothing piles up between them', async (t) => {
  const piece = Buffer.alloc(64 * 1024, 'x')
  const pieces = 2_000
  let written = 0
  const worker = await startWorker(t, async (_req, res) => {
    res.writeHead(200, { 'content-type': 'application/octet-stream' })
    for (let index = 0; index < pieces; index += 1) {
      written += piece.length
      if (!res.write(piece)) await new Promise((taken) => res.once('drain', taken))
    }
    res.end()
  })
  const gateway = await gatewayOver(t, [worker])
  const { path, request } = API['openai-chat']
  const [res] = await open(gateway.url + path, { body: request })
  res.pause()
  let before = -1
  await until(t, 'the worker stops writing', () => {
    const still = before === written && written > 0
    before = written
    return still
  })
  t.true(written < 32 * 1024 * 1024, `${written} bytes were taken from the worker`)
  let taken = 0
  for await (const part of res) taken += (part as Buffer).length
  t.is(taken, pieces * piece.length)
  t.is(gateway.scheduler.status().reservations, 0)
})

test('header values of a worker pass byte by byte, whatever they are', async (t) => {
  const worker = await startWorker(t, (_req, res) => {
    res.setHeader('x-latin', Buffer.from('naïve ✓').toString('latin1'))
    res.setHeader('content-disposition', Buffer.from('x; n="ü"').toString('latin1'))
    json(res, 200, API['openai-chat'].answer)
  })
  const gateway = await gatewayOver(t, [worker])
  const { path, request } = API['openai-chat']
  const { status, headers } = await send(gateway.url + path, { body: request })
  t.is(status, 200)
  t.is(Buffer.from(String(headers['x-latin']), 'latin1').toString(), 'naïve ✓')
  t.is(Buffer.from(String(headers['content-disposition']), 'latin1').toString(), 'x; n="ü"')
})

test('a compressed body is read, and sent on as what it holds', async (t) => {
  const worker = await startWorker(t, answering())
  const gateway = await gatewayOver(t, [worker])
  const { path, request } = API['anthropic-messages']
  const body = gzipSync(JSON.stringify(request))
  const headers = { 'content-encoding': 'gzip' }
  const answer = await send(gateway.url + path, { headers, body })
  t.is(answer.status, 200)
  t.deepEqual(JSON.parse(worker.received[0]?.body ?? ''), request)
  t.is(worker.received[0]?.headers['content-encoding'], undefined)
})

test('a compaction of the Responses API is a turn like the others', async (t) => {
  const { answer, request } = API['openai-responses']
  const worker = await startWorker(t, (_req, res) => json(res, 200, answer))
  const gateway = await gatewayOver(t, [worker])
  const compacted = await send(`${gateway.url}/v1/responses/compact`, { body: request })
  t.is(compacted.status, 200)
  t.is(worker.received[0]?.path, '/v1/responses/compact')
  t.truthy(compacted.headers['x-warmpath-receipt'])
})
