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
import { aloneMs } from './alone.js'
import { readAnswer } from './answers.js'
import { type Answer, type Conversation, startConversation } from './conversation.js'
import { SplitMix64 } from './random.js'
import type { SessionRecord, TurnRecord } from './record.js'
import { prose } from './text.js'
import type { SessionPlan, TurnPlan, Workload } from './workload.js'

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
  /** Called when a session is over, with the headers that name it. */
  onSessionEnd?: (headers: Readonly<Record<string, string>>) => Promise<void>
}

interface Driven {
  turns: TurnRecord[]
  sessions: SessionRecord[]
  /** Model ms from the first session's start to the end of the last answer. */
  elapsedMs: number
}

/** Names the turn's record in the router's log. */
const RECEIPT_HEADER = 'x-warmpath-receipt'
const WORKER_HEADER = 'x-warmpath-worker'

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
    for (const [index, plan] of session.turns.entries()) {
      const answer = await this.#turn(session, conversation, index, plan)
      if (answer === undefined) return false
      if (index === session.turns.length - 1) break
      if (!(await this.#runTool(plan))) return false
      const result = this.#seeded.fork(`result ${session.id} ${index}`)
      conversation.extend(answer, prose(result, plan.resultTokens))
    }
    record.completedMs = this.now()
    await this.#options.onSessionEnd?.(conversation.request(1).headers)
    return true
  }

  /** Runs the tool between two turns, which may be a sub-agent. */
  async #runTool(plan: TurnPlan): Promise<boolean> {
    if (plan.spawns !== undefined) return this.#live(plan.spawns)
    await this.#wait(plan.toolMs)
    return true
  }

  /** Sends one turn and reads its answer; undefined when it failed. */
  async #turn(
    session: SessionPlan,
    conversation: Conversation,
    index: number,
    plan: TurnPlan,
  ): Promise<Answer | undefined> {
    const { path, headers, body } = conversation.request(plan.outputTokens)
    const payload = JSON.stringify(body)
    const record: TurnRecord = { session: session.id, index, sentMs: this.now(), usage: {} }
    this.turns.push(record)
    const reader = readAnswer(session.client)
    try {
      const response = await this.#agent.request({
        origin: this.#options.url,
        path,
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: payload,
      })
      record.worker = one(response.headers[WORKER_HEADER])
      record.receipt = one(response.headers[RECEIPT_HEADER])
      response.body.setEncoding('utf8')
      for await (const chunk of response.body) {
        reader.push(chunk as string)
        if (reader.begun) record.firstContentMs ??= this.now()
      }
      if (response.statusCode !== 200) record.error = `status ${response.statusCode}`
      else if (!reader.ended) record.error = 'the stream ended early'
      record.error ??= reader.error
    } catch (error) {
      record.error = error instanceof Error ? error.message : String(error)
    }
    record.endedMs = this.now()
    record.usage = reader.usage
    this.#options.onTurn?.(record)
    return record.error === undefined ? reader.answer() : undefined
  }
}

function one(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value
}

/** Drives every session of the workload to its end. Never rejects for a failed turn. */
function drive(options: DriveOptions): Promise<Driven> {
  return new Drive(options).run()
}

export { type Driven, type DriveOptions, drive }
