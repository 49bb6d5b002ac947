/** How a gateway stops: what is under way finishes, what does not is told why. */
import { Socket } from 'node:net'
import test from 'ava'
import { startGateway } from '../src/gateway/index.js'
import { Scheduler } from '../src/index.js'
import { gatewayOver, openGateway, until } from './gateway-support.js'
import { finish, open, send, start } from './support/http-client.js'
import { answering, type Handler, json, startWorker } from './support/http-worker.js'
import { API } from './support/wire-apis.js'

const { path, request, answer, events } = API['openai-chat']

const streamingOnce: Handler = (_req, res) => {
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  res.write(events[0])
}

test('what is under way is finished before the gateway is closed', async (t) => {
  let release = () => {}
  const worker = await startWorker(t, (_req, res) => {
    release = () => json(res, 200, answer)
  })
  const gateway = await gatewayOver(t, [worker])
  const pending = send(gateway.url + path, { body: request })
  await until(t, 'the worker is asked', () => worker.received.length === 1)
  let closed = false
  const closing = gateway.close().then(() => {
    closed = true
  })
  await t.throwsAsync(send(`${gateway.url}/healthz`), { code: 'ECONNREFUSED' })
  t.false(closed)
  release()
  const { status, body, headers } = await pending
  t.is(status, 200)
  t.is(body, JSON.stringify(answer))
  t.is(headers.connection, 'close')
  await closing
})

test('a stream that outlasts the deadline ends with an event that says so', async (t) => {
  const worker = await startWorker(t, streamingOnce)
  const gateway = await gatewayOver(t, [worker], { timeouts: { drainMs: 50 } })
  const [res] = await open(gateway.url + path, { body: { ...request, stream: true } })
  const whole = finish(res)
  await gateway.close()
  const { body, broken } = await whole
  t.false(broken)
  t.true(body.startsWith(events[0]))
  t.regex(body, /WARMPATH_CLOSED/)
  await until(t, 'the worker is let go', () => worker.closed === 1)
})

test('a request on a connection kept open is refused while the gateway stops', async (t) => {
  const worker = await startWorker(t, streamingOnce)
  const gateway = await gatewayOver(t, [worker], { timeouts: { drainMs: 200 } })
  const body = JSON.stringify({ ...request, stream: true })
  // Two requests on one connection, the second already sent when the stop comes.
  const socket = new Socket()
  t.teardown(() => socket.destroy())
  let seen = ''
  socket.on('data', (piece) => {
    seen += String(piece)
  })
  socket.connect(Number(new URL(gateway.url).port), '127.0.0.1')
  const head = `POST ${path} HTTP/1.1\r\nhost: g\r\ncontent-length: ${body.length}\r\n\r\n`
  socket.write(head + body)
  await until(t, 'the stream begins', () => seen.includes('data: '))
  await gateway.close()
  t.regex(seen, /WARMPATH_CLOSED/)
})

test('a second close waits for the same stop', async (t) => {
  const worker = await startWorker(t, answering())
  const gateway = await gatewayOver(t, [worker])
  await Promise.all([gateway.close(), gateway.close()])
  await t.throwsAsync(send(gateway.url), { code: 'ECONNREFUSED' })
})

test('an own scheduler is closed with the gateway, a given one is not', async (t) => {
  const worker = await startWorker(t, answering())
  const scheduler = new Scheduler({ workers: [{ id: 'w0', url: worker.url }] })
  t.teardown(() => scheduler.close())
  const gateway = await openGateway(t, { scheduler })
  t.is(gateway.scheduler, scheduler)
  t.is((await send(gateway.url + path, { body: request })).status, 200)
  await gateway.close()
  const turn = await scheduler.submit({ path, body: request })
  turn.complete()
  const own = await gatewayOver(t, [worker])
  await own.close()
  await t.throwsAsync(own.scheduler.submit({ path, body: request }), { code: 'WARMPATH_CLOSED' })
})

test('an address that cannot be had is a configuration error', async (t) => {
  const worker = await startWorker(t, answering())
  const config = { port: worker.port, scheduler: { workers: [{ id: 'a', url: worker.url }] } }
  await t.throwsAsync(startGateway(config), {
    code: 'WARMPATH_CONFIG',
    message: /cannot listen on 127\.0\.0\.1 port \d+ \(EADDRINUSE\)/,
  })
})

test('clients that come and go while it stops leave nothing behind', async (t) => {
  const worker = await startWorker(t, () => {})
  const gateway = await gatewayOver(t, [worker], { timeouts: { drainMs: 5_000 } })
  const req = start(gateway.url + path, { body: request })
  await until(t, 'the worker is asked', () => worker.received.length === 1)
  const closing = gateway.close()
  req.destroy()
  await closing
  await until(t, 'the worker is let go', () => worker.closed === 1)
})
