/**
 * Question: do the shared stores themselves agree with what their events have told?
 *
 * Those that have an address are asked, beside the turns and never on their way; what comes of it goes to
 * the core, which doubts, or takes back what is gone. O(pools) whenever the configuration has changed.
 */
import type { Logger, PoolEntry } from './config/index.js'
import { type MasterFound, MasterWatch } from './engines/index.js'
import { type MasterStatus, poolNumber } from './link/report.js'
import type { Link } from './link.js'
import { native } from './native.js'

interface Watched {
  readonly url: string
  readonly watch: MasterWatch
  status: MasterStatus
}

const UNKNOWN: MasterStatus = {
  publishes: null,
  asked: 0,
  gone: 0,
  at: null,
  failures: 0,
  lastError: null,
}

export class PoolWatch {
  /** What is asked shall not keep a scheduler that everybody forgot. */
  readonly #link: WeakRef<Link>
  readonly #logger: Logger | undefined
  /** By the pool's name. */
  readonly #watched = new Map<string, Watched>()

  constructor(link: Link, logger: Logger | undefined) {
    this.#link = new WeakRef(link)
    this.#logger = logger
  }

  /** Goes over to these pools. */
  look(pools: readonly PoolEntry[]): void {
    const urls = new Map(pools.flatMap(({ name, http }) => (http ? [[name, http] as const] : [])))
    for (const [name, { url, watch }] of this.#watched) {
      if (urls.get(name) === url) continue
      watch.close()
      this.#watched.delete(name)
    }
    for (const [name, url] of urls) {
      if (!this.#watched.has(name)) this.#watched.set(name, this.#watch(name, url))
    }
  }

  /** Undefined for a pool that nobody asks. */
  statusOf(name: string): MasterStatus | undefined {
    return this.#watched.get(name)?.status
  }

  close(): void {
    for (const { watch } of this.#watched.values()) watch.close()
    this.#watched.clear()
  }

  #watch(name: string, url: string): Watched {
    const watch = new MasterWatch({
      url,
      sample: (most) => this.#sample(name, most),
      told: (found) => this.#told(name, found),
      failed: (why) => this.#failed(name, why),
    })
    return { url, watch, status: UNKNOWN }
  }

  #sample(name: string, most: number): readonly string[] {
    const link = this.#open()
    const pool = link && poolNumber(link, name)
    if (link === undefined || pool === undefined) return []
    return link.read((handle) => native.poolSample(handle, pool, most)) ?? []
  }

  #told(name: string, { publishes, asked, gone }: MasterFound): void {
    const watched = this.#watched.get(name)
    const link = this.#open()
    if (watched === undefined || link === undefined) return
    const before = watched.status
    watched.status = {
      publishes,
      asked: before.asked + asked,
      gone: before.gone + gone.length,
      at: Date.now(),
      failures: 0,
      lastError: null,
    }
    const pool = poolNumber(link, name)
    if (pool === undefined) return
    link.call((handle, now, out) =>
      native.poolTold(handle, now, pool, publishes, asked, [...gone], out),
    )
    if (!publishes && before.publishes !== false) {
      this.#logger?.warn({ pool: name }, 'the store publishes no events: it earns nothing')
    }
  }

  #failed(name: string, lastError: string): void {
    const watched = this.#watched.get(name)
    if (watched === undefined) return
    watched.status = { ...watched.status, failures: watched.status.failures + 1, lastError }
  }

  #open(): Link | undefined {
    const link = this.#link.deref()
    if (link === undefined) this.close()
    return link?.closed ? undefined : link
  }
}
