/**
 * How are the planned sessions lived through?
 *
 * As agents do it: send a turn, read the answer to its end, run the tool, send the next one; all
 * sessions at once, each on its own, over HTTP to one address. The driver knows no router and no
 * engine. It waits in model time: a tool that takes four seconds takes 4 / speed on the wall.
 *
 * A turn that fails ends its session (and the parent's that waits for it); the failure is recorded,
 * nothing is retried and nothing thrown.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Agent } from 'undici'
import { readAnswer } from './answers.js'
import { type Answer, startConversation, type WireRequest } from './conversation.js'
import { aloneMs } from './engine.js'
import { SplitMix64 } from './random.js'
import type { SessionRecord, TurnRecord } from './record.js'
import { prose } from './text.js'
import type { ClientName, SessionPlan, TurnPlan, Workload } from './workload.js'

interface DriveOptions {
  workload: Workload
  /** Where the router listens. */
  url: string
  /** Model name to ask for. */
  model: string
  /** Model ms that pass in one wall ms. */
  speed: number
  /** Called after each turn. */
  onTurn?: (turn: TurnRecord) => void
  /** Called when a session completed, with the name the router has for it where it gives one. */
  onSessionEnd?: (session: SessionPlan, routerName: string | undefined) => void
}

interface Driven {
  turns: TurnRecord[]
  sessions: SessionRecord[]
  /** Model ms from the first session's start to the end of the last answer. */
  elapsedMs: number
}

/** What a router may say of a turn. */
const WORKER_HEADER = 'x-warmpath-worker'
const RECEIPT_HEADER = 'x-warmpath-receipt'
const SESSION_HEADER = 'x-warmpath-session'

class Drive {
  readonly turns: TurnRecord[] = []
  readonly sessions: SessionRecord[] = []
  readonly #options: DriveOptions
  readonly #agent = new Agent({ pipelining: 1, headersTimeout: 0, bodyTimeout: 0 })
  readonly #seeded: SplitMix64
  readonly #origin = performance.now()

  constructor(options: DriveOptions) {
    this.#options = options
    this.#seeded = new SplitMix64(options.workload.seed)
  }

  /** Model ms since the start. */
  now(): number {
    return (performance.now() - this.#origin) * this.#options.speed
  }

  async run(): Promise<Driven> {
    const { sessions } = this.#options.workload
    await Promise.all(
      sessions.map(async (session) => {
        await this.#wait(session.startMs)
        await this.#live(session)
      }),
    )
    const elapsedMs = Math.max(0, ...this.turns.map((turn) => turn.endedMs ?? 0))
    await this.#agent.close()
    return { turns: this.turns, sessions: this.sessions, elapsedMs }
  }

  async #wait(modelMs: number): Promise<void> {
    await sleep(modelMs / this.#options.speed)
  }

  /** Lives one session to its end; false when a turn of it or of its sub-agent failed. */
  async #live(session: SessionPlan): Promise<boolean> {
    const record: SessionRecord = {
      id: session.id,
      startedMs: this.now(),
      aloneMs: aloneMs(session),
      ...(session.parent === undefined ? {} : { parent: session.parent }),
    }
    this.sessions.push(record)
    const conversation = startConversation(this.#seeded, session, this.#options.model)
    let turn: TurnRecord | undefined
    for (const [index, plan] of session.turns.entries()) {
      turn = { session: session.id, index, sentMs: this.now(), usage: {} }
      const answer = await this.#turn(
        turn,
        session.client,
        conversation.request(),
        wantedAnswer(plan),
      )
      if (turn.error !== undefined) return false
      if (index === session.turns.length - 1) break
      if (!(await this.#runTool(plan))) return false
      const result = this.#seeded.fork(`result ${session.id} ${index}`)
      conversation.extend(answer, prose(result, plan.resultTokens))
    }
    record.completedMs = this.now()
    this.#options.onSessionEnd?.(session, turn?.routerSession)
    return true
  }

  /** Runs the tool between two turns, which may be a sub-agent. */
  async #runTool(plan: TurnPlan): Promise<boolean> {
    if (plan.spawns !== undefined) return this.#live(plan.spawns)
    await this.#wait(plan.toolMs)
    return true
  }

  /** Sends one turn, reads its answer and completes its record. */
  async #turn(
    turn: TurnRecord,
    client: ClientName,
    request: WireRequest,
    wanted: Record<string, string>,
  ): Promise<Answer> {
    this.turns.push(turn)
    const reader = readAnswer(client)
    try {
      const response = await this.#agent.request({
        origin: this.#options.url,
        path: request.path,
        method: 'POST',
        headers: { 'content-type': 'application/json', ...request.headers, ...wanted },
        body: JSON.stringify(request.body),
      })
      turn.worker = one(response.headers[WORKER_HEADER])
      turn.receipt = one(response.headers[RECEIPT_HEADER])
      turn.routerSession = one(response.headers[SESSION_HEADER])
      const decoder = new TextDecoder()
      for await (const chunk of response.body) {
        reader.push(decoder.decode(chunk as Uint8Array, { stream: true }))
        if (reader.begun) turn.firstContentMs ??= this.now()
      }
      if (response.statusCode !== 200) turn.error = `status ${response.statusCode}`
      else if (!reader.ended) turn.error = 'the stream ended early'
      turn.error ??= reader.error
    } catch (error) {
      turn.error = error instanceof Error ? error.message : String(error)
    }
    turn.endedMs = this.now()
    turn.usage = reader.usage
    this.#options.onTurn?.(turn)
    return reader.answer()
  }
}

/**
 * Headers by which an engine double is told what to answer. A model decides this itself; here it is
 * part of the plan, so that every router has the same work. Routers pass them on and read nothing
 * from them.
 */
function wantedAnswer({ outputTokens, resultTokens, spawns }: TurnPlan): Record<string, string> {
  const tokens = { 'x-double-output-tokens': String(outputTokens) }
  if (resultTokens === 0) return tokens
  const tool = spawns === undefined ? 'read {"input":"src/main"}' : `agent {"input":"${spawns.id}"}`
  return { ...tokens, 'x-double-tool': tool }
}

function one(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value
}

/** Drives every session of the workload to its end. Never rejects for a failed turn. */
function drive(options: DriveOptions): Promise<Driven> {
  return new Drive(options).run()
}

export { type Driven, type DriveOptions, drive }
