/**
 * Question: what has an engine to hand out that has to be asked for?
 *
 * TensorRT-LLM's events come once, to whoever asks first: nobody else should. One request at a time and
 * engine, often while something comes, seldom while nothing does, ever less often while it does not answer.
 * Knows no scheduler and no event. Keeps no process alive.
 */
import { causeOf } from './answer.js'

export interface PullerOptions {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Returns how many events were of use; undefined when nobody wants them any more. */
  readonly told: (text: Uint8Array) => number | undefined
  readonly failed: (why: string) => void
}

/** While something comes. */
const BUSY_MS = 20
const IDLE_MS = 200
const LONGEST_PAUSE_MS = 5_000
const TIMEOUT_MS = 5_000
/** No engine hands out more at once. */
const MAX_BYTES = 64 << 20

export class EventPuller {
  readonly #options: PullerOptions
  readonly #closing = new AbortController()
  #failures = 0
  #timer: NodeJS.Timeout | undefined

  constructor(options: PullerOptions) {
    this.#options = options
    this.#timer = setTimeout(() => void this.#ask(), 0).unref()
  }

  close(): void {
    this.#closing.abort()
    clearTimeout(this.#timer)
  }

  async #ask(): Promise<void> {
    const found = await this.#get()
    if (this.#closing.signal.aborted) return
    let pause = IDLE_MS
    if (typeof found === 'string') {
      this.#options.failed(found)
      pause = Math.min(IDLE_MS * 2 ** this.#failures, LONGEST_PAUSE_MS)
      this.#failures += 1
    } else {
      this.#failures = 0
      const count = this.#options.told(found)
      if (count === undefined) return this.close()
      if (count > 0) pause = BUSY_MS
    }
    this.#timer = setTimeout(() => void this.#ask(), pause).unref()
  }

  async #get(): Promise<Uint8Array | string> {
    const ender = new AbortController()
    const end = () => ender.abort()
    const timer = setTimeout(end, TIMEOUT_MS).unref()
    this.#closing.signal.addEventListener('abort', end, { once: true })
    const { url, headers } = this.#options
    try {
      const { signal } = ender
      const response = await fetch(url, { method: 'POST', headers, signal, redirect: 'manual' })
      const pieces: Uint8Array[] = []
      let length = 0
      for await (const piece of response.body ?? []) {
        pieces.push(piece)
        length += piece.length
        if (length > MAX_BYTES) throw new RangeError('too long to be events')
      }
      return response.ok ? new Uint8Array(Buffer.concat(pieces)) : `status ${response.status}`
    } catch (error) {
      return ender.signal.aborted ? 'no answer in time' : causeOf(error as Error)
    } finally {
      clearTimeout(timer)
      this.#closing.signal.removeEventListener('abort', end)
    }
  }
}
