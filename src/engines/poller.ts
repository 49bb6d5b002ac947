/**
 * Question: what do the engines' metrics say, every few seconds?
 *
 * One request at a time and engine, each bounded in time and size. Engines are asked at times of their
 * own, so that a fleet is not asked at once; one that does not answer is asked ever less often. TensorRT-LLM
 * has its metrics elsewhere, which is found out. Knows no scheduler. Keeps no process alive.
 */
import { type Answer, askedText, causeOf } from './answer.js'
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

/** TensorRT-LLM has its metrics at the second one. */
export const METRICS_PATHS = ['/metrics', '/prometheus/metrics'] as const
/** Share of the interval by which two engines may be apart. */
const JITTER = 0.2
const LONGEST_PAUSE_MS = 60_000
/** No engine's metrics are longer. */
export const LONGEST_METRICS = 8 << 20

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
    const path = METRICS_PATHS[watched.path % METRICS_PATHS.length] ?? METRICS_PATHS[0]
    const answer = await this.#get(baseOf(watched.polled.url) + path, watched.polled.headers)
    if (answer.text !== undefined) {
      const metrics = readMetrics(answer.text)
      if (metrics !== undefined) return metrics
    }
    // Nothing that is known here: it may be in the other place.
    if (answer.text !== undefined || answer.status === 404) watched.path += 1
    return answer.error ?? 'no metrics of an engine'
  }

  #get(url: string, headers: Readonly<Record<string, string>>): Promise<Answer> {
    const { timeoutMs } = this.#options
    const { signal } = this.#closing
    return askedText(url, { timeoutMs, mostChars: LONGEST_METRICS, signal, headers })
  }
}

/** Where an engine has what is beside its API: the address of a worker may name a version of that. */
export function baseOf(url: string): string {
  return url.replace(/\/+(v\d+\/*)?$/, '')
}
