/**
 * How are the turns of a workload sent to a real endpoint?
 *
 * Each turn once, when what it waits for is over (closed loop) or at its time whatever else happens
 * (open loop), at most so many at once; what finds no room waits its turn, in order, and the wait is
 * counted apart. A turn that fails is over for those that wait for it, as in the simulator, so that
 * one error does not end a session.
 *
 * Nothing is retried and nothing thrown; every turn ends in the list of outcomes.
 */
import { Agent } from 'undici'
import { readAnswer } from '../../demo/answers.js'
import type { WorkloadTurns } from '../../workload.js'
import { MOST_TOKENS, type WireRequest } from './requests.js'
import { type Loop, Schedule } from './schedule.js'

interface DriveOptions {
  /** Base address; `/v1/chat/completions` is asked of it. */
  url: string
  turns: WorkloadTurns
  /** Absent for a turn that is too large to be sent. */
  request: (turn: number) => WireRequest | undefined
  loop: Loop
  /** How much faster than in the trace pauses and arrivals pass, above 0. */
  speed: number
  /** Requests under way at most, at least 1. */
  concurrency: number
  /** Gives a turn up that has no first token by then, ms. */
  patienceMs?: number
  signal?: AbortSignal
  onTurn?: (outcome: TurnOutcome) => void
}

/** What became of a turn. Times are milliseconds since the drive began. */
interface TurnOutcome {
  turn: number
  /** When it should have been sent, and when it was. */
  dueMs: number
  sentMs: number
  firstMs?: number
  endMs: number
  promptTokens?: number
  cachedTokens?: number
  outputTokens?: number
  /** Why it failed, in few words that many failures share. */
  error?: string
  /** HTTP status of the failure. */
  status?: number
}

/** Tokens of all prompts under way: 256 MB of text. */
const MOST_UNDER_WAY = 64_000_000
/** What an endpoint would have said. */
const TOO_LARGE = 413

class Drive {
  readonly #options: DriveOptions
  readonly #agent: Agent
  readonly #began = performance.now()
  readonly #outcomes: TurnOutcome[] = []
  readonly #waiting: { turn: number; dueMs: number }[] = []
  readonly #schedule: Schedule
  #running = 0
  /** Of the prompts under way. */
  #tokens = 0
  #finish: (() => void) | undefined

  constructor(options: DriveOptions) {
    this.#options = options
    this.#agent = new Agent({
      connections: options.concurrency,
      pipelining: 1,
      headersTimeout: 0,
      bodyTimeout: 0,
    })
    const { turns, loop, speed } = options
    this.#schedule = new Schedule({ turns, loop, speed, due: (turn) => this.#due(turn) })
  }

  async run(): Promise<TurnOutcome[]> {
    const done = new Promise<void>((resolve) => {
      this.#finish = resolve
    })
    const stop = () => {
      this.#schedule.stop()
      this.#waiting.length = 0
      if (this.#running === 0) this.#finish?.()
    }
    this.#options.signal?.addEventListener('abort', stop, { once: true })
    if (this.#options.turns.session.length === 0) this.#finish?.()
    this.#schedule.begin()
    await done
    this.#options.signal?.removeEventListener('abort', stop)
    await this.#agent.destroy()
    return this.#outcomes
  }

  #now(): number {
    return performance.now() - this.#began
  }

  #due(turn: number): void {
    this.#waiting.push({ turn, dueMs: this.#now() })
    this.#fill()
  }

  #fill(): void {
    while (this.#running < this.#options.concurrency) {
      const next = this.#waiting[0]
      if (next === undefined || !this.#hasRoom(next.turn)) return
      this.#waiting.shift()
      this.#running += 1
      this.#tokens += this.#tokensOf(next.turn)
      void this.#turn(next)
    }
  }

  /** Texts under way are in memory; one that is alone always goes. */
  #hasRoom(turn: number): boolean {
    return this.#running === 0 || this.#tokens + this.#tokensOf(turn) <= MOST_UNDER_WAY
  }

  #tokensOf(turn: number): number {
    return Math.min(MOST_TOKENS, this.#options.turns.inputTokens[turn] ?? 0)
  }

  async #turn({ turn, dueMs }: { turn: number; dueMs: number }): Promise<void> {
    const outcome: TurnOutcome = { turn, dueMs, sentMs: this.#now(), endMs: 0 }
    this.#schedule.started(turn)
    await this.#exchange(outcome)
    outcome.endMs = this.#now()
    this.#outcomes.push(outcome)
    this.#options.onTurn?.(outcome)
    this.#running -= 1
    this.#tokens -= this.#tokensOf(turn)
    this.#schedule.ended(turn)
    this.#fill()
    const isOver = this.#schedule.isOver || this.#options.signal?.aborted === true
    if (isOver && this.#running === 0 && this.#waiting.length === 0) this.#finish?.()
  }

  async #exchange(outcome: TurnOutcome): Promise<void> {
    const { url, request, signal } = this.#options
    const sent = request(outcome.turn)
    if (sent === undefined) {
      outcome.error = `not sent: a prompt of more than ${MOST_TOKENS.toLocaleString('en-US')} tokens`
      outcome.status = TOO_LARGE
      return
    }
    const patience = new AbortController()
    const { patienceMs } = this.#options
    const timer =
      patienceMs === undefined ? undefined : setTimeout(() => patience.abort(), patienceMs)
    const reader = readAnswer('opencode')
    try {
      const response = await this.#agent.request({
        origin: new URL(url).origin,
        path: `${new URL(url).pathname.replace(/\/+$/, '')}/v1/chat/completions`,
        method: 'POST',
        ...sent,
        signal: signal === undefined ? patience.signal : AbortSignal.any([signal, patience.signal]),
      })
      const decoder = new TextDecoder()
      for await (const chunk of response.body) {
        reader.push(decoder.decode(chunk as Uint8Array, { stream: true }))
        if (!reader.begun || outcome.firstMs !== undefined) continue
        outcome.firstMs = this.#now()
        clearTimeout(timer)
      }
      if (response.statusCode !== 200) outcome.status = response.statusCode
      fail(outcome, reader, response.statusCode)
    } catch (error) {
      outcome.error = patience.signal.aborted ? 'no token in time' : named(error)
    } finally {
      clearTimeout(timer)
    }
    count(outcome, reader.usage)
  }
}

/** What was wrong with an answer that came to its end. */
function fail(
  outcome: TurnOutcome,
  reader: { ended: boolean; error: string | undefined },
  status: number,
): void {
  if (status !== 200) outcome.error = `status ${status}`
  else if (reader.error !== undefined) outcome.error = 'an error in the stream'
  else if (!reader.ended) outcome.error = 'the stream ended early'
}

function count(outcome: TurnOutcome, usage: ReturnType<typeof readAnswer>['usage']): void {
  const { promptTokens, cachedTokens, completionTokens } = usage
  if (promptTokens !== undefined) outcome.promptTokens = promptTokens
  if (cachedTokens !== undefined) outcome.cachedTokens = cachedTokens
  if (completionTokens !== undefined) outcome.outputTokens = completionTokens
}

function named(error: unknown): string {
  const { code, name } = error as { code?: string; name?: string }
  return code ?? name ?? 'an unknown error'
}

/** Sends every turn of the workload. Never rejects for a failed turn. */
function drive(options: DriveOptions): Promise<TurnOutcome[]> {
  return new Drive(options).run()
}

export { type DriveOptions, drive, type TurnOutcome }
