/**
 * Question: may a worker that failed get turns again?
 *
 * Passive: a worker is looked at only after it failed a request. One that refuses a connection is
 * marked down at once, and what it had cached counts for nothing any more: its process is gone. One
 * whose connection broke is asked once, since a single broken connection says little. While a worker is
 * down it is asked again every `intervalMs` until any answer below 500 comes, and then marked up.
 *
 * A worker that asks to be left alone for a while (a quota) or refuses our credential is limited for
 * that long, and not probed.
 *
 * At most one probe a worker is under way, each bounded by `timeoutMs`; timers are unref'd. It
 * marks up only what it marked down itself: a worker that its owner took out stays out. What happens at
 * an address that a worker has no more says nothing of it.
 */
import type { Scheduler } from '../index.js'
import type { HealthOptions } from './config.js'
import { UpstreamFailure } from './failures.js'
import type { Upstream } from './upstream.js'

type Mark = 'up' | 'down' | 'limited'

interface Watch {
  worker: string
  url: string
  mark: Mark
  /** When it ends, where it is limited; as `performance.now` tells it. */
  until?: number
  timer?: NodeJS.Timeout
}

/** The watches of one gateway; `close` ends them all. */
class HealthWatch {
  readonly #scheduler: Scheduler
  readonly #upstream: Upstream
  readonly #options: HealthOptions
  readonly #watches = new Map<string, Watch>()
  readonly #closing = new AbortController()

  constructor(scheduler: Scheduler, upstream: Upstream, options: HealthOptions) {
    this.#scheduler = scheduler
    this.#upstream = upstream
    this.#options = options
  }

  /** A request to `worker`, which lives at `url`, failed like this. */
  failed(worker: string, url: string, failure: UpstreamFailure): void {
    const { kind } = failure
    if ((kind !== 'refused' && kind !== 'lost') || !this.#isAt(worker, url)) return
    const known = this.#watchOf(worker)
    const watch: Watch = known ?? { worker, url, mark: 'up' }
    // Whoever is limited is known to live.
    if (watch.mark === 'limited') return
    if (kind === 'refused') {
      this.#forget(watch)
      this.#mark(watch, 'down')
    }
    if (known) return
    this.#watches.set(worker, watch)
    if (watch.mark === 'down') this.#again(watch)
    else void this.#probe(watch)
  }

  /** `worker`, which lives at `url`, takes nothing from us for `ms` milliseconds. */
  limited(worker: string, url: string, ms: number): void {
    if (!this.#isAt(worker, url)) return
    const watch: Watch = this.#watchOf(worker) ?? { worker, url, mark: 'up' }
    this.#watches.set(worker, watch)
    this.#mark(watch, 'limited')
    watch.until = performance.now() + ms
    clearTimeout(watch.timer)
    watch.timer = setTimeout(() => {
      this.#mark(watch, 'up')
      this.#watches.delete(worker)
    }, ms).unref()
  }

  /** Until the first of those that are limited comes back, in milliseconds; undefined when none is. */
  get limitedForMs(): number | undefined {
    const ends = [...this.#watches.values()].filter(({ mark }) => mark === 'limited')
    const until = Math.min(...ends.map(({ until }) => until ?? Number.POSITIVE_INFINITY))
    return Number.isFinite(until) ? Math.max(0, until - performance.now()) : undefined
  }

  /** Nobody is limited any more. */
  pardon(): void {
    for (const [worker, watch] of this.#watches) {
      if (watch.mark !== 'limited') continue
      clearTimeout(watch.timer)
      this.#mark(watch, 'up')
      this.#watches.delete(worker)
    }
  }

  /** Ends all probes; nothing is marked any more. */
  close(): void {
    this.#closing.abort()
    for (const { timer } of this.#watches.values()) clearTimeout(timer)
    this.#watches.clear()
  }

  /** Whether that is the worker's address; false for all once closed. */
  #isAt(worker: string, url: string): boolean {
    const base = this.#scheduler.workerUrl(worker)
    return !this.#closing.signal.aborted && base !== undefined && `${url}/`.startsWith(`${base}/`)
  }

  /** The watch of a worker where it is now. */
  #watchOf(worker: string): Watch | undefined {
    const watch = this.#watches.get(worker)
    if (watch === undefined || this.#isAt(worker, watch.url)) return watch
    clearTimeout(watch.timer)
    this.#watches.delete(worker)
    return undefined
  }

  /** Tells the scheduler, unless it knows. */
  #mark(watch: Watch, health: Mark): void {
    if (watch.mark === health) return
    watch.mark = health
    if (this.#isAt(watch.worker, watch.url)) this.#scheduler.setHealth(watch.worker, health)
    else if (this.#watches.get(watch.worker) === watch) this.#watches.delete(watch.worker)
  }

  /** The worker begins with an empty cache when it comes back. */
  #forget({ worker, url }: Watch): void {
    if (this.#isAt(worker, url)) this.#scheduler.resetCache(worker)
  }

  #again(watch: Watch): void {
    watch.timer = setTimeout(() => void this.#probe(watch), this.#options.intervalMs).unref()
  }

  async #probe(watch: Watch): Promise<void> {
    const alive = await this.#answers(watch)
    if (this.#closing.signal.aborted || watch.mark === 'limited') return
    this.#mark(watch, alive ? 'up' : 'down')
    if (this.#watches.get(watch.worker) !== watch) return
    if (alive) this.#watches.delete(watch.worker)
    else this.#again(watch)
  }

  async #answers(watch: Watch): Promise<boolean> {
    const limit = AbortSignal.timeout(this.#options.timeoutMs)
    const signal = AbortSignal.any([limit, this.#closing.signal])
    const request = { url: probeUrl(watch.url, this.#options.path), method: 'GET', headers: {} }
    try {
      const answer = await this.#upstream.call(request, signal)
      answer.drop()
      return answer.status < 500
    } catch (error) {
      if (!(error instanceof UpstreamFailure)) throw error
      if (error.kind === 'refused') this.#forget(watch)
      return false
    }
  }
}

/** Probes go to the root of the worker's origin: engines serve health beside `/v1`, not under it. */
function probeUrl(url: string, path: string): string {
  return new URL(path, new URL(url).origin).href
}

export { HealthWatch }
