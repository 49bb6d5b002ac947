/**
 * What a turn occupies from go until its end, and the rule that it ends exactly once.
 *
 * running -> observing -> ended, or running -> ended. While an answer is observed only the answer,
 * the abort signal or an explicit call may end it; disposing and collection do nothing then. Every
 * further end is a no-op. Holds no reference to the Turn, so that a forgotten Turn can be collected
 * and ended by its finaliser; and none to the caller's signal once it has ended, since a finaliser holds
 * it until then and what a signal is tied to may reach the Turn.
 */
import type { Link } from '../link.js'
import { published } from '../telemetry/index.js'
import type { Told, TurnTrace } from '../trace/index.js'
import { onAbort } from './abort.js'

type End = 'completed' | 'cancelled' | 'failed' | 'dropped'
type Phase = 'running' | 'observing' | 'ended'

export class Reservation {
  readonly id: number
  readonly #link: Link
  #signal: AbortSignal | undefined
  readonly #trace: TurnTrace | undefined
  #unhear: (() => void) | undefined
  #phase: Phase = 'running'
  #heard = false
  #stop: ((reason: unknown) => void) | undefined
  #told: (() => Told | undefined) | undefined

  constructor(
    id: number,
    link: Link,
    signal: AbortSignal | undefined,
    trace: TurnTrace | undefined,
  ) {
    this.#trace = trace
    this.id = id
    this.#link = link
    this.#signal = signal
    this.#unhear = onAbort(signal, () => this.#abort())
  }

  get ended(): boolean {
    return this.#phase === 'ended'
  }

  get observing(): boolean {
    return this.#phase === 'observing'
  }

  get aborted(): boolean {
    return this.#signal?.aborted === true
  }

  /** Nothing of an answer has been seen yet. */
  get movable(): boolean {
    return this.#phase === 'running' && !this.#heard
  }

  /**
   * From here on an answer is read; `stop` breaks it off when the client goes away, `told` says what
   * was seen of it when it breaks off.
   */
  observe(stop: (reason: unknown) => void, told: () => Told | undefined): void {
    if (this.#phase !== 'running') return
    this.#phase = 'observing'
    this.#stop = stop
    this.#told = told
  }

  firstToken(): void {
    if (this.#phase === 'ended' || this.#heard) return
    this.#heard = true
    this.#trace?.firstToken()
    this.#link.firstToken(this.id)
  }

  /** The engine says what tokens the prompt is. */
  learnTokens(tokens: Uint32Array): void {
    if (this.#phase !== 'ended') this.#link.learnTokens(this.id, tokens)
  }

  complete(told: Told): void {
    this.#end('completed', () => this.#link.complete(this.id, told), told)
  }

  /** The client went away. */
  cancel(): void {
    this.#end('cancelled', () => this.#link.cancel(this.id))
  }

  /** The upstream failed, unless the client's abort is what made it fail. */
  fail(): void {
    if (this.aborted) this.cancel()
    else this.#end('failed', () => this.#link.fail(this.id))
  }

  /** Nobody will use it. */
  drop(): void {
    if (this.#phase !== 'observing') this.#end('dropped', () => this.#link.cancel(this.id))
  }

  /**
   * `tell` may run what waits for the room, which may call back: the phase changes first. When it
   * throws, the end may not have reached the core, so the reservation can be ended again.
   */
  #end(outcome: End, tell: () => void, told?: Told): void {
    const before = this.#phase
    if (before === 'ended') return
    this.#phase = 'ended'
    published.end(this.id, outcome)
    const record = this.#trace?.ended(outcome, told ?? this.#told?.() ?? {})
    try {
      tell()
    } catch (error) {
      this.#phase = before
      throw error
    }
    this.#stop = undefined
    this.#told = undefined
    this.#unhear?.()
    this.#unhear = undefined
    this.#signal = undefined
    record?.()
  }

  #abort(): void {
    const [stop, reason] = [this.#stop, this.#signal?.reason]
    this.cancel()
    stop?.(reason)
  }
}
