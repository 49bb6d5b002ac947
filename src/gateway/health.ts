/**
 * Question: may a worker that failed get turns again?
 *
 * Passive: a worker is looked at only after it failed a request. One that refuses a connection is
 * marked down at once, and what it had cached counts for nothing any more: its process is gone. One
 * whose connection broke is asked once, since a single broken connection says little. While a worker is down it is asked again every `intervalMs` until any answer below
 * 500 comes, and then marked up.
 *
 * A worker that asks to be left alone for a while (a quota) or refuses our credential is limited for
 * that long, and not probed.
 *
 * At most one probe a worker is under way, each bounded by `timeoutMs`; timers are unref'd. It
 * marks up only what it marked down itself: a worker that its owner took out stays out.
 */
import { type Scheduler, WarmpathError } from '../index.js'
import type { HealthOptions } from './config.js'
import { UpstreamFailure } from './failures.js'
import type { Upstream } from './upstream.js'

type Mark = 'up' | 'down' | 'limited'

interface Watch {
  worker: string
  url: string
  mark: Mark
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
    if (this.#closing.signal.aborted || (kind !== 'refused' && kind !== 'lost')) return
    const known = this.#watches.get(worker)
    const watch: Watch = known ?? { worker, url, mark: 'up' }
    // Whoever is limited is known to live.
    if (watch.mark === 'limited') return
    if (kind === 'refused') {
      this.#forget(worker)
      this.#mark(watch, 'down')
    }
    if (known) return
    this.#watches.set(worker, watch)
    if (watch.mark === 'down') this.#again(watch)
    else void this.#probe(watch)
  }

  /** `worker`, which lives at `url`, takes nothing from us for `ms` milliseconds. */
  limited(worker: string, url: string, ms: number): void {
    if (this.#closing.signal.aborted) return
    const watch: Watch = this.#watches.get(worker) ?? { worker, url, mark: 'up' }
    this.#watches.set(worker, watch)
    this.#mark(watch, 'limited')
    clearTimeout(watch.timer)
    watch.timer = setTimeout(() => {
      this.#mark(watch, 'up')
      this.#watches.delete(worker)
    }, ms).unref()
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

  /** Tells the scheduler, unless it knows. */
  #mark(watch: Watch, health: Mark): void {
    if (watch.mark === health) return
    watch.mark = health
    try {
      this.#scheduler.setHealth(watch.worker, health)
    } catch (error) {
      // Removed meanwhile: nothing is left to watch.
      if (!WarmpathError.is(error)) throw error
      this.#watches.delete(watch.worker)
    }
  }

  /** The worker begins with an empty cache when it comes back. */
  #forget(worker: string): void {
    try {
      this.#scheduler.resetCache(worker)
    } catch (error) {
      if (!WarmpathError.is(error)) throw error
    }
  }

  #again(watch: Watch): void {
    watch.timer = setTimeout(() => void this.#probe(watch), this.#options.intervalMs).unref()
  }

  async #probe(watch: Watch): Promise<void> {
    const alive = await this.#answers(watch)
    if (this.#closing.signal.aborted || watch.mark === 'limited') return
    this.#mark(watch, alive ? 'up' : 'down')
    if (alive) this.#watches.delete(watch.worker)
    else if (this.#watches.has(watch.worker)) this.#again(watch)
  }

  async #answers({ worker, url }: Watch): Promise<boolean> {
    const limit = AbortSignal.timeout(this.#options.timeoutMs)
    const signal = AbortSignal.any([limit, this.#closing.signal])
    const request = { url: probeUrl(url, this.#options.path), method: 'GET', headers: {} }
    try {
      const answer = await this.#upstream.call(request, signal)
      answer.drop()
      return answer.status < 500
    } catch (error) {
      if (!(error instanceof UpstreamFailure)) throw error
      if (error.kind === 'refused') this.#forget(worker)
      return false
    }
  }
}

/** Probes go to the root of the worker's origin: engines serve health beside `/v1`, not under it. */
function probeUrl(url: string, path: string): string {
  return new URL(path, new URL(url).origin).href
}

export { HealthWatch }
