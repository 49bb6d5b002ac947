/**
 * Many clients at once, some of which leave at any moment, over engines that fail in every way they
 * can, with less room than the sessions want: whatever each of them gets, nothing stays reserved.
 */
import { Agent, request } from 'node:http'
import test from 'ava'
import { openGateway, startDouble, until } from './gateway-support.js'
import { API, API_NAMES } from './support/wire-apis.js'

/** Park and Miller's generator: the same draws in every run. */
function draws(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }
}

test('nothing stays reserved', async (t) => {
  const draw = draws(11)
  const engines = await Promise.all(['a', 'b'].map((id) => startDouble(t, { id, speed: 200 })))
  const workers = engines.map(({ url }, index) => ({
    id: `w${index}`,
    url,
    capacityTokens: 4_000,
  }))
  const gateway = await openGateway(t, {
    scheduler: {
      workers,
      admission: { policy: 'thunderagent', intervalMs: 20, holdLimitSeconds: 1 },
    },
    timeouts: { headersMs: 500, bodyIdleMs: 500 },
    hold: { keepAliveAfterMs: 50, keepAliveEveryMs: 50 },
  })
  const agent = new Agent({ keepAlive: true })
  t.teardown(() => agent.destroy())

  const outcomes = new Map<string, number>()
  const count = (outcome: string) => outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)

  /** One request; some clients leave after a while. Resolves with whatever came of it. */
  const turn = (number: number) => {
    const api = API[API_NAMES[number % API_NAMES.length] ?? 'openai-chat']
    const text = `${'word '.repeat(50 + draw() * 1_500)}${number}`
    const body = JSON.stringify({ ...api.request, stream: draw() < 0.6 }).replace('Hello', text)
    const headers = {
      'content-type': 'application/json',
      'x-session-id': `s${Math.floor(draw() * 20)}`,
    }
    const patience = draw() < 0.25 ? draw() * 200 : undefined
    return new Promise<string>((resolve) => {
      const req = request(gateway.url + api.path, { method: 'POST', agent, headers }, (res) => {
        res.on('error', () => resolve('broken'))
        res.on('end', () => resolve(String(res.statusCode)))
        res.resume()
      })
      req.on('error', () => resolve('left'))
      req.end(body)
      if (patience !== undefined) setTimeout(() => req.destroy(), patience)
    })
  }

  let next = 0
  const client = async () => {
    while (next < 240) {
      const number = next
      next += 1
      const engine = engines[Math.floor(draw() * 2)]
      const fault = (['503', 'stall', 'cut'] as const)[Math.floor(draw() * 12)]
      if (fault) engine?.fail(fault)
      count(await turn(number))
    }
  }
  await Promise.all(Array.from({ length: 24 }, client))

  await until(t, 'everything has ended', () => {
    const { reservations, holds, workers: all } = gateway.scheduler.status()
    return reservations === 0 && holds === 0 && all.every((worker) => worker.inFlight === 0)
  })
  const { counters, workers: all } = gateway.scheduler.status()
  t.is(counters.submitted, counters.completed + counters.cancelled)
  t.deepEqual(
    all.map(({ prefillTokens, activeTokens }) => [prefillTokens, activeTokens]),
    [
      [0, 0],
      [0, 0],
    ],
  )
  t.true((outcomes.get('200') ?? 0) > 50, JSON.stringify([...outcomes]))
  t.true((outcomes.get('left') ?? 0) > 5, JSON.stringify([...outcomes]))
})
