/** What the gateway keeps open towards a worker: nothing for a client that has gone. */
import test, { type ExecutionContext } from 'ava'
import { gatewayOver, until } from './gateway-support.js'
import { open, send, start } from './support/http-client.js'
import { startWorker } from './support/http-worker.js'
import { API } from './support/wire-apis.js'

const { path, request, events } = API['openai-chat']
const streamed = { body: { ...request, stream: true } }

const LEAVING: Record<string, (url: string, asked: () => boolean, t: ExecutionContext) => unknown> =
  {
    'before the answer': async (url, asked, t) => {
      const req = start(url, { body: request })
      await until(t, 'the worker is asked', asked)
      return req
    },
    'inside a stream': async (url) => (await open(url, streamed))[1],
    'inside a stream that it does not read': async (url) => {
      const [res, req] = await open(url, { body: { ...request, stream: true, padded: true } })
      res.pause()
      return req
    },
  }

for (const [when, begin] of Object.entries(LEAVING)) {
  test(`clients that leave ${when} leave no connection with the worker`, async (t) => {
    const silent = when === 'before the answer'
    const worker = await startWorker(t, ({ body }, res) => {
      if (silent) return
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      res.write(events[0])
      if (body.includes('padded')) res.write(Buffer.alloc(8 * 1024 * 1024, ':\n'))
    })
    const gateway = await gatewayOver(t, [worker])
    const clients = 20
    const reqs = await Promise.all(
      Array.from({ length: clients }, () =>
        begin(gateway.url + path, () => worker.received.length === clients, t),
      ),
    )
    t.is(worker.connections.open, clients)
    for (const req of reqs as { destroy(): void }[]) req.destroy()
    await until(t, 'they are closed', () => worker.connections.open === 0)
    t.is(gateway.scheduler.status().reservations, 0)
  })
}

test('clients that leave at any moment take nothing from those that stay', async (t) => {
  const worker = await startWorker(t, (_req, res) => res.end('{}'))
  const gateway = await gatewayOver(t, [worker])
  const url = gateway.url + path
  const statuses: number[] = []
  for (let wave = 0; wave < 10; wave += 1) {
    const leaving = Array.from({ length: 30 }, () => start(url, { body: request }))
    for (const [at, req] of leaving.entries()) setTimeout(() => req.destroy(), at / 4)
    const staying = Array.from({ length: 20 }, () => send(url, { body: request }))
    statuses.push(...(await Promise.all(staying)).map(({ status }) => status))
  }
  t.deepEqual(statuses, Array(200).fill(200))
  await until(t, 'nothing is left', () => {
    return worker.connections.open === 0 && gateway.scheduler.status().reservations === 0
  })
})

test('a worker that closes its connection after each answer is asked again and again', async (t) => {
  const worker = await startWorker(t, (_req, res) => {
    res.writeHead(200, { 'content-type': 'application/json', connection: 'close' })
    res.end('{}')
  })
  const gateway = await gatewayOver(t, [worker])
  const answers = await Promise.all(
    Array.from({ length: 50 }, () => send(gateway.url + path, { body: request })),
  )
  t.true(answers.every(({ status }) => status === 200))
  t.is(worker.connections.ever, 50)
})
