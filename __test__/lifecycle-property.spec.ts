/**
 * Any order of what a gateway may do: no turn is left behind, every promise settles, and the core
 * is told of each end once.
 */

import assert from 'node:assert/strict'
import test from 'ava'
import fc from 'fast-check'

import { type Turn, WarmpathError } from '../src/index.js'
import { CHAT_STREAM, crowded, crowdedTurn, SSE, settled, source } from './support/requests.js'

type Fleet = ReturnType<typeof crowded>

interface Client {
  readonly abort: AbortController
  readonly promise: Promise<void>
  turn?: Turn
  error?: unknown
  settledTimes: number
  reader?: ReadableStreamDefaultReader<Uint8Array> | undefined
}

type Step = readonly [deed: keyof typeof deeds, who: number]

const ANSWERS = [
  () => new Response(source(CHAT_STREAM).body, SSE),
  () => new Response(source(CHAT_STREAM.slice(0, 1), new Error('reset')).body, SSE),
  () => new Response('busy', { status: 503 }),
  () => new Response(null, { status: 204 }),
  () => Response.json({ choices: [], usage: { prompt_tokens: 10 } }),
]

function answer(which: number): Response {
  return (ANSWERS[which % ANSWERS.length] ?? (() => new Response()))()
}

function submit({ fleet, clients }: World, who: number): void {
  const abort = new AbortController()
  const onHold = who % 2 === 0 ? { onHold: () => undefined } : {}
  const request = crowdedTurn(`s${who % 5}`, { signal: abort.signal, ...onHold })
  const promise = fleet.scheduler.submit(request).then(
    (turn) => {
      client.turn = turn
      client.settledTimes += 1
    },
    (error: unknown) => {
      client.error = error
      client.settledTimes += 1
    },
  )
  const client: Client = { abort, promise, settledTimes: 0 }
  clients.push(client)
}

interface World {
  readonly fleet: Fleet
  readonly clients: Client[]
}

const onTurn = (run: (turn: Turn, client: Client, who: number) => void) => {
  return ({ clients }: World, who: number): void => {
    const client = clients[who % Math.max(clients.length, 1)]
    if (client?.turn) run(client.turn, client, who)
  }
}

async function readAll(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
  try {
    while (!(await reader.read()).done);
  } catch {
    // The answer was broken off; who did it does not matter here.
  }
}

function setHealth({ fleet }: World, health: 'up' | 'down'): void {
  try {
    fleet.scheduler.setHealth('a', health)
  } catch (error) {
    assert(WarmpathError.is(error) && error.code === 'WARMPATH_CLOSED')
  }
}

const deeds = {
  submit,
  abort: ({ clients }: World, who: number) => {
    clients[who % Math.max(clients.length, 1)]?.abort.abort()
  },
  observe: onTurn((turn, client, who) => {
    if (client.reader !== undefined) return
    client.reader = turn.observe(answer(who)).body?.getReader()
  }),
  read: onTurn((_, { reader }) => {
    reader?.read().catch(() => undefined)
  }),
  readAll: onTurn((_, { reader }) => {
    if (reader !== undefined) void readAll(reader)
  }),
  leave: onTurn((_, { reader }) => {
    reader?.cancel().catch(() => undefined)
  }),
  firstToken: onTurn((turn) => turn.firstToken()),
  complete: onTurn((turn) => turn.complete({ promptTokens: 850, completionTokens: 3 })),
  fail: onTurn((turn) => turn.fail(new Error('refused'))),
  dispose: onTurn((turn) => turn[Symbol.dispose]()),
  next: onTurn((turn) => {
    turn.next()
  }),
  endSession: ({ fleet }: World, who: number) => fleet.scheduler.endSession(`s${who % 5}`),
  pass: ({ fleet }: World, who: number) => fleet.pass(who * 100),
  down: (world: World) => setHealth(world, 'down'),
  up: (world: World) => setHealth(world, 'up'),
  close: ({ fleet }: World, who: number) => {
    if (who > 95) fleet.scheduler.close()
  },
}

const step: fc.Arbitrary<Step> = fc.tuple(
  fc.oneof(
    { weight: 3, arbitrary: fc.constant('submit' as const) },
    { weight: 4, arbitrary: fc.constantFrom(...(Object.keys(deeds) as (keyof typeof deeds)[])) },
  ),
  fc.nat(100),
)

/** Every client goes away, one way or another. */
async function finish({ clients }: World): Promise<void> {
  for (const [at, { turn, reader, abort }] of clients.entries()) {
    if (at % 3 === 0) abort.abort()
    if (reader !== undefined) await reader.cancel().catch(() => undefined)
    turn?.[Symbol.dispose]()
    if (turn === undefined) abort.abort()
  }
  await Promise.all(clients.map((client) => client.promise))
  for (const { turn } of clients) turn?.[Symbol.dispose]()
}

test('whatever happens in whatever order, nothing is left behind', async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const ids = steps.length % 2 === 0 ? ['a'] : ['a', 'b']
      const fleet = crowded({
        workers: ids.map((id) => ({ id, url: `http://${id}`, capacityTokens: 2000 })),
      })
      const world: World = { fleet, clients: [] }
      for (const [deed, who] of steps) {
        deeds[deed](world, who)
        if (who % 4 === 0) await settled()
      }
      await settled()
      await finish(world)
      const { reservations, holds, anomalies, workers } = fleet.scheduler.status()
      fleet.scheduler.close()
      const inFlight = workers.map((worker) => worker.inFlight)
      assert.deepEqual(
        [reservations, holds, anomalies.lateCalls, ...inFlight],
        [0, 0, 0, ...ids.map(() => 0)],
      )
      for (const { settledTimes, turn, error } of world.clients) {
        assert.equal(settledTimes, 1)
        assert(turn?.state === 'ended' || WarmpathError.is(error))
      }
    }),
    { numRuns: 300 },
  )
  t.pass()
})
