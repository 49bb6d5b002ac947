/**
 * What a turn occupies from go until its end, and the rule that it ends exactly once.
 *
 * running -> observing -> ended, or running -> ended. While an answer is observed only the answer,
 * the abort signal or an explicit call may end it; disposing and collection do nothing then. Every
 * further end is a no-op. Holds no reference to the Turn, so that a forgotten Turn can be collected
 * and ended by its finaliser.
 */
import type { Completion, Link } from '../link.js'
import { published } from '../telemetry/index.js'
import { onAbort } from './abort.js'

type Phase = 'running' | 'observing' | 'ended'

export class Reservation {
  readonly id: number
  readonly #link: Link
  readonly #signal: AbortSignal | undefined
  readonly #unhear: () => void
  #phase: Phase = 'running'
  #heard = false
  #stop: ((reason: unknown) => void) | undefined

  constructor(id: number, link: Link, signal: AbortSignal | undefined) {
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

  /** From here on an answer is read; `stop` breaks it off when the client goes away. */
  observe(stop: (reason: unknown) => void): void {
    if (this.#phase !== 'running') return
    this.#phase = 'observing'
    this.#stop = stop
  }

  firstToken(): void {
    if (this.#phase === 'ended' || this.#heard) return
    this.#heard = true
    this.#link.firstToken(this.id)
  }

  complete(completion: Completion): void {
    this.#end('completed', () => this.#link.complete(this.id, completion))
  }

  /** The client went away. */
  cancel(): void {
    this.#end('cancelled', () => this.#link.cancel(this.id))
  }

  /** The upstream failed, unless the client's abort is what made it fail. */
  fail(): void {
    if (this.aborted) this.cancel()
    else this.#end('failed', () => this.#link.cancel(this.id))
  }

  /** Nobody will use it. */
  drop(): void {
    if (this.#phase !== 'observing') this.#end('dropped', () => this.#link.cancel(this.id))
  }

  /**
   * `tell` may run what waits for the room, which may call back: the phase changes first. When it
   * throws, the end may not have reached the core, so the reservation can be ended again.
   */
  #end(outcome: string, tell: () => void): void {
    const before = this.#phase
    if (before === 'ended') return
    this.#phase = 'ended'
    published.end(this.id, outcome)
    try {
      tell()
    } catch (error) {
      this.#phase = before
      throw error
    }
    this.#stop = undefined
    this.#unhear()
  }

  #abort(): void {
    const stop = this.#stop
    this.cancel()
    stop?.(this.#signal?.reason)
  }
}
