/**
 * Held turns as their clients see them. One worker with room for one of two sessions: the first
 * turn goes, the second is held until the first session has ended.
 */
import { gzipSync } from 'node:zlib'
import test, { type ExecutionContext } from 'ava'
import type { GatewayConfig } from '../src/gateway/index.js'
import { Scheduler } from '../src/index.js'
import { openGateway, until } from './gateway-support.js'
import { finish, open, send, start } from './support/http-client.js'
import { answering, startWorker } from './support/http-worker.js'
import { API, API_NAMES, type ApiName } from './support/wire-apis.js'

const LONG = 'word '.repeat(600)

/** A request of one session; together two of them are more than the worker's capacity. */
function requestOf(session: string, name: ApiName = 'openai-chat') {
  const body = JSON.parse(JSON.stringify(API[name].request).replace('Hello', `${session} ${LONG}`))
  return { headers: { 'x-session-id': session }, body }
}

async function crowdedGateway(
  t: ExecutionContext,
  more: Partial<GatewayConfig> = {},
  holdLimitSeconds = 60,
) {
  const { path } = API['openai-chat']
  const worker = await startWorker(t, answering())
  const gateway = await openGateway(t, {
    scheduler: {
      workers: [{ id: 'w0', url: worker.url, capacityTokens: 1_200 }],
      admission: { policy: 'thunderagent', intervalMs: 20, holdLimitSeconds },
    },
    ...more,
  })
  const running = await gateway.scheduler.submit({ path, ...requestOf('first') })
  const isHeld = () => until(t, 'the turn is held', () => gateway.scheduler.status().holds === 1)
  return { gateway, worker, isHeld, release: () => running.complete() }
}

test('a held client of a JSON answer waits, and gets the answer as if it had not', async (t) => {
  const hold = { keepAlive: API_NAMES, keepAliveAfterMs: 30, keepAliveEveryMs: 30 }
  const { gateway, isHeld, release } = await crowdedGateway(t, { hold })
  const pending = send(gateway.url + API['openai-chat'].path, requestOf('second'))
  await isHeld()
  await new Promise((passed) => setTimeout(passed, 100))
  release()
  const { status, body, headers } = await pending
  t.is(status, 200)
  t.is(body, JSON.stringify(API['openai-chat'].answer))
  t.is(headers['x-warmpath-worker'], 'w0')
})

for (const name of API_NAMES) {
  const { path, events } = API[name]

  test(`${name}: a held client of a stream is kept alive, then gets its stream`, async (t) => {
    const hold = { keepAlive: API_NAMES, keepAliveAfterMs: 30, keepAliveEveryMs: 30 }
    const { gateway, isHeld, release } = await crowdedGateway(t, { hold })
    const { headers, body } = requestOf('second', name)
    const [res] = await open(gateway.url + path, { headers, body: { ...body, stream: true } })
    await isHeld()
    t.is(res.headers['content-type'], 'text/event-stream; charset=utf-8')
    t.is(res.headers['x-warmpath-worker'], undefined)
    const seen = () => res.readableLength >= 2 * 'event: ping\ndata: {"type": "ping"}\n\n'.length
    await until(t, 'two keep-alives have come', seen)
    release()
    const answer = await finish(res)
    t.true(answer.body.endsWith(events.join('')))
    const before = answer.body.slice(0, -events.join('').length)
    t.regex(before, /^(: [^\n]*\n\n|event: ping\ndata: \{[^\n]*\}\n\n){2,}$/)
    t.is(answer.trailers['x-warmpath-worker'], 'w0')
    t.regex(String(answer.trailers['x-warmpath-receipt']), /./)
    t.is(gateway.scheduler.status().holds, 0)
  })
}

for (const [what, encoding, encode] of [
  ['compressed', 'gzip', (text: string) => gzipSync(text)],
  ['marked with a byte order mark', 'identity', (text: string) => Buffer.from(`\ufeff${text}`)],
] as const) {
  test(`a held stream whose request came ${what} is kept alive too`, async (t) => {
    const hold = { keepAlive: API_NAMES, keepAliveAfterMs: 20, keepAliveEveryMs: 20 }
    const { gateway, isHeld, release } = await crowdedGateway(t, { hold })
    const { headers, body } = requestOf('second')
    const url = gateway.url + API['openai-chat'].path
    const [res] = await open(url, {
      headers: { ...headers, 'content-encoding': encoding },
      body: encode(JSON.stringify({ ...body, stream: true })),
    })
    await isHeld()
    t.is(res.headers['x-warmpath-worker'], undefined)
    release()
    t.regex((await finish(res)).body, /^: .*\n\n/)
  })
}

test('a client that accepts a stream but asks for none just waits', async (t) => {
  const hold = { keepAlive: API_NAMES, keepAliveAfterMs: 20, keepAliveEveryMs: 20 }
  const { gateway, isHeld, release } = await crowdedGateway(t, { hold })
  const { headers, body } = requestOf('second')
  const pending = send(gateway.url + API['openai-chat'].path, {
    headers: { ...headers, accept: 'application/json, text/event-stream' },
    body,
  })
  await isHeld()
  await new Promise((passed) => setTimeout(passed, 60))
  release()
  t.is((await pending).body, JSON.stringify(API['openai-chat'].answer))
})

test('a short hold of a stream shows nothing of it', async (t) => {
  const { gateway, isHeld, release } = await crowdedGateway(t)
  const { headers, body } = requestOf('second')
  const url = gateway.url + API['openai-chat'].path
  const pending = send(url, { headers, body: { ...body, stream: true } })
  await isHeld()
  release()
  const answer = await pending
  t.is(answer.body, API['openai-chat'].events.join(''))
  t.is(answer.headers['x-warmpath-worker'], 'w0')
})

test('an error after the head was sent is an event', async (t) => {
  const hold = { keepAlive: API_NAMES, keepAliveAfterMs: 20 }
  const { gateway, worker, isHeld, release } = await crowdedGateway(t, { hold })
  worker.handler = (_req, res) => {
    res.writeHead(400, { 'content-type': 'application/json' })
    res.end('{}')
  }
  const { headers, body } = requestOf('second')
  const url = gateway.url + API['openai-chat'].path
  const [res] = await open(url, { headers, body: { ...body, stream: true } })
  await isHeld()
  release()
  const answer = await finish(res)
  t.false(answer.broken)
  t.regex(answer.body, /data: .*WARMPATH_UPSTREAM/)
  t.regex(answer.body, /status 400/)
  t.is(gateway.scheduler.status().holds, 0)
})

test('a client that leaves while held takes its hold with it', async (t) => {
  const { gateway, worker, isHeld } = await crowdedGateway(t)
  const req = start(gateway.url + API['openai-chat'].path, requestOf('second'))
  await isHeld()
  req.destroy()
  await until(t, 'the hold is gone', () => {
    const { holds, reservations } = gateway.scheduler.status()
    return holds === 0 && reservations === 1
  })
  t.is(worker.received.length, 0)
})

/** When another turn that waited goes, if it does, and the limit; in seconds. */
type Times = readonly [gone: number | undefined, limit: number]

/** What a client is told at the limit. */
async function atTheLimit(t: ExecutionContext, name: ApiName, [gone, limit]: Times) {
  let now = 1_700_000_000_000
  const worker = await startWorker(t, answering())
  const scheduler = new Scheduler({
    workers: [{ id: 'w0', url: worker.url }],
    admission: { maxRunning: 1, holdLimitSeconds: limit },
    clock: () => now,
  })
  const gateway = await openGateway(t, { scheduler })
  const pass = (seconds: number) => {
    now += 1_000 * seconds
    scheduler.poll()
  }
  const { path } = API['openai-chat']
  const first = await scheduler.submit({ path, ...requestOf('first') })
  const next = scheduler.submit({ path, ...requestOf('next') }).catch(() => undefined)
  const pending = send(gateway.url + API[name].path, requestOf('second', name))
  await until(t, 'both are held', () => scheduler.status().holds === 2)
  if (gone !== undefined) {
    pass(gone)
    first.complete()
  }
  pass(limit - (gone ?? 0))
  const answer = await pending
  await next
  scheduler.close()
  return answer
}

const TOLD = {
  'openai-chat': [503, 'server_error'],
  'openai-responses': [503, 'server_error'],
  'anthropic-messages': [529, 'overloaded_error'],
} as const

for (const name of API_NAMES) {
  test(`${name}: a client is told at the hold limit when its turn would have gone`, async (t) => {
    const cases: [Times, string][] = [
      [[10, 15], '5'],
      [[10.5, 15], '6'],
      [[1, 15], '13'],
      [[200, 250], '59'],
      [[undefined, 7], '7'],
      [[undefined, 300], '59'],
    ]
    for (const [times, retryAfter] of cases) {
      const { status, body, headers } = await atTheLimit(t, name, times)
      const { type } = JSON.parse(body).error
      t.deepEqual([status, type, headers['retry-after']], [...TOLD[name], retryAfter])
    }
  })
}

test('no client is kept alive whose API is not named', async (t) => {
  const hold = { keepAlive: ['openai-chat'] as const, keepAliveAfterMs: 20, keepAliveEveryMs: 20 }
  const { gateway, isHeld, release } = await crowdedGateway(t, { hold })
  const { path, events } = API['anthropic-messages']
  const { headers, body } = requestOf('second', 'anthropic-messages')
  const pending = send(gateway.url + path, { headers, body: { ...body, stream: true } })
  await isHeld()
  await new Promise((passed) => setTimeout(passed, 80))
  release()
  const answer = await pending
  t.is(answer.body, events.join(''))
  t.is(answer.headers['x-warmpath-worker'], 'w0')
})

test('the header that is named has the priority of a turn, and one that has none is refused', async (t) => {
  const worker = await startWorker(t, answering())
  const gateway = await openGateway(t, {
    scheduler: { workers: [{ id: 'w0', url: worker.url }], admission: { maxRunning: 1 } },
    priorityHeader: 'X-Priority',
  })
  const { path } = API['openai-chat']
  const running = await gateway.scheduler.submit({ path, ...requestOf('first') })
  const asked = ['-1', '7', ''].map((priority, at) => {
    const { headers, body } = requestOf(`s${at}`)
    return send(gateway.url + path, { headers: { ...headers, 'x-priority': priority }, body })
  })
  await until(t, 'all wait', () => gateway.scheduler.status().holds === 3)
  const { waiting } = gateway.scheduler.status()
  t.deepEqual(waiting.map((turn) => [turn.session, turn.priority]).sort(), [
    ['s0', -1],
    ['s1', 7],
    ['s2', 0],
  ])
  for (const priority of ['high', '1.5', '101']) {
    const { headers, body } = requestOf('bad')
    const sent = { headers: { ...headers, 'x-priority': priority }, body }
    t.is((await send(gateway.url + path, sent)).status, 400)
  }
  running.complete()
  await Promise.all(asked)
  t.deepEqual(
    worker.received.map((each) => each.headers['x-session-id']),
    ['s1', 's2', 's0'],
  )
})

test('the hold limit is a 503 that says when to try again', async (t) => {
  const { gateway } = await crowdedGateway(t, {}, 1)
  const answer = await send(gateway.url + API['openai-chat'].path, requestOf('second'))
  t.is(answer.status, 503)
  t.is(JSON.parse(answer.body).error.code, 'WARMPATH_HOLD_LIMIT')
  t.regex(String(answer.headers['retry-after']), /^[1-9]\d*$/)
  t.is(gateway.scheduler.status().holds, 0)
})

for (const [name, busy] of [
  ['openai-chat', 503],
  ['anthropic-messages', 529],
] as const) {
  test(`${name}: a turn of a full class is a ${busy} that says when to try again`, async (t) => {
    const worker = await startWorker(t, answering())
    const queue = { classes: [{ name: 'all', maxWaiting: 1 }] }
    const gateway = await openGateway(t, {
      scheduler: { workers: [{ id: 'w0', url: worker.url }], admission: { maxRunning: 1, queue } },
    })
    const url = gateway.url + API[name].path
    const first = { path: API['openai-chat'].path, ...requestOf('first') }
    const running = await gateway.scheduler.submit(first)
    const held = send(url, requestOf('second', name))
    await until(t, 'one waits', () => gateway.scheduler.status().holds === 1)
    const refused = await send(url, requestOf('third', name))
    t.is(refused.status, busy)
    t.regex(refused.body, /WARMPATH_QUEUE_FULL/)
    t.regex(String(refused.headers['retry-after']), /^[1-9]\d*$/)
    running.complete()
    t.is((await held).status, 200)
    t.deepEqual(gateway.scheduler.status().queue, [{ class: 'all', waiting: 0, refused: 1 }])
  })
}

test('a gateway that stops tells those who are held', async (t) => {
  const { gateway, isHeld } = await crowdedGateway(t, { timeouts: { drainMs: 30 } })
  const pending = send(gateway.url + API['openai-chat'].path, requestOf('second'))
  await isHeld()
  await gateway.close()
  const answer = await pending
  t.is(answer.status, 503)
  t.is(JSON.parse(answer.body).error.code, 'WARMPATH_CLOSED')
})
