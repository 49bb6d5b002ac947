/** What is broken on purpose, and how soon it counts. Each gives rows for the report. */
import { setTimeout as sleep } from 'node:timers/promises'
import { tally } from './agreement.mjs'
import { play, send } from './play.mjs'
import { Session } from './sessions.mjs'
import { MODEL } from './vllm.mjs'

const WAIT_MS = 60_000

export async function until(what, holds, ms = WAIT_MS) {
  const began = Date.now()
  while (!(await holds())) {
    if (Date.now() - began > ms) throw new Error(`${what}: not within ${ms / 1000} s`)
    await sleep(10)
  }
  return Date.now() - began
}

export const evidenceOf = (scheduler, id) =>
  scheduler.status().workers.find((worker) => worker.id === id).evidence

export const exact = (scheduler, id) =>
  until(`exact trust in ${id}`, () => evidenceOf(scheduler, id).trust === 'exact')

/** What a decision about the session's next turn would count at each worker, by the engine's tokens. */
async function credits(world, session) {
  const body = session.body({ stream: false, model: MODEL })
  const response = await fetch(`${world.engines[0].url}/tokenize`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const { tokens } = await response.json()
  const path = '/v1/chat/completions'
  return () => {
    const rows = world.scheduler.candidates({ path, body, tokens: Uint32Array.from(tokens) })
    return new Map(rows.map((row) => [row.worker, row.overlapTokens]))
  }
}

/** A session of three turns, where its context is, and what would be counted there. */
async function warm(world, salt, number = 1) {
  const session = new Session(salt, number, 77)
  const records = await play([session], { turns: 3, parallel: 1, ask: world.ask })
  const { worker } = records.at(-1)
  await sleep(300)
  const look = await credits(world, session)
  return { session, worker, look, before: look().get(worker) ?? 0 }
}

/** The gateway is told of a reset: nothing may count from then on, however late the event comes. */
export async function reset(world) {
  const { session, worker, look, before } = await warm(world, 'reset')
  const engine = world.byId.get(worker)
  await engine.resetCache()
  world.scheduler.resetCache(worker)
  const after = look().get(worker) ?? 0
  const records = await play([session], { turns: 2, parallel: 1, ask: world.ask })
  // It tells of its reset with its next step, which is of somebody else here.
  const straight = (one, turn) => send(engine.url, one, { turn, model: MODEL })
  await play([new Session('reset-beside', 1, 4)], { turns: 1, parallel: 1, ask: straight })
  await exact(world.scheduler, worker)
  const again = await play([session], { turns: 2, parallel: 1, ask: world.ask })
  return { before, after, records, again: tally(again, world.relays) }
}

/** Some messages do not arrive: asked for again, and right after that. */
export async function lose(world) {
  const { session } = await warm(world, 'lost')
  const worker = world.relayed
  const relay = world.relays.get(worker)
  const stream = () =>
    world.scheduler.status().workers.find(({ id }) => id === worker).events.ranks[0]
  const before = stream()
  relay.lose(3)
  // Straight to the engine: three messages at least, of blocks that nobody else has.
  const others = [new Session('lost-beside', 1, 5), new Session('lost-beside', 2, 6)]
  const ask = async (one, turn) => {
    return send(world.byId.get(worker).url, one, { turn, model: MODEL })
  }
  await play(others, { turns: 3, parallel: 1, ask })
  await until('the gap', () => stream().gaps > before.gaps)
  const recovered = await until('exact trust', () => {
    return evidenceOf(world.scheduler, worker).trust === 'exact' && stream().pending === 0
  })
  const records = await play([session, ...others], { turns: 2, parallel: 1, ask: world.ask })
  return {
    lost: relay.lost,
    replays: stream().replays - before.replays,
    recovered,
    after: tally(records, world.relays),
  }
}

/** On the engine that the gateway hears by itself: its connection breaks when the process ends. */
async function warmBesideRelay(world) {
  for (let number = 1; number <= 8; number += 1) {
    const found = await warm(world, `killed-${number}`, number)
    if (found.worker !== world.relayed) return found
  }
  throw new Error('every session went to one engine')
}

/** The process is gone: nothing of it counts, its session goes on elsewhere, and it comes back empty. */
export async function kill(world, restarted) {
  const { session, look, worker, before } = await warmBesideRelay(world)
  const engine = world.byId.get(worker)
  engine.kill()
  await engine.ended()
  const voided = await until('the end of its credit', () => (look().get(worker) ?? 0) === 0, 10_000)
  const [record] = await play([session], { turns: 1, parallel: 1, ask: world.ask })
  const seconds = await restarted(engine)
  await exact(world.scheduler, worker)
  const health = () => world.scheduler.status().workers.find(({ id }) => id === worker).health
  await until('its health', () => health() === 'up')
  const empty = look().get(worker) ?? 0
  const fresh = [1, 2, 3, 4, 5, 6].map((n) => new Session(`restarted-${n}`, n, 91))
  const records = await play(fresh, { turns: 4, parallel: 1, ask: world.ask })
  const there = records.filter((r) => r.worker === worker)
  return {
    before,
    voided,
    wentElsewhere: record.worker !== worker,
    seconds,
    empty,
    turnsThere: there.length,
    after: tally(records, world.relays),
  }
}
