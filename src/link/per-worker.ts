/**
 * Something that is kept of each worker, for as long as it is one.
 *
 * By its number, not its name: a worker that comes back under the same name is another. O(1), and
 * O(what is kept) after a change of the fleet.
 */
import type { KnownWorker, Topology } from './topology.js'

export class PerWorker<T> {
  readonly #make: () => T
  readonly #kept = new Map<number, T>()
  /** The fleet when it was looked through last. */
  #seen: Topology | undefined

  constructor(make: () => T) {
    this.#make = make
  }

  get size(): number {
    return this.#kept.size
  }

  /** What is kept of one of the topology's workers; made when it is asked for first. */
  of(topology: Topology, { index }: KnownWorker): T {
    if (topology !== this.#seen) this.#forgetOthers(topology)
    const known = this.#kept.get(index) ?? this.#make()
    this.#kept.set(index, known)
    return known
  }

  #forgetOthers(topology: Topology): void {
    this.#seen = topology
    for (const index of this.#kept.keys()) {
      if (!topology.isWorker(index)) this.#kept.delete(index)
    }
  }
}
