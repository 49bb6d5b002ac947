/**
 * Workers that fail at every point of a turn, and clients that leave at every point: what the other
 * side sees, and that nothing stays behind.
 */
import test from 'ava'
import { type Gateway, gatewayOver, openGateway, until } from './gateway-support.js'
import { finish, open, send, start } from './support/http-client.js'
import { answering, type Handler, json, startWorker } from './support/http-worker.js'
import { API, API_NAMES } from './support/wire-apis.js'

const { path, request } = API['openai-chat']

/** An address where nobody listens: one that was free a moment ago may have been taken since. */
const REFUSING = { url: 'http://127.0.0.1:1' }

const dropping: Handler = (_req, res) => res.destroy()

const droppingAfterHead: Handler = (_req, res) => {
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  res.flushHeaders()
  setTimeout(() => res.destroy(), 20)
}

function healthOf(gateway: Gateway, id: string) {
  return gateway.scheduler.status().workers.find((worker) => worker.id === id)?.health
}

const BEFORE_THE_FIRST_BYTE: [string, Handler][] = [
  ['dies before it answers', dropping],
  ['dies between the head of an answer and its first byte', droppingAfterHead],
  ['declines with 503', (_req, res) => json(res, 503, { error: 'full' })],
  ['declines with 429', (_req, res) => json(res, 429, { error: 'full' })],
  ['declines with 502', (_req, res) => json(res, 502, { error: 'bad' })],
]

for (const [what, handler] of BEFORE_THE_FIRST_BYTE) {
  test(`a worker that ${what}: the turn runs on the other`, async (t) => {
    let first: string | undefined
    const once: Handler = (req, res) => {
      first ??= req.headers.host
      return first === req.headers.host ? handler(req, res) : answering()(req, res)
    }
    const workers = [await startWorker(t, once), await startWorker(t, once)]
    const gateway = await gatewayOver(t, workers)
    const answer = await send(gateway.url + path, { body: { ...request, stream: true } })
    t.is(answer.status, 200)
    t.is(answer.body, API['openai-chat'].events.join(''))
    t.deepEqual(
      workers.map((worker) => worker.received.length),
      [1, 1],
    )
    const used = workers.findIndex((worker) => !worker.url.endsWith(first ?? ''))
    t.is(answer.headers['x-warmpath-worker'], `w${used}`)
    t.is(gateway.scheduler.status().reservations, 0)
  })
}

test('a worker that refuses connections is marked down, and up again once it answers', async (t) => {
  // Where other tests take ports of 127.0.0.1 as they come, nobody takes this one meanwhile.
  const host = process.platform === 'linux' ? '127.0.83.1' : '127.0.0.1'
  const gone = await startWorker(t, answering(), { host })
  const alive = await startWorker(t, answering())
  await gone.close()
  const gateway = await gatewayOver(t, [gone, alive], { health: { intervalMs: 20 } })
  // Whichever is tried first: after as many turns as workers the dead one has been tried.
  for (let turn = 0; turn < 8 && healthOf(gateway, 'w0') === 'up'; turn += 1) {
    const body = { ...request, messages: [{ role: 'user', content: `turn ${turn}` }] }
    const answers = await Promise.all([
      send(gateway.url + path, { body }),
      send(gateway.url + path, { body }),
    ])
    for (const answer of answers) t.is(answer.headers['x-warmpath-worker'], 'w1')
  }
  t.is(healthOf(gateway, 'w0'), 'down')
  t.is(healthOf(gateway, 'w1'), 'up')
  await startWorker(t, answering(), { host, port: gone.port })
  await until(t, 'the worker is marked up', () => healthOf(gateway, 'w0') === 'up')
})

test('a worker that refused connections comes back with an empty cache', async (t) => {
  const host = process.platform === 'linux' ? '127.0.83.2' : '127.0.0.1'
  const first = await startWorker(t, answering(), { host })
  const gateway = await gatewayOver(t, [first], { health: { intervalMs: 20 } })
  const body = { ...request, messages: [{ role: 'user', content: 'x'.repeat(20_000) }] }
  const predicted = () => gateway.scheduler.peek({ path, body })?.overlapTokens
  await send(gateway.url + path, { body })
  t.true((predicted() ?? 0) > 4_000)
  await first.close()
  t.not((await send(gateway.url + path, { body })).status, 200)
  t.is(healthOf(gateway, 'w0'), 'down')
  await startWorker(t, answering(), { host, port: first.port })
  await until(t, 'the worker is marked up', () => healthOf(gateway, 'w0') === 'up')
  t.is(predicted(), 0)
})

test('the last word of the last worker passes as it is', async (t) => {
  const handler: Handler = (_req, res) => {
    res.setHeader('retry-after', '7')
    json(res, 503, { error: { message: 'all slots taken' } })
  }
  const workers = [await startWorker(t, handler), await startWorker(t, handler)]
  const gateway = await gatewayOver(t, workers)
  const answer = await send(gateway.url + path, { body: request })
  t.is(answer.status, 503)
  t.is(answer.body, '{"error":{"message":"all slots taken"}}')
  t.is(answer.headers['retry-after'], '7')
  t.deepEqual(
    workers.map((worker) => worker.received.length),
    [1, 1],
  )
  t.is(gateway.scheduler.status().reservations, 0)
})

test('attempts are bounded', async (t) => {
  const handler: Handler = (_req, res) => json(res, 503, {})
  const workers = await Promise.all([1, 2, 3, 4].map(() => startWorker(t, handler)))
  const gateway = await gatewayOver(t, workers, { retry: { attempts: 2 } })
  t.is((await send(gateway.url + path, { body: request })).status, 503)
  t.is(
    workers.reduce((sum, worker) => sum + worker.received.length, 0),
    2,
  )
})

test('a worker that takes too long is not asked twice, and the client is told', async (t) => {
  const workers = [await startWorker(t, () => {}), await startWorker(t, () => {})]
  const gateway = await gatewayOver(t, workers, { timeouts: { headersMs: 50 } })
  const answer = await send(gateway.url + path, { body: request })
  t.is(answer.status, 504)
  // On a busy machine the limit may have passed before the worker has read what it was sent.
  t.true(workers.reduce((sum, worker) => sum + worker.received.length, 0) <= 1)
  t.is(gateway.scheduler.status().reservations, 0)
})

for (const name of API_NAMES) {
  const api = API[name]
  const halfAStream: Handler = (_req, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.write(api.events[0])
    res.write(api.events[1])
    setTimeout(() => res.destroy(), 20)
  }

  test(`${name}: a stream that breaks ends with a typed error event`, async (t) => {
    const worker = await startWorker(t, halfAStream)
    const gateway = await gatewayOver(t, [worker])
    const answer = await send(gateway.url + api.path, { body: { ...api.request, stream: true } })
    t.is(answer.status, 200)
    t.false(answer.broken)
    const sent = api.events[0] + api.events[1]
    t.true(answer.body.startsWith(sent))
    const event = /^\n\n(event: \S+\n)?data: \{.*the connection with the worker broke.*\}\n\n/
    t.regex(answer.body.slice(sent.length), event)
    t.is(gateway.scheduler.status().reservations, 0)
  })

  test(`${name}: what breaks after the last event of a stream has broken nothing`, async (t) => {
    const worker = await startWorker(t, (_req, res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      // Each a piece of its own.
      const rest = [...api.events]
      const next = () => {
        const event = rest.shift()
        if (event === undefined) res.destroy()
        else res.write(event, () => setTimeout(next, 10))
      }
      next()
    })
    const gateway = await gatewayOver(t, [worker])
    const answer = await send(gateway.url + api.path, { body: { ...api.request, stream: true } })
    t.is(answer.body, api.events.join(''))
    t.false(answer.broken)
    t.is(gateway.scheduler.status().reservations, 0)
  })

  test(`${name}: no worker is a 503 in its shape, with a time to try again`, async (t) => {
    const gateway = await gatewayOver(t, [REFUSING], { health: { intervalMs: 60_000 } })
    const first = await send(gateway.url + api.path, { body: api.request })
    t.is(first.status, 502)
    t.is(first.headers['x-warmpath-worker'], 'w0')
    const second = await send(gateway.url + api.path, { body: api.request })
    t.is(second.status, 503)
    t.regex(String(second.headers['retry-after']), /^\d+$/)
    const { error, type } = JSON.parse(second.body)
    t.is(typeof error.message, 'string')
    t.is(type, name === 'anthropic-messages' ? 'error' : undefined)
    t.is(gateway.scheduler.status().reservations, 0)
  })
}

/** The events that follow what the worker sent, as their data. */
function eventsAfter(body: string, sent: string) {
  const texts = [...body.slice(sent.length).matchAll(/^data: (.*)$/gm)].map((match) => match[1])
  return texts.map((text) => JSON.parse(text ?? ''))
}

test('openai-responses: the error goes on with the numbers and the id of its stream', async (t) => {
  const created = { type: 'response.created', sequence_number: 0, response: { id: 'resp_7' } }
  const delta = { type: 'response.output_text.delta', sequence_number: 41, delta: 'Hi' }
  const sent = [created, delta].map((data) => `data: ${JSON.stringify(data)}\n\n`).join('')
  const worker = await startWorker(t, (_req, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.write(sent)
    setTimeout(() => res.destroy(), 20)
  })
  const gateway = await gatewayOver(t, [worker])
  const api = API['openai-responses']
  const answer = await send(gateway.url + api.path, { body: { ...api.request, stream: true } })
  const [failed, error] = eventsAfter(answer.body, sent)
  t.like(failed, { type: 'response.failed', sequence_number: 42, response: { id: 'resp_7' } })
  t.like(error, { type: 'error', sequence_number: 43, code: 'WARMPATH_UPSTREAM' })
})

test('a stream that breaks inside an event: the error is an event of its own', async (t) => {
  const worker = await startWorker(t, (_req, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.write(`${API['openai-chat'].events[0]}data: {"id":"cha`)
    setTimeout(() => res.destroy(), 20)
  })
  const gateway = await gatewayOver(t, [worker])
  // Asked for by the client, so that the gateway has nothing to take out and lets all bytes pass.
  const body = { ...request, stream: true, stream_options: { include_usage: true } }
  const answer = await send(gateway.url + path, { body })
  const events = answer.body.split(/\n\n+/)
  t.is(events[1], 'data: {"id":"cha')
  t.regex(events[2] ?? '', /^data: .*the connection with the worker broke/)
})

test('a JSON answer that breaks is a broken connection, never a short answer', async (t) => {
  const worker = await startWorker(t, (_req, res) => {
    res.writeHead(200, { 'content-type': 'application/json' })
    res.write('{"id":')
    setTimeout(() => res.destroy(), 20)
  })
  const gateway = await gatewayOver(t, [worker])
  const answer = await send(gateway.url + path, { body: request })
  t.true(answer.broken)
  t.is(gateway.scheduler.status().reservations, 0)
})

test('a worker that falls silent inside a stream is given up', async (t) => {
  const worker = await startWorker(t, (_req, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.write(API['openai-chat'].events[0])
  })
  const gateway = await gatewayOver(t, [worker], { timeouts: { bodyIdleMs: 100 } })
  const answer = await send(gateway.url + path, { body: { ...request, stream: true } })
  t.regex(answer.body, /the worker took too long/)
  t.is(gateway.scheduler.status().reservations, 0)
})

test('a client that leaves before the answer frees the worker', async (t) => {
  const worker = await startWorker(t, () => {})
  const gateway = await gatewayOver(t, [worker])
  const req = start(gateway.url + path, { body: request })
  await until(t, 'the worker is asked', () => worker.received.length === 1)
  t.is(gateway.scheduler.status().reservations, 1)
  req.destroy()
  await until(t, 'the worker sees it', () => worker.closed === 1)
  await until(t, 'the reservation ends', () => gateway.scheduler.status().reservations === 0)
})

test('a client that leaves inside a stream frees the worker', async (t) => {
  const worker = await startWorker(t, (_req, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.write(API['openai-chat'].events[0])
  })
  const gateway = await gatewayOver(t, [worker])
  const [res, req] = await open(gateway.url + path, { body: { ...request, stream: true } })
  t.is(gateway.scheduler.status().reservations, 1)
  const whole = finish(res)
  req.destroy()
  t.true((await whole).broken)
  await until(t, 'the worker sees it', () => worker.closed === 1)
  await until(t, 'the reservation ends', () => gateway.scheduler.status().reservations === 0)
})

test('a client that stops reading for too long is let go', async (t) => {
  const worker = await startWorker(t, async (_req, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    const piece = Buffer.alloc(64 * 1024, 'x')
    while (!res.destroyed) {
      if (!res.write(piece)) await new Promise((taken) => setTimeout(taken, 1))
    }
  })
  const gateway = await gatewayOver(t, [worker], { timeouts: { clientIdleMs: 100 } })
  const [res] = await open(gateway.url + path, { body: { ...request, stream: true } })
  res.on('error', () => {})
  res.pause()
  // What is seen now may already be the end of it: on a busy machine the limit passes at once.
  await until(t, 'the worker is let go', () => worker.closed === 1)
  await until(t, 'the reservation ends', () => gateway.scheduler.status().reservations === 0)
})

const call = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }
const asking = { role: 'assistant', content: null, tool_calls: [call] }
const withResult = [
  ...request.messages,
  asking,
  { role: 'tool', tool_call_id: call.id, content: 'done' },
]

const REFUSALS: [string, Handler][] = [
  ['declines', (_req, res) => json(res, 503, { error: 'full' })],
  ['breaks off', dropping],
]

for (const [what, refusal] of REFUSALS) {
  test(`a tool result whose target ${what} goes to no other; a turn without one does`, async (t) => {
    const message = { choices: [{ index: 0, message: asking, finish_reason: 'tool_calls' }] }
    const one = await startWorker(t, (_req, res) => json(res, 200, message))
    const two = await startWorker(t, answering())
    const gateway = await openGateway(t, {
      scheduler: {
        workers: [
          { id: 'w1', url: one.url },
          { id: 'w2', url: two.url },
        ],
        targets: { one: { workers: ['w1'] }, two: { workers: ['w2'] } },
        aliases: { m: ['one', 'two'] },
        continuity: { ownerDown: { toolLoop: 'fail' } },
      },
    })
    const url = gateway.url + path
    const headers = { 'x-session-id': 's' }
    const first = await send(url, { headers, body: request })
    t.is(first.headers['x-warmpath-target'], 'one')

    one.handler = refusal
    const locked = await send(url, { headers, body: { ...request, messages: withResult } })
    t.is(locked.status, 503)
    t.regex(locked.body, /WARMPATH_OWNER_UNAVAILABLE/)
    t.is(locked.headers['x-warmpath-target'], 'one')
    t.deepEqual([one.received.length, two.received.length], [2, 0])
    t.is(gateway.scheduler.status().reservations, 0)

    const free = await send(url, { headers: { 'x-session-id': 'other' }, body: request })
    t.is(free.status, 200)
    t.is(free.headers['x-warmpath-target'], 'two')
    t.deepEqual([one.received.length, two.received.length], [3, 1])
  })
}
