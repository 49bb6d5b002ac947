/**
 * Question: what do the engines' metrics say, every few seconds?
 *
 * One request at a time and engine, each bounded in time and size. Engines are asked at times of their
 * own, so that a fleet is not asked at once; one that does not answer is asked ever less often. TensorRT-LLM
 * has its metrics elsewhere, which is found out. Knows no scheduler. Keeps no process alive.
 */
import { boundedText, causeOf } from './answer.js'
import { type EngineMetrics, readMetrics } from './metrics.js'

export interface Polled {
  /** Of this engine for as long as it is one. */
  readonly key: number
  /** Base address. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

export interface PollerOptions {
  readonly intervalMs: number
  readonly timeoutMs: number
  /** Those to be asked; read again every interval. */
  readonly engines: () => Iterable<Polled>
  /** Called before one is asked, for what has to be compared with the answer. */
  readonly asks: (key: number) => void
  /** What it said, or why there is nothing. */
  readonly answered: (key: number, found: EngineMetrics | string) => void
}

interface Watched {
  polled: Polled
  path: number
  failures: number
  timer: NodeJS.Timeout | undefined
}

const PATHS = ['/metrics', '/prometheus/metrics'] as const
/** Share of the interval by which two engines may be apart. */
const JITTER = 0.2
const LONGEST_PAUSE_MS = 60_000
/** No engine's metrics are longer. */
const MAX_TEXT = 8 << 20

export class MetricsPoller {
  readonly #options: PollerOptions
  readonly #watched = new Map<number, Watched>()
  readonly #closing = new AbortController()
  readonly #timer: NodeJS.Timeout

  constructor(options: PollerOptions) {
    this.#options = options
    this.#timer = setInterval(() => this.#look(), options.intervalMs).unref()
    // A scheduler is asked about its workers when it is whole.
    setImmediate(() => this.#look()).unref()
  }

  close(): void {
    this.#closing.abort()
    clearInterval(this.#timer)
    for (const { timer } of this.#watched.values()) clearTimeout(timer)
    this.#watched.clear()
  }

  /** Finds out who has come and who has gone. */
  #look(): void {
    if (this.#closing.signal.aborted) return
    const present = new Map([...this.#options.engines()].map((engine) => [engine.key, engine]))
    for (const [key, { timer }] of this.#watched) {
      if (present.has(key)) continue
      clearTimeout(timer)
      this.#watched.delete(key)
    }
    for (const [key, polled] of present) {
      const known = this.#watched.get(key)
      if (known !== undefined) known.polled = polled
      else {
        const watched = { polled, path: 0, failures: 0, timer: undefined }
        this.#watched.set(key, watched)
        void this.#ask(watched)
      }
    }
  }

  async #ask(watched: Watched): Promise<void> {
    const { key } = watched.polled
    this.#options.asks(key)
    const found = await this.#metricsOf(watched)
    if (this.#watched.get(key) !== watched || this.#closing.signal.aborted) return
    watched.failures = typeof found === 'string' ? watched.failures + 1 : 0
    this.#tell(key, found)
    watched.timer = setTimeout(() => void this.#ask(watched), this.#pause(watched)).unref()
  }

  /** Runs from a timer: what goes wrong with one engine is that engine's, and nobody is there to catch it. */
  #tell(key: number, found: EngineMetrics | string): void {
    try {
      this.#options.answered(key, found)
    } catch (error) {
      if (typeof found !== 'string') this.#tell(key, causeOf(error as Error))
    }
  }

  #pause({ failures }: Watched): number {
    const { intervalMs } = this.#options
    const pause = intervalMs * 2 ** Math.min(failures, 16)
    const bounded = Math.min(pause, Math.max(LONGEST_PAUSE_MS, intervalMs))
    return bounded * (1 + JITTER * (Math.random() - 0.5))
  }

  async #metricsOf(watched: Watched): Promise<EngineMetrics | string> {
    const path = PATHS[watched.path % PATHS.length] ?? PATHS[0]
    const url = watched.polled.url.replace(/\/+(v\d+\/*)?$/, '') + path
    const answer = await this.#get(url, watched.polled.headers)
    if (answer.text !== undefined) {
      const metrics = readMetrics(answer.text)
      if (metrics !== undefined) return metrics
    }
    // Nothing that is known here: it may be in the other place.
    if (answer.isThere) watched.path += 1
    return answer.error ?? 'no metrics of an engine'
  }

  async #get(url: string, headers: Readonly<Record<string, string>>) {
    const { timeoutMs } = this.#options
    const ender = new AbortController()
    const end = () => ender.abort()
    const timer = setTimeout(end, timeoutMs).unref()
    this.#closing.signal.addEventListener('abort', end, { once: true })
    try {
      // Its headers are for this address and no other.
      const response = await fetch(url, { headers, signal: ender.signal, redirect: 'manual' })
      const text = await boundedText(response, MAX_TEXT)
      if (response.ok) return { isThere: true, text }
      return { isThere: response.status === 404, error: `status ${response.status}` }
    } catch (error) {
      const isLate = ender.signal.aborted
      return { isThere: false, error: isLate ? 'no answer in time' : causeOf(error as Error) }
    } finally {
      clearTimeout(timer)
      this.#closing.signal.removeEventListener('abort', end)
    }
  }
}
