/**
 * Question: who is asked beside the turns, and what have they said?
 *
 * Engines for their load and for events that they hand out, stores for what they have. All of them hold the
 * scheduler weakly, and none keeps the process alive.
 */
import type { PoolEntry, ResolvedConfig } from '../config/index.js'
import { EngineLoad } from '../engine-load.js'
import { EnginePull } from '../engine-pull.js'
import { type Status, statusOf } from '../link/report.js'
import type { Link } from '../link.js'
import { PoolWatch } from '../pool-watch.js'

export class Watchers {
  readonly #link: Link
  readonly #load: EngineLoad | undefined
  readonly #pull: EnginePull
  readonly #pools: PoolWatch

  constructor(link: Link, { metrics, pools, logger }: ResolvedConfig) {
    this.#link = link
    this.#pull = new EnginePull(link)
    this.#pools = new PoolWatch(link, logger)
    this.#pull.look()
    this.#pools.look(pools)
    this.#load = metrics && new EngineLoad(link, metrics, logger)
  }

  /** Workers may have come or gone. */
  look(): void {
    this.#pull.look()
  }

  /** The same, and these are the stores from now on. */
  goOver(pools: readonly PoolEntry[]): void {
    this.#pull.look()
    this.#pools.look(pools)
  }

  /** What the core says of itself, with what those who were asked have said. O(fleet). */
  status(): Status {
    const core = statusOf(this.#link)
    const load = this.#load
    const workers =
      load && core.workers.map((each) => ({ ...each, engine: load.statusOf(each.id) ?? null }))
    const pools = core.pools.map((each) => ({
      ...each,
      master: this.#pools.statusOf(each.id) ?? null,
    }))
    return { ...core, workers: workers ?? core.workers, pools }
  }

  close(): void {
    this.#load?.close()
    this.#pull.close()
    this.#pools.close()
  }
}
