/**
 * One turn on its way to its record: what is known of it when, kept until its end.
 *
 * Made when the turn is taken in, told where it went, of its first token and of its end. It holds
 * no turn and no answer, so that a forgotten turn can still be collected. Its blocks live in the
 * core only as long as the reservation, so they are read before that ends, and the record is handed
 * on after.
 */
import type { ToolCall } from '../dialects/index.js'
import type { Completion } from '../link.js'

/** A turn as it is taken in. */
export interface BegunTurn {
  readonly reservation: number
  readonly tenant: string
  readonly session: string
  /** The client named the session. */
  readonly isNamed: boolean
  readonly parent: string | undefined
  readonly final: boolean
  /** Estimate. */
  readonly promptTokens: number
  /** Byte length of each segment of its text; empty where tokens or hashes were given. */
  readonly segmentBytes: Uint32Array
  /** Milliseconds since 1970. */
  readonly received: number
}

/** Where a turn was sent. */
export interface Sent {
  readonly worker: number
  readonly rank: number
  readonly receipt: number
  readonly predictedCachedTokens: number
  readonly model: string
}

/** What of an answer was seen by its end: what the core is told, and what only a trace wants. */
export type Told = Completion & {
  /** As the provider wrote it. */
  readonly finishReason?: string
  /** The same as `toolCalls`, with names. */
  readonly calls?: readonly ToolCall[]
}

/** Everything that a record is made of, but its blocks. */
export interface EndedTurn extends BegunTurn, Told {
  /** In its session, from 0. */
  readonly number: number
  readonly sent: Sent
  readonly heldMs: number
  readonly firstToken: number | undefined
  readonly end: number
  readonly outcome: 'completed' | 'cancelled' | 'failed'
}

/** What a turn asks of its recorder. */
export interface Desk {
  now(): number
  opened(): void
  /** Undefined: never sent, nothing to record. Returns what hands the record on. */
  ended(turn: EndedTurn | undefined): () => void
}

export class TurnTrace {
  readonly #desk: Desk
  readonly #begun: BegunTurn
  readonly #number: number
  #sent: Sent | undefined
  #heldMs = 0
  #firstToken: number | undefined

  constructor(desk: Desk, begun: BegunTurn, number: number) {
    this.#desk = desk
    this.#begun = begun
    this.#number = number
  }

  /** It may go; `ended` will be called. */
  go(heldMs: number): void {
    this.#heldMs = heldMs
    this.#desk.opened()
  }

  /** Once more when it moved to another worker. */
  sent(sent: Sent): void {
    this.#sent = sent
  }

  firstToken(): void {
    this.#firstToken ??= this.#desk.now()
  }

  /** `dropped` turns were never asked of a worker. Returns what to call once the core knows. */
  ended(outcome: EndedTurn['outcome'] | 'dropped', told: Told): () => void {
    const sent = this.#sent
    if (outcome === 'dropped' || sent === undefined) return this.#desk.ended(undefined)
    return this.#desk.ended({
      ...this.#begun,
      ...told,
      number: this.#number,
      sent,
      heldMs: this.#heldMs,
      firstToken: this.#firstToken,
      end: this.#desk.now(),
      outcome,
    })
  }
}
