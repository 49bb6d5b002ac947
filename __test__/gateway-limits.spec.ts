/**
 * What a client can cost: bodies that are large, many, slow or endless, heads that never end, more
 * connections than wanted. Real sockets, and what each of them is told.
 */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import test, { type ExecutionContext } from 'ava'
import { type Gateway, gatewayOver, until } from './gateway-support.js'
import { send, start } from './support/http-client.js'
import { answering, json, startWorker } from './support/http-worker.js'
import { API } from './support/wire-apis.js'

const { path, request, answer } = API['openai-chat']
const MIB = 1024 * 1024

/** A connection on which bytes are sent as they are; `seen` is what came back. */
async function connect(t: ExecutionContext, gateway: Gateway) {
  const socket = new Socket()
  t.teardown(() => socket.destroy())
  const connection = { socket, seen: '', closed: false }
  socket.on('data', (piece) => {
    connection.seen += String(piece)
  })
  socket.on('close', () => {
    connection.closed = true
  })
  socket.on('error', () => {})
  socket.connect(Number(new URL(gateway.url).port), '127.0.0.1')
  await once(socket, 'connect')
  return connection
}

const head = (more: string) => `POST ${path} HTTP/1.1\r\nhost: g\r\n${more}\r\n`

test('a body of the largest size passes byte by byte', async (t) => {
  const digest = (body: string) => createHash('sha256').update(body).digest('hex')
  const worker = await startWorker(t, (req, res) => json(res, 200, { digest: digest(req.body) }))
  const gateway = await gatewayOver(t, [worker])
  const frame = JSON.stringify({ ...request, messages: [{ role: 'user', content: '' }] })
  const fill = 'x'.repeat(64 * MIB - frame.length)
  const body = frame.replace('"content":""', `"content":"${fill}"`)
  t.is(Buffer.byteLength(body), 64 * MIB)
  const passed = await send(gateway.url + path, { body })
  t.is(passed.status, 200)
  t.is(JSON.parse(passed.body).digest, digest(body))
  t.is((await send(gateway.url + path, { body: `${body} ` })).status, 413)
})

test('all bodies together have a limit, until their answers have ended', async (t) => {
  let release = () => {}
  const worker = await startWorker(t, (_req, res) => {
    release = () => json(res, 200, answer)
  })
  const body = JSON.stringify({ ...request, padding: 'x'.repeat(600) })
  const gateway = await gatewayOver(t, [worker], { limits: { allBodiesBytes: 1_000 } })
  const first = send(gateway.url + path, { body })
  await until(t, 'the worker is asked', () => worker.received.length === 1)
  const refused = await send(gateway.url + path, { body })
  t.is(refused.status, 503)
  t.is(JSON.parse(refused.body).error.code, 'WARMPATH_OVERLOADED')
  t.is(refused.headers['retry-after'], '1')
  release()
  t.is((await first).status, 200)
  worker.handler = answering()
  t.is((await send(gateway.url + path, { body })).status, 200)
})

test('a client that leaves inside its body gives the bytes back', async (t) => {
  const worker = await startWorker(t, answering())
  const gateway = await gatewayOver(t, [worker], { limits: { allBodiesBytes: 1_000 } })
  const body = JSON.stringify({ ...request, padding: 'x'.repeat(300) })
  for (let round = 0; round < 3; round += 1) {
    const { socket } = await connect(t, gateway)
    socket.write(head('content-length: 900\r\n') + 'x'.repeat(800))
    // What was sent first has been read when a later request has been answered.
    await send(`${gateway.url}/healthz`)
    t.is((await send(gateway.url + path, { body })).status, 503)
    socket.destroy()
    await send(`${gateway.url}/healthz`)
    t.is((await send(gateway.url + path, { body })).status, 200)
  }
})

test('a body that stalls is given up, and its client is told', async (t) => {
  const worker = await startWorker(t, answering())
  const gateway = await gatewayOver(t, [worker], { timeouts: { requestIdleMs: 100 } })
  const connection = await connect(t, gateway)
  connection.socket.write(`${head('content-length: 1000\r\n')}{"model":`)
  await until(t, 'the client is told', () => connection.closed)
  t.regex(connection.seen, /^HTTP\/1\.1 408 /)
  t.regex(connection.seen, /WARMPATH_CLIENT_SLOW/)
  t.is(worker.received.length, 0)
})

test('a head that does not end is given up', async (t) => {
  const worker = await startWorker(t, answering())
  const gateway = await gatewayOver(t, [worker], { timeouts: { requestHeadMs: 100 } })
  const connection = await connect(t, gateway)
  connection.socket.write(`POST ${path} HTTP/1.1\r\nhost: g\r\nx-one: 1\r\n`)
  await until(t, 'the connection is closed', () => connection.closed)
  t.regex(connection.seen, /^HTTP\/1\.1 408 /)
})

for (const [what, flood] of [
  ['one long line', `x-flood: ${'x'.repeat(100_000)}\r\n`],
  ['many lines', Array.from({ length: 20_000 }, (_, n) => `x-${n}: 1\r\n`).join('')],
] as const) {
  test(`a flood of headers, ${what}, costs its own connection`, async (t) => {
    const worker = await startWorker(t, answering())
    const gateway = await gatewayOver(t, [worker])
    const connection = await connect(t, gateway)
    connection.socket.write(head(flood))
    await until(t, 'the connection is closed', () => connection.closed)
    t.regex(connection.seen, /^(HTTP\/1\.1 431 |$)/)
    t.is((await send(gateway.url + path, { body: request })).status, 200)
    t.is(worker.received.length, 1)
  })
}

test('more connections than allowed are closed as they come', async (t) => {
  const worker = await startWorker(t, () => {})
  const gateway = await gatewayOver(t, [worker], { limits: { connections: 2 } })
  const waiting = [1, 2].map(() => start(gateway.url + path, { body: request }))
  await until(t, 'both are served', () => worker.received.length === 2)
  await t.throwsAsync(send(gateway.url + path, { body: request }), { code: 'ECONNRESET' })
  for (const req of waiting) req.destroy()
  await until(t, 'there is room', () => worker.closed === 2)
  worker.handler = answering()
  t.is((await send(gateway.url + path, { body: request })).status, 200)
})

test('what only looks like HTTP is a 400, and ends its connection', async (t) => {
  const worker = await startWorker(t, answering())
  const gateway = await gatewayOver(t, [worker])
  for (const odd of [
    'hello\r\n\r\n',
    head('content-length: 5\r\ntransfer-encoding: chunked\r\n'),
    head('content-length: 1\r\ncontent-length: 2\r\n'),
    head('content-length: -1\r\n'),
    head('x: a\r\n b\rc: d\r\n'),
  ]) {
    const connection = await connect(t, gateway)
    connection.socket.write(odd)
    await until(t, 'the connection is closed', () => connection.closed)
    t.regex(connection.seen, /^HTTP\/1\.1 400 /, odd)
  }
  t.is(worker.received.length, 0)
})

test('all bodies together are counted by what they are decoded', async (t) => {
  const released: (() => void)[] = []
  const worker = await startWorker(t, (_, res) => {
    released.push(() => json(res, 200, answer))
  })
  const limits = { bodyBytes: 5 * MIB, allBodiesBytes: 12 * MIB }
  const gateway = await gatewayOver(t, [worker], { limits })
  const text = JSON.stringify({
    ...request,
    messages: [{ role: 'user', content: 'x'.repeat(4 * MIB) }],
  })
  const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' }
  const body = gzipSync(text)
  t.true(body.length < 10_000)
  const all = Array.from({ length: 6 }, () => send(gateway.url + path, { headers, body }))
  await until(t, 'two are with the worker', () => released.length === 2)
  const refused = await Promise.all(
    Array.from({ length: 2 }, () => send(gateway.url + path, { headers, body })),
  )
  t.deepEqual(
    refused.map(({ status }) => status),
    [503, 503],
  )
  for (const each of released) each()
  const seen = (await Promise.all(all)).map(({ status }) => status).sort()
  t.deepEqual(seen, [200, 200, 503, 503, 503, 503])
  const after = send(gateway.url + path, { headers, body })
  await until(t, 'there is room again', () => released.length === 3)
  released[2]?.()
  t.is((await after).status, 200)
})
