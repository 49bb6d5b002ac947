/** An event socket that tells of blocks as vLLM does, in the array form, by names of its own. */
import { hash } from 'node:crypto'
import { type Packable, pack } from './msgpack.js'
import { Engine } from './publisher.js'

export class Teller implements AsyncDisposable {
  readonly #events: Engine
  readonly #blockTokens: number
  readonly #stored = new Set<number>()
  #sequence = 0

  static async start(blockTokens = 16): Promise<Teller> {
    return new Teller(await Engine.start(), blockTokens)
  }

  constructor(events: Engine, blockTokens: number) {
    this.#events = events
    this.#blockTokens = blockTokens
  }

  get kvEvents() {
    const { events: endpoint, replay } = this.#events
    return { endpoint, replay }
  }

  /** The number of the last message. */
  get sequence(): number {
    return this.#sequence - 1
  }

  /** Publishes the blocks of a prompt that were not published yet. */
  async tell(tokens: Uint32Array): Promise<void> {
    const size = this.#blockTokens
    const events: Packable[] = []
    let parent: number | null = null
    for (let at = 0; at + size <= tokens.length; at += size) {
      const block = [...tokens.subarray(at, at + size)]
      const name = nameOf(parent, block)
      if (!this.#stored.has(name)) {
        events.push(['BlockStored', [name], parent, block, size, null, 'GPU'])
      }
      this.#stored.add(name)
      parent = name
    }
    await this.#send(events)
  }

  /** Everything is gone, and said to be. */
  async clear(): Promise<void> {
    this.#stored.clear()
    await this.#send([['AllBlocksCleared']])
  }

  async #send(events: Packable[]): Promise<void> {
    const sequence = Buffer.alloc(8)
    sequence.writeBigUInt64BE(BigInt(this.#sequence++))
    await this.#events.send([Buffer.alloc(0), sequence, pack([1.5, events, 0])])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#events[Symbol.asyncDispose]()
  }
}

/** A name that vouches for all before it, of 48 bits. */
function nameOf(parent: number | null, block: readonly number[]): number {
  return Number.parseInt(hash('sha256', `${parent} ${block.join()}`).slice(0, 12), 16)
}
