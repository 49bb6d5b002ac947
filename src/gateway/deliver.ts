/**
 * Question: how does a worker's answer reach a client that may be slower, or leave?
 *
 * Bytes pass as they come. When the client's connection is full the worker is not read, so a slow
 * client slows the worker down and nothing piles up here. A client that takes nothing for
 * `clientIdleMs` counts as gone: it would hold room on a worker for ever.
 *
 * It does not look into the bytes; that is the business of the watch that a turn's answer goes
 * through, which also ends the reservation. When the client goes, the exchange's signal gives the
 * answer up.
 */
import type { Taker, UpstreamAnswer } from './answer.js'
import type { Exchange } from './exchange.js'
import type { UpstreamFailure } from './failures.js'
import { isEventStream, passedHeaders } from './headers.js'

/** What reads an answer on its way: an AnswerWatch. */
interface Through {
  /** Whether what it gives back may have another length than what it is told. */
  readonly rewrites: boolean
  /** Whether the answer has told its end. */
  readonly isOver: boolean
  push(piece: Uint8Array): Uint8Array
  end(): Uint8Array
  fail(): void
}

/** Reads nothing and changes nothing. */
const UNREAD: Through = {
  rewrites: false,
  isOver: false,
  push: (piece) => piece,
  end: () => new Uint8Array(0),
  fail: () => {},
}

interface Delivery {
  readonly answer: UpstreamAnswer
  /** Default: it passes unread. */
  readonly through?: Through | undefined
  readonly clientIdleMs: number
}

/** Sends head and body. Rejects with why the body broke, or why the exchange was given up. */
async function deliver(exchange: Exchange, delivery: Delivery): Promise<void> {
  const { answer, through } = delivery
  try {
    exchange.head(answer.status, passedHeaders(answer.headers, through?.rewrites ?? false))
  } catch (error) {
    answer.drop()
    throw error
  }
  if (isEventStream(answer.headers)) exchange.beginStream()
  await pump(exchange, delivery)
  exchange.end()
}

/** The body only, into an answer whose head was sent while the turn was held. */
function pump(exchange: Exchange, delivery: Delivery): Promise<void> {
  return new Promise((resolve, reject) => {
    delivery.answer.passTo(new Pump(exchange, delivery, { resolve, reject }))
  })
}

interface Settled {
  resolve(): void
  reject(error: unknown): void
}

class Pump implements Taker {
  readonly #exchange: Exchange
  readonly #answer: UpstreamAnswer
  readonly #through: Through
  readonly #clientIdleMs: number
  readonly #settled: Settled
  #full = false

  constructor(exchange: Exchange, delivery: Delivery, settled: Settled) {
    this.#exchange = exchange
    this.#answer = delivery.answer
    this.#through = delivery.through ?? UNREAD
    this.#clientIdleMs = delivery.clientIdleMs
    this.#settled = settled
  }

  piece(bytes: Uint8Array): void {
    this.#write(this.#through.push(bytes))
  }

  end(): void {
    this.#write(this.#through.end())
    this.#settled.resolve()
  }

  failed(failure: UpstreamFailure): void {
    const { signal } = this.#exchange
    if (this.#through.isOver && !signal.aborted) this.end()
    else {
      this.#through.fail()
      this.#settled.reject(signal.aborted ? signal.reason : failure)
    }
  }

  #write(bytes: Uint8Array): void {
    if (bytes.length > 0 && !this.#exchange.write(bytes) && !this.#full) this.#wait()
  }

  /** Until the client has taken what was written, or has gone. */
  #wait(): void {
    const { res } = this.#exchange
    this.#full = true
    this.#answer.pause()
    const idle = setTimeout(() => res.destroy(), this.#clientIdleMs)
    const goOn = () => {
      clearTimeout(idle)
      res.off('drain', goOn)
      res.off('close', goOn)
      this.#full = false
      this.#answer.resume()
    }
    res.once('drain', goOn)
    res.once('close', goOn)
  }
}

export { deliver, pump }
