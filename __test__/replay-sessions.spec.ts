/**
 * Real sessions through the public surface against engine models: a session's next turn finds in the
 * engine what its previous turn left there, and a run that has ended leaves nothing behind.
 *
 * Closed loop: a turn starts when the previous one has ended and its tools have run. Pauses of people
 * are cut to twenty minutes, so that no session is old enough for admission to forget its place.
 */
import test from 'ava'
import { Scheduler, type Turn } from '../src/index.js'
import { EngineModel } from '../src/simulation.js'
import {
  BLOCK_TOKENS,
  commonBlocks,
  type RecordedSession,
  type RecordedTurn,
  readSessions,
  sessionsFolder,
} from './support/weka.js'

const WORKERS = ['a', 'b', 'c', 'd']
const BLOCKS_A_WORKER = 400_000
const MAX_GAP_SECONDS = 1200

interface Running {
  readonly session: RecordedSession
  readonly index: number
  readonly turn: Turn
  cachedTokens: number
}

interface Arrival {
  readonly at: number
  readonly session: RecordedSession
  readonly index: number
}

/** Arrivals by time; a few hundred at once, so a sorted array will do. */
class Arrivals {
  readonly #waiting: Arrival[] = []

  add(arrival: Arrival): void {
    const at = this.#waiting.findIndex((other) => other.at > arrival.at)
    this.#waiting.splice(at < 0 ? this.#waiting.length : at, 0, arrival)
  }

  get next(): number | undefined {
    return this.#waiting[0]?.at
  }

  take(): Arrival | undefined {
    return this.#waiting.shift()
  }
}

/** Engines, scheduler and sessions on one virtual clock. */
class Replay {
  readonly engines = new Map(
    WORKERS.map((id) => [id, new EngineModel({ numGpuBlocks: BLOCKS_A_WORKER })]),
  )
  readonly scheduler = new Scheduler({
    workers: WORKERS.map((id, i) => ({
      id,
      url: `http://127.0.0.1:${9100 + i}`,
      capacityTokens: BLOCKS_A_WORKER * BLOCK_TOKENS,
    })),
    admission: { policy: 'thunderagent' },
    clock: () => this.now,
  })
  readonly cold: string[] = []
  warm = 0
  turns = 0
  now = 0
  readonly #arrivals = new Arrivals()
  readonly #running = new Map<number, Running>()
  #nextId = 1

  constructor(sessions: RecordedSession[]) {
    for (const session of sessions)
      this.#arrivals.add({ at: session.start * 1000, session, index: 0 })
  }

  async run(): Promise<void> {
    for (;;) {
      const due = [this.#arrivals.next, ...[...this.engines.values()].map((e) => e.next())]
      const next = Math.min(...due.map((at) => at ?? Number.POSITIVE_INFINITY))
      if (next === Number.POSITIVE_INFINITY) return
      this.now = Math.max(this.now, next)
      for (const engine of this.engines.values()) this.#advance(engine)
      while ((this.#arrivals.next ?? Number.POSITIVE_INFINITY) <= this.now) {
        const arrival = this.#arrivals.take()
        if (arrival !== undefined) await this.#arrive(arrival)
      }
    }
  }

  async #arrive({ session, index }: Arrival): Promise<void> {
    const recorded = session.turns[index]
    if (recorded === undefined) throw new Error('no such turn')
    const turn = await this.scheduler.submit({
      path: '/v1/messages',
      model: 'm',
      session: session.name,
      ...(session.parent === undefined ? {} : { parent: session.parent }),
      hashes: BigUint64Array.from(recorded.blocks, BigInt),
    })
    const id = this.#nextId++
    this.#running.set(id, { session, index, turn, cachedTokens: 0 })
    const output = Uint32Array.from(
      { length: recorded.outputTokens },
      (_, i) => 0xf000_0000 + id + i,
    )
    this.engines.get(turn.worker)?.submit(this.now, id, tokensOf(recorded), output)
  }

  #advance(engine: EngineModel): void {
    engine.advance(this.now, (event) => {
      const running = this.#running.get(event.id)
      if (running === undefined) return
      if (event.kind === 'admitted') running.cachedTokens = event.cachedTokens
      if (event.kind === 'token' && event.produced === 1) running.turn.firstToken()
      if (event.kind === 'ended') this.#end(event.id, running)
    })
  }

  #end(id: number, { session, index, turn, cachedTokens }: Running): void {
    const recorded = session.turns[index]
    if (recorded === undefined) throw new Error('no such turn')
    this.#running.delete(id)
    this.#judge(session, index, cachedTokens)
    turn.complete({
      promptTokens: recorded.promptTokens,
      cachedTokens,
      completionTokens: recorded.outputTokens,
    })
    const following = session.turns[index + 1]
    if (following === undefined) {
      this.scheduler.endSession(session.name)
      return
    }
    const gap = Math.min(following.gap, MAX_GAP_SECONDS) * 1000
    this.#arrivals.add({ at: this.now + gap, session, index: index + 1 })
  }

  /** Whether the engine had what the previous turn left, up to where the trace itself diverges. */
  #judge(session: RecordedSession, index: number, cachedTokens: number): void {
    this.turns++
    const [previous, recorded] = [session.turns[index - 1], session.turns[index]]
    if (previous === undefined || recorded === undefined) return
    const reusable = Math.floor((recorded.promptTokens - 1) / BLOCK_TOKENS)
    const left = Math.min(commonBlocks(previous, recorded), reusable) * BLOCK_TOKENS
    if (cachedTokens >= left) this.warm++
    else this.cold.push(`${session.name}#${index}: ${cachedTokens} of ${left}`)
  }
}

function tokensOf({ promptTokens, blocks }: RecordedTurn): Uint32Array {
  const tokens = new Uint32Array(promptTokens)
  for (let i = 0; i < blocks.length; i++) {
    tokens.fill(blocks[i] ?? 0, i * BLOCK_TOKENS, (i + 1) * BLOCK_TOKENS)
  }
  return tokens
}

const folder = sessionsFolder()
const onTraces = folder === undefined ? test.skip : test

onTraces('every turn of 96 real sessions finds what the previous one left', async (t) => {
  t.timeout(600_000)
  const sessions = readSessions(folder ?? '')
  const replay = new Replay(sessions)
  await replay.run()
  const expected = sessions.reduce((sum, { turns }) => sum + turns.length, 0)
  t.is(replay.turns, expected)
  t.true(expected > 6000)
  t.deepEqual(replay.cold, [])
  t.is(replay.warm, expected - sessions.length)
  const { reservations, holds, paused, workers } = replay.scheduler.status()
  t.deepEqual({ reservations, holds, paused }, { reservations: 0, holds: 0, paused: 0 })
  t.is(replay.scheduler.status().sessions, 0)
  for (const { inFlight, prefillTokens, usedTokens } of workers) {
    t.deepEqual(
      { inFlight, prefillTokens, usedTokens },
      { inFlight: 0, prefillTokens: 0, usedTokens: 0 },
    )
  }
  replay.scheduler.close()
})
