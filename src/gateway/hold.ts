/**
 * Question: what does a client see while its turn is held?
 *
 * Nothing at first: most holds are short, and an answer whose head is still unsent can say its true
 * status later. Where its dialect is named in `hold.keepAlive`, a client that asked for a stream gets the
 * head of one after `keepAliveAfterMs`, and keep-alives as its dialect has them, so that nothing between it and us takes the silence for a failure.
 * From then on an error can only be an event. A client that waits for one JSON answer just waits.
 *
 * Costs one timer a held stream, unref'd; none for a turn that goes at once.
 */
import type { Hold } from '../index.js'
import type { HoldOptions } from './config.js'
import type { Exchange } from './exchange.js'

/** The answer of one turn while nobody knows whether it will be held. */
class HeldAnswer {
  readonly #exchange: Exchange
  readonly #options: HoldOptions
  #timer: NodeJS.Timeout | undefined

  constructor(exchange: Exchange, options: HoldOptions) {
    this.#exchange = exchange
    this.#options = options
  }

  /** The turn is held, or still held; only the first call counts. */
  held({ stream }: Hold): void {
    const name = this.#exchange.dialect?.name
    if (!stream || name === undefined || !this.#options.keepAlive.includes(name)) return
    this.#timer ??= setTimeout(() => this.#open(), this.#options.keepAliveAfterMs).unref()
  }

  /** The turn is held no longer, whatever came of it. Idempotent. */
  settled(): void {
    clearTimeout(this.#timer)
  }

  #open(): void {
    if (this.#exchange.over || this.#exchange.headSent) return
    this.#exchange.openStream()
    this.#keepAlive()
    this.#timer = setInterval(() => this.#keepAlive(), this.#options.keepAliveEveryMs).unref()
  }

  #keepAlive(): void {
    const { over, res, dialect } = this.#exchange
    // A client that does not read gets no more of them: they would pile up.
    if (!over && !res.writableNeedDrain && dialect) this.#exchange.write(dialect.keepAlive)
  }
}

export { HeldAnswer }
