/** What the gateway says of itself, what it passes on without a turn, and what it refuses. */
import { gzipSync } from 'node:zlib'
import test from 'ava'
import { Scheduler } from '../src/index.js'
import { gatewayOver, openGateway, until } from './gateway-support.js'
import { open, send } from './support/http-client.js'
import { answering, type Handler, json, startWorker } from './support/http-worker.js'
import { API } from './support/wire-apis.js'

const { path, request } = API['openai-chat']

const echoing: Handler = (req, res) => json(res, 200, req)

test('/healthz follows the workers', async (t) => {
  const worker = await startWorker(t, answering())
  const gateway = await gatewayOver(t, [worker])
  const up = await send(`${gateway.url}/healthz`)
  t.deepEqual([up.status, JSON.parse(up.body)], [200, { status: 'ok', workersUp: 1 }])
  gateway.scheduler.setHealth('w0', 'down')
  t.is((await send(`${gateway.url}/healthz`)).status, 503)
  const head = await send(`${gateway.url}/healthz`, { method: 'HEAD' })
  t.deepEqual([head.status, head.body], [503, ''])
})

test('/status is the status of the scheduler', async (t) => {
  const worker = await startWorker(t, answering())
  const gateway = await gatewayOver(t, [worker])
  const { status, body, headers } = await send(`${gateway.url}/status`)
  t.is(status, 200)
  t.regex(String(headers['content-type']), /^application\/json/)
  t.is(JSON.parse(body).workers[0].id, 'w0')
})

test('/receipts has the record of a turn, and a typed 404 for any other', async (t) => {
  const worker = await startWorker(t, answering())
  const gateway = await gatewayOver(t, [worker])
  const turn = await send(gateway.url + path, { body: request })
  const id = String(turn.headers['x-warmpath-receipt'])
  const receipt = await send(`${gateway.url}/receipts/${id}`)
  t.is(receipt.status, 200)
  t.is(String(JSON.parse(receipt.body).id), id)
  for (const other of ['99999', 'x', '-1', '1e3', '%00', `${id}%20`]) {
    const { status, body } = await send(`${gateway.url}/receipts/${other}`)
    t.deepEqual([other, status], [other, 404])
    t.is(JSON.parse(body).error.code, 'WARMPATH_UNKNOWN_ID')
  }
  t.is((await send(`${gateway.url}/receipts/%zz`)).status, 400)
})

test('/v1/models lists what clients may ask for', async (t) => {
  const worker = await startWorker(t, answering())
  const scheduler = {
    workers: [{ id: 'w0', url: worker.url }],
    targets: { qwen: { model: 'Qwen/Qwen3-32B', workers: ['w0'] } },
    aliases: { auto: ['qwen'] },
  }
  const gateway = await openGateway(t, { scheduler })
  const { status, body } = await send(`${gateway.url}/v1/models`)
  t.is(status, 200)
  const { object, data } = JSON.parse(body)
  t.is(object, 'list')
  t.deepEqual(
    data.map((model: { id: string }) => model.id),
    ['auto', 'qwen', 'Qwen/Qwen3-32B'],
  )
  for (const entry of data) {
    for (const name of [entry.id, encodeURIComponent(entry.id)]) {
      const one = await send(`${gateway.url}/v1/models/${name}`)
      t.deepEqual([one.status, JSON.parse(one.body)], [200, entry])
    }
  }
  const unknown = await send(`${gateway.url}/v1/models/gpt`)
  t.is(unknown.status, 404)
  t.is(JSON.parse(unknown.body).error.code, 'WARMPATH_UNKNOWN_MODEL')
  t.is(worker.received.length, 0)
})

test('/v1/models is asked of a worker when any model may be named', async (t) => {
  const worker = await startWorker(t, echoing)
  const gateway = await gatewayOver(t, [worker])
  const { status, body, headers } = await send(`${gateway.url}/models`)
  t.is(status, 200)
  t.is(JSON.parse(body).path, '/v1/models')
  t.is(headers['x-warmpath-worker'], 'w0')
  const one = await send(`${gateway.url}/models/any/name`)
  t.is(JSON.parse(one.body).path, '/v1/models/any/name')
})

test('what is no turn goes to a worker, with the model mapped and without a reservation', async (t) => {
  const worker = await startWorker(t, echoing)
  const scheduler = {
    workers: [{ id: 'w0', url: worker.url, headers: { authorization: 'Bearer of-the-worker' } }],
    targets: { qwen: { model: 'Qwen/Qwen3-32B', workers: ['w0'] } },
    aliases: { auto: ['qwen'] },
  }
  const gateway = await openGateway(t, { scheduler })
  const counted = await send(`${gateway.url}/v1/messages/count_tokens?beta=true`, {
    headers: { authorization: 'Bearer of-the-client' },
    body: { model: 'auto', messages: [] },
  })
  t.is(counted.status, 200)
  const seen = JSON.parse(counted.body)
  t.is(seen.path, '/v1/messages/count_tokens?beta=true')
  t.is(seen.headers.authorization, 'Bearer of-the-worker')
  t.deepEqual(JSON.parse(seen.body), { model: 'Qwen/Qwen3-32B', messages: [] })
  t.is(counted.headers['x-warmpath-model'], 'Qwen/Qwen3-32B')
  t.is(counted.headers['x-warmpath-receipt'], undefined)

  const files = { method: 'PUT', headers: { 'content-type': 'a/b' }, body: 'not JSON' }
  // The key among the worker's headers is not the client's to use.
  t.is((await send(`${gateway.url}/v1/files`, files)).status, 404)
  const open = await gatewayOver(t, [worker])
  const passed = await send(`${open.url}/v1/files`, files)
  t.like(JSON.parse(passed.body), { method: 'PUT', body: 'not JSON' })

  const squeezed = await send(`${gateway.url}/v1/embeddings`, {
    headers: { 'content-encoding': 'gzip' },
    body: gzipSync('{"model":"auto"}'),
  })
  t.is(JSON.parse(squeezed.body).headers['content-encoding'], 'gzip')

  for (const levels of [200, 100_000]) {
    const input = '['.repeat(levels) + ']'.repeat(levels)
    const raw = `{"model":"auto","input":${input}}`
    const deep = await send(`${gateway.url}/v1/embeddings`, { body: raw })
    t.is(deep.status, 200)
    t.is(
      JSON.parse(deep.body).body,
      levels > 256 ? raw : raw.replace('auto', 'Qwen/Qwen3-32B'),
      'bodies that cost too much to read pass as they are',
    )
  }

  const unknown = await send(`${gateway.url}/v1/embeddings`, {
    body: { model: 'other', input: '' },
  })
  t.is(unknown.status, 404)
  t.is(JSON.parse(unknown.body).error.code, 'WARMPATH_UNKNOWN_MODEL')
  t.is(worker.received.length, 5)
})

test('what is no turn passes a worker over that refuses', async (t) => {
  const gone = await startWorker(t, echoing)
  const worker = await startWorker(t, echoing)
  await gone.close()
  const gateway = await gatewayOver(t, [gone, worker])
  for (let round = 0; round < 3; round += 1) {
    const answer = await send(`${gateway.url}/v1/embeddings`, { body: { model: 'm', input: 'x' } })
    t.deepEqual([answer.status, answer.headers['x-warmpath-worker']], [200, 'w1'])
  }
})

test('a stored response is asked of the worker that made it', async (t) => {
  const responses = API['openai-responses']
  const workers = await Promise.all(
    ['a', 'b'].map((id) =>
      startWorker(t, (req, res) => {
        if (req.method === 'POST' && !req.path.endsWith('/cancel')) {
          return json(res, 200, { ...responses.answer, id: `resp_${id}_${JSON.parse(req.body).n}` })
        }
        return json(res, 200, { at: id, method: req.method, path: req.path })
      }),
    ),
  )
  const gateway = await openGateway(t, {
    scheduler: { workers: workers.map(({ url }, index) => ({ id: 'ab'[index] ?? '', url })) },
  })
  const made = await Promise.all(
    [1, 2, 3, 4].map((n) =>
      send(`${gateway.url}/v1/responses`, { body: { ...responses.request, input: `${n}`, n } }),
    ),
  )
  for (const answer of made) {
    const { id } = JSON.parse(answer.body)
    const at = answer.headers['x-warmpath-worker']
    for (const [method, rest] of [
      ['GET', ''],
      ['GET', '/input_items?limit=2'],
      ['POST', '/cancel'],
      ['DELETE', ''],
    ] as const) {
      const path = `/v1/responses/${id}${rest}`
      const got = await send(gateway.url + path, { method })
      t.deepEqual(JSON.parse(got.body), { at, method, path })
      t.is(got.headers['x-warmpath-worker'], at)
    }
  }
  const unknown = await send(`${gateway.url}/v1/responses/resp_of_nobody`)
  t.is(unknown.status, 404)
  t.is(typeof JSON.parse(unknown.body).error.message, 'string')
})

test('a stored response is not there for another tenant', async (t) => {
  const { answer, request } = API['openai-responses']
  const worker = await startWorker(t, (_req, res) => json(res, 200, answer))
  const gateway = await gatewayOver(t, [worker])
  const headers = { authorization: 'Bearer of-the-owner' }
  await send(`${gateway.url}/v1/responses`, { headers, body: request })
  const url = `${gateway.url}/v1/responses/${answer.id}`
  for (const other of [{ authorization: 'Bearer of-another' }, {}]) {
    for (const [method, rest] of [
      ['GET', ''],
      ['DELETE', ''],
      ['GET', '/input_items'],
      ['POST', '/cancel'],
    ] as const) {
      const refused = await send(url + rest, { method, headers: other })
      t.is(refused.status, 404, method + rest)
      t.is(JSON.parse(refused.body).error.code, 'WARMPATH_UNKNOWN_ID')
    }
  }
  t.is(worker.received.length, 1)
  t.is((await send(url, { headers })).status, 200)
  t.is(worker.received.length, 2)
})

test('another path is 404, another method 405 with what is allowed', async (t) => {
  const worker = await startWorker(t, answering())
  const gateway = await gatewayOver(t, [worker])
  for (const unknown of ['/', '/v2/messages', '/healthz/x', '/v1', '/v1/../etc', '//v1/messages']) {
    const { status, body } = await send(gateway.url + unknown)
    t.deepEqual([unknown, status], [unknown, 404])
    t.is(JSON.parse(body).error.code, 'WARMPATH_UNSUPPORTED_PATH')
  }
  const get = await send(gateway.url + path)
  t.deepEqual([get.status, get.headers.allow], [405, 'POST'])
  const post = await send(`${gateway.url}/status`, { method: 'POST', body: {} })
  t.deepEqual([post.status, post.headers.allow], [405, 'GET, HEAD'])
  t.is(worker.received.length, 0)
})

test('the access log says where a request went, and nothing that is private', async (t) => {
  const worker = await startWorker(t, answering())
  const lines: string[] = []
  const gateway = await gatewayOver(t, [worker], { accessLog: (line) => lines.push(line) })
  await send(`${gateway.url + path}?key=secret-query`, {
    headers: { authorization: 'Bearer secret-key', 'x-session-id': 'secret-session' },
    body: { ...request, messages: [{ role: 'user', content: 'secret-prompt' }] },
  })
  await send(gateway.url + path, { body: 'secret{' })
  const [, req] = await open(`${gateway.url}/status`)
  req.destroy()
  await until(t, 'three lines', () => lines.length === 3)
  const [turn, bad] = lines.map((line) => JSON.parse(line))
  t.like(turn, {
    level: 30,
    msg: 'request',
    method: 'POST',
    path,
    status: 200,
    worker: 'w0',
    model: 'm',
  })
  t.regex(String(turn.receipt), /./)
  t.true(turn.bytes > 0 && turn.durationMs >= 0 && turn.time > 1e12)
  t.like(bad, { level: 40, status: 400, code: 'WARMPATH_INVALID_BODY' })
  t.false(lines.join('').includes('secret'))
})

test('an unforeseen error is a 500 that tells nothing, and a log line that helps', async (t) => {
  const worker = await startWorker(t, answering())
  class Failing extends Scheduler {
    override submit(): Promise<never> {
      return Promise.reject(new RangeError('secret-value out of range'))
    }
  }
  const scheduler = new Failing({ workers: [{ id: 'w0', url: worker.url }] })
  t.teardown(() => scheduler.close())
  const lines: string[] = []
  const gateway = await openGateway(t, { scheduler, accessLog: (line) => lines.push(line) })
  const { status, body } = await send(gateway.url + path, { body: request })
  t.is(status, 500)
  t.like(JSON.parse(body).error, { code: 'WARMPATH_PANIC', message: 'internal error' })
  await until(t, 'it is logged', () => lines.length === 1)
  const line = JSON.parse(lines[0] ?? '')
  t.like(line, { level: 50, status: 500, code: 'WARMPATH_PANIC', err: { type: 'RangeError' } })
  t.regex(line.err.stack, /^ +at .*gateway-inspect/m)
  t.false(lines.join('').includes('secret-value'))
})

test('ids that are too long or no text are not ids, and cost the client nothing', async (t) => {
  const worker = await startWorker(t, answering())
  const gateway = await gatewayOver(t, [worker])
  const odd: { headers?: Record<string, string>; body: object }[] = [
    { headers: { 'x-session-id': 's'.repeat(5_000) }, body: request },
    { body: { ...request, prompt_cache_key: { a: 1 }, user: 7, metadata: { user_id: [] } } },
    { body: { ...request, messages: [{ role: 'tool', tool_call_id: 9, content: null }] } },
  ]
  for (const sent of odd) {
    const { status, headers } = await send(gateway.url + path, sent)
    t.is(status, 200)
    t.true(String(headers['x-warmpath-session']).length <= 256)
  }
  const stored = await send(`${gateway.url}/v1/responses/${'r'.repeat(5_000)}`)
  t.is(stored.status, 404)
  t.is(gateway.scheduler.status().reservations, 0)
})

test('with a key of ours models are read and no more, and its refusal is no word of the client`s', async (t) => {
  const worker = await startWorker(t, (_, res) => json(res, 401, { error: 'key sk-ours is wrong' }))
  const scheduler = {
    workers: [{ id: 'a', url: worker.url }],
    targets: { m: { workers: ['a'], credential: 'sk-ours' } },
  }
  const gateway = await openGateway(t, { scheduler })
  const asked: [method: string, path: string, status: number][] = [
    ['DELETE', '/v1/models/ft:gpt:org', 404],
    ['POST', '/v1/models/x%2f..%2ffiles', 404],
    ['POST', '/v1/embeddings', 502],
  ]
  for (const [method, path, status] of asked) {
    const body = method === 'POST' ? '{"model":"m","input":"x"}' : undefined
    const headers = { 'content-type': 'application/json' }
    const answer = await send(gateway.url + path, { method, headers, ...(body && { body }) })
    t.is(answer.status, status, path)
    t.false(answer.body.includes('sk-ours is wrong'))
  }
})
