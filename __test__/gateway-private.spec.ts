/** Who learns what: credentials, headers and sessions, and who must not. */
import test from 'ava'
import { gatewayOver, openGateway } from './gateway-support.js'
import { send } from './support/http-client.js'
import { answering, json, startWorker } from './support/http-worker.js'
import { API } from './support/wire-apis.js'

const { path, request } = API['openai-chat']

/** Everything that a client may send, and should not get far with. */
const CLIENT = {
  authorization: 'Bearer client-secret',
  'x-api-key': 'client-secret',
  cookie: 'session=client-secret',
  'proxy-authorization': 'Basic client-secret',
  'x-goog-api-key': 'client-secret',
  'openai-organization': 'org-secret',
  'x-forwarded-for': '10.0.0.1',
  forwarded: 'for=10.0.0.1',
  'x-anything': 'of the client',
  connection: 'close, x-named-by-connection',
  'x-named-by-connection': '1',
  te: 'trailers',
  upgrade: 'h2c',
  expect: '100-continue',
  'x-session-id': 's',
  'anthropic-version': '2023-06-01',
  'user-agent': 'a test',
  traceparent: '00-1-2-3',
}
const OF_THE_HOP = ['connection', 'host', 'content-length']

/** Names and values without those of the one connection. */
function received(headers: NodeJS.Dict<string | string[]> | undefined) {
  const entries = Object.entries(headers ?? {}).filter(([name]) => !OF_THE_HOP.includes(name))
  return Object.fromEntries(entries)
}

const PASSED = {
  'x-session-id': 's',
  'anthropic-version': '2023-06-01',
  'user-agent': 'a test',
  traceparent: '00-1-2-3',
  'content-type': 'application/json',
}

test('a worker gets the headers on the list, and no others', async (t) => {
  const worker = await startWorker(t, answering())
  const gateway = await gatewayOver(t, [worker])
  const { expect: _, ...headers } = CLIENT
  t.is((await send(gateway.url + path, { headers, body: request })).status, 200)
  t.deepEqual(received(worker.received[0]?.headers), PASSED)
})

test('what is no turn is filtered alike', async (t) => {
  const worker = await startWorker(t, (_req, res) => json(res, 200, {}))
  const gateway = await gatewayOver(t, [worker])
  const { expect: _, ...headers } = CLIENT
  const url = `${gateway.url}/v1/embeddings`
  t.is((await send(url, { headers, body: { model: 'm', input: 'x' } })).status, 200)
  t.deepEqual(received(worker.received[0]?.headers), PASSED)
})

test('each target gets its own credential only, also when a turn moves on', async (t) => {
  const one = await startWorker(t, (_req, res) => json(res, 503, {}))
  const two = await startWorker(t, (_req, res) => json(res, 503, {}))
  const three = await startWorker(t, answering())
  const gateway = await openGateway(t, {
    scheduler: {
      workers: [one, two, three].map(({ url }, index) => ({ id: `w${index}`, url })),
      targets: {
        one: { model: 'm1', workers: ['w0'], credential: 'secret-of-one' },
        two: { model: 'm2', workers: ['w1'], credential: 'pass-through' },
        three: { model: 'm3', workers: ['w2'] },
      },
      aliases: { m: ['one', 'two', 'three'] },
    },
  })
  const headers = { authorization: 'Bearer client-secret', 'openai-organization': 'org-secret' }
  const answer = await send(gateway.url + path, { headers, body: request })
  t.is(answer.status, 200)
  const seen = [one, two, three].map((worker) => worker.received[0]?.headers)
  t.deepEqual(
    seen.map((each) => each?.authorization),
    ['Bearer secret-of-one', 'Bearer client-secret', undefined],
  )
  t.deepEqual(
    seen.map((each) => each?.['openai-organization']),
    [undefined, 'org-secret', undefined],
  )
  t.false(JSON.stringify(answer).includes('secret'))
})

test('no log line, error, status or receipt holds a credential', async (t) => {
  const worker = await startWorker(t, (_req, res) => json(res, 503, { error: 'full' }))
  const lines: string[] = []
  const gateway = await openGateway(t, {
    scheduler: {
      workers: [{ id: 'w0', url: worker.url, headers: { 'x-key': 'worker-secret' } }],
      targets: { m: { workers: ['w0'], credential: 'target-secret' } },
    },
    accessLog: (line) => lines.push(line),
  })
  const { expect: _, ...headers } = CLIENT
  const seen = [
    await send(gateway.url + path, { headers, body: request }),
    await send(gateway.url + path, { headers, body: { ...request, model: 'other' } }),
    await send(`${gateway.url + path}?key=query-secret`, { headers, body: '{' }),
    await send(`${gateway.url}/status`, { headers }),
    await send(`${gateway.url}/receipts/1`, { headers }),
  ]
  await worker.close()
  seen.push(await send(gateway.url + path, { headers, body: request }))
  t.true(lines.length >= 5)
  t.false((JSON.stringify(seen) + lines.join('')).includes('secret'))
})

test('the same session id of two tenants is two sessions, and ends for one only', async (t) => {
  const worker = await startWorker(t, answering())
  const gateway = await gatewayOver(t, [worker])
  const as = (key: string) => ({ authorization: `Bearer ${key}`, 'x-session-id': 's' })
  for (const key of ['one', 'two']) {
    await send(gateway.url + path, { headers: as(key), body: request })
  }
  const sessions = () => gateway.scheduler.status().sessions
  t.is(sessions(), 2)
  const end = (headers: Record<string, string>) =>
    send(`${gateway.url}/sessions/s`, { method: 'DELETE', headers })
  t.is((await end({ authorization: 'Bearer three' })).status, 204)
  t.is((await end({})).status, 204)
  t.is(sessions(), 2)
  t.is((await end(as('one'))).status, 204)
  t.is(sessions(), 1)
})

test('without a word about it the gateway is there for this machine only', async (t) => {
  const worker = await startWorker(t, answering())
  const gateway = await gatewayOver(t, [worker])
  t.is(new URL(gateway.url).hostname, '127.0.0.1')
})
