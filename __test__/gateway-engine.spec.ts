/**
 * The gateway in front of two engine doubles, which check for themselves what they are asked: whole
 * conversations of each wire API, and engines that fail.
 */
import test, { type ExecutionContext } from 'ava'
import { IssuerRegistry } from '../src/testing/index.js'
import { openGateway, startDouble } from './gateway-support.js'
import { send } from './support/http-client.js'
import { API, API_NAMES, type ApiName } from './support/wire-apis.js'

async function fleet(t: ExecutionContext) {
  const issuer = new IssuerRegistry()
  const engines = await Promise.all(
    ['a', 'b'].map((id) => startDouble(t, { id, issuer, speed: 100 })),
  )
  const [a, b] = engines
  if (!a || !b) throw new Error('two engines were started')
  const gateway = await openGateway(t, {
    scheduler: {
      workers: [
        { id: 'a', url: a.url, capacityTokens: 100_000 },
        { id: 'b', url: b.url, capacityTokens: 100_000 },
      ],
    },
  })
  return { gateway, a, b }
}

/** A conversation's next request: everything so far and one more message. */
function conversation(name: ApiName, said: string[]) {
  const messages = said.map((content, turn) => ({
    role: turn % 2 === 0 ? 'user' : 'assistant',
    content,
  }))
  const { request } = API[name]
  return 'messages' in request ? { ...request, messages } : { ...request, input: messages }
}

for (const name of API_NAMES) {
  for (const stream of [false, true]) {
    test(`${name}, ${stream ? 'streamed' : 'JSON'}: a session stays where its prefix is`, async (t) => {
      const { gateway } = await fleet(t)
      const said = ['Tell me about rivers. '.repeat(200)]
      const places = new Set<unknown>()
      for (let turn = 0; turn < 3; turn += 1) {
        const answer = await send(gateway.url + API[name].path, {
          headers: { 'x-session-id': `session-${name}-${stream}` },
          body: { ...conversation(name, said), stream },
        })
        t.is(answer.status, 200, answer.body)
        t.is(answer.headers['x-warmpath-session'], `session-${name}-${stream}`)
        places.add(answer.headers['x-warmpath-worker'])
        const id = String(answer.headers['x-warmpath-receipt'])
        const receipt = JSON.parse((await send(`${gateway.url}/receipts/${id}`)).body)
        t.is(receipt.worker, answer.headers['x-warmpath-worker'])
        t.is(receipt.outcome.state, 'completed')
        t.true(receipt.outcome.promptTokens > 100)
        if (turn > 0) t.true(receipt.predictedCachedTokens > 0)
        said.push('Rivers flow.', 'And lakes?')
      }
      t.is(places.size, 1)
      const { reservations, counters } = gateway.scheduler.status()
      t.is(reservations, 0)
      t.is(counters.completed, 3)
    })
  }

  test(`${name}: an engine that answers 503 is passed over`, async (t) => {
    const { gateway, a, b } = await fleet(t)
    a.fail('503', 100)
    const answers = await Promise.all(
      [1, 2, 3, 4].map((n) =>
        send(gateway.url + API[name].path, {
          headers: { 'x-session-id': `s${n}` },
          body: conversation(name, [`Question ${n}`]),
        }),
      ),
    )
    for (const { status, headers } of answers) {
      t.deepEqual([status, headers['x-warmpath-worker']], [200, 'b'])
    }
    t.is(b.status().requests, 4)
    t.is(gateway.scheduler.status().reservations, 0)
  })

  test(`${name}: a stream that an engine cuts is told, and leaves nothing behind`, async (t) => {
    const { gateway, a, b } = await fleet(t)
    a.fail('cut')
    b.fail('cut')
    const answer = await send(gateway.url + API[name].path, {
      body: { ...conversation(name, ['Go on. '.repeat(50)]), stream: true },
    })
    t.is(answer.status, 200)
    t.false(answer.broken)
    t.regex(answer.body, /the connection with the worker broke/)
    t.is(gateway.scheduler.status().reservations, 0)
  })
}
