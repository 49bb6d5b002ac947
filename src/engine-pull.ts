/**
 * Question: which engines have to be asked for their events?
 *
 * Those whose `kvEvents` is an HTTP address. Each is asked for as long as it is one of the scheduler's
 * workers; what it hands out goes to the core as it came. O(workers) whenever the fleet may have changed.
 */
import { EventPuller } from './engines/index.js'
import type { Link } from './link.js'
import { native } from './native.js'

const NO_TEXT = new Uint8Array(0)

export class EnginePull {
  /** What is asked shall not keep a scheduler that everybody forgot. */
  readonly #link: WeakRef<Link>
  readonly #pullers = new Map<number, EventPuller>()

  constructor(link: Link) {
    this.#link = new WeakRef(link)
  }

  /** Asks those that have come; those that have gone say so themselves. */
  look(): void {
    const topology = this.#link.deref()?.topology
    if (topology === undefined) return
    const groups = new Set(topology.targets.map(({ group }) => group))
    const workers = [...groups].flatMap((group) => topology.workersOf(group))
    for (const { index, pulled, headers } of workers) {
      if (pulled === undefined || this.#pullers.has(index)) continue
      const puller = new EventPuller({
        url: pulled,
        headers,
        told: (text) => this.#tell(index, text, ''),
        failed: (why) => this.#tell(index, NO_TEXT, why),
      })
      this.#pullers.set(index, puller)
    }
  }

  close(): void {
    for (const puller of this.#pullers.values()) puller.close()
    this.#pullers.clear()
  }

  #tell(worker: number, text: Uint8Array, failure: string): number | undefined {
    const link = this.#link.deref()
    if (link === undefined || link.closed) return undefined
    let count: number | null = null
    link.call((handle, now, out) => {
      count = native.pulledEvents(handle, now, worker, text, failure, out)
    })
    if (count === null) this.#pullers.delete(worker)
    return count ?? undefined
  }
}
