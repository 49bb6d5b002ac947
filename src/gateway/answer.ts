/**
 * Question: when has an answer begun, and who takes its body?
 *
 * An answer has begun when its head is there and, where it succeeded, also the first bytes of its
 * body, so that whoever called may still go elsewhere when a worker dies between the two. The body
 * waits until a Taker comes for it and is then pushed piece by piece, without a stream in between:
 * a Taker that has had enough says `pause`, and nothing is read from the worker's socket meanwhile.
 */
import type { IncomingHttpHeaders } from 'node:http'
import type { Dispatcher } from 'undici'
import { failureOf, type UpstreamFailure } from './failures.js'
import type { HeaderList } from './headers.js'

/** Takes a body: pieces, then an end or a failure. */
interface Taker {
  piece(bytes: Uint8Array): void
  end(): void
  failed(failure: UpstreamFailure): void
}

/** An answer that has begun. */
interface UpstreamAnswer {
  readonly status: number
  /** As sent, with lower-case names. */
  readonly headers: HeaderList
  /** Once. What has come already is pushed in this call. */
  passTo(taker: Taker): void
  pause(): void
  resume(): void
  /** Gives the rest of it up. */
  drop(): void
}

interface Call {
  readonly resolve: (answer: UpstreamAnswer) => void
  readonly reject: (error: unknown) => void
  readonly signal: AbortSignal
}

type Controller = Dispatcher.DispatchController

/** How an answer is over, if it is. */
type End = { readonly failure: UpstreamFailure | undefined }

class BegunAnswer implements UpstreamAnswer, Dispatcher.DispatchHandler {
  status = 0
  headers: HeaderList = []
  readonly #call: Call
  readonly #leave: () => void
  #controller: Controller | undefined
  #taker: Taker | undefined
  #waiting: Buffer[] = []
  #paused = false
  #over: End | undefined

  constructor(call: Call) {
    this.#call = call
    this.#leave = () => this.#abort(call.signal.reason)
    if (call.signal.aborted) this.#leave()
    else call.signal.addEventListener('abort', this.#leave, { once: true })
  }

  passTo(taker: Taker): void {
    this.#taker = taker
    for (const piece of this.#waiting) taker.piece(piece)
    this.#waiting = []
    if (this.#over !== undefined) this.#tell(this.#over)
    else if (!this.#paused) this.#controller?.resume()
  }

  pause(): void {
    this.#paused = true
    this.#controller?.pause()
  }

  resume(): void {
    this.#paused = false
    this.#controller?.resume()
  }

  drop(): void {
    this.#abort(new Error('nobody wants the rest'))
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller
    if (this.#over !== undefined) controller.abort(new Error('given up'))
  }

  onResponseStart(_: Controller, status: number, headers: IncomingHttpHeaders): void {
    // Of the informational ones only the last counts.
    if (status < 200) return
    this.status = status
    this.headers = pairsOf(headers)
    if (status >= 300) this.#call.resolve(this)
  }

  onResponseData(controller: Controller, piece: Buffer): void {
    if (this.#taker !== undefined) {
      this.#taker.piece(piece)
      return
    }
    this.#waiting.push(piece)
    controller.pause()
    this.#call.resolve(this)
  }

  onResponseEnd(): void {
    this.#finish({ failure: undefined })
  }

  onResponseError(_: Controller, error: Error): void {
    this.#fail(error)
  }

  #abort(reason: Error): void {
    this.#fail(reason)
    this.#controller?.abort(reason)
  }

  #fail(error: unknown): void {
    if (this.#over !== undefined) return
    try {
      this.#finish({ failure: failureOf(error, this.#call.signal) })
    } catch (fault) {
      this.#over = { failure: undefined }
      this.#call.reject(fault)
    }
  }

  #finish(end: End): void {
    if (this.#over !== undefined) return
    this.#over = end
    this.#call.signal.removeEventListener('abort', this.#leave)
    // Without effect on an answer that has begun.
    if (end.failure !== undefined) this.#call.reject(end.failure)
    else this.#call.resolve(this)
    this.#tell(end)
  }

  #tell({ failure }: End): void {
    if (failure !== undefined) this.#taker?.failed(failure)
    else this.#taker?.end()
  }
}

function pairsOf(headers: IncomingHttpHeaders): HeaderList {
  return Object.entries(headers).flatMap(([name, value]) =>
    [value ?? []].flat().map((one): [string, string] => [name, one]),
  )
}

export { BegunAnswer, type Taker, type UpstreamAnswer }
