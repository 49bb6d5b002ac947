/**
 * The engine double with an event socket: what it has computed of a prompt is published as vLLM would,
 * in the array form, with names of its own. Answers are heard on their way, so that the tokens are those
 * that the double has made.
 */
import { hash } from 'node:crypto'
import {
  type EngineDouble,
  type EngineDoubleOptions,
  startEngineDouble,
} from '../../src/testing/index.js'
import { type Packable, pack } from './msgpack.js'
import { Engine } from './publisher.js'

const BLOCK = 16

export class TellingEngine implements AsyncDisposable {
  readonly double: EngineDouble
  readonly #events: Engine
  readonly #stored = new Set<number>()
  #sequence = 0
  /** What the double said of each prompt, the last one last. */
  readonly prompts: Uint32Array[] = []

  static async start(options: EngineDoubleOptions = {}): Promise<TellingEngine> {
    const [double, events] = await Promise.all([startEngineDouble(options), Engine.start()])
    return new TellingEngine(double, events)
  }

  constructor(double: EngineDouble, events: Engine) {
    this.double = double
    this.#events = events
  }

  get worker() {
    const { events: endpoint, replay } = this.#events
    return { url: this.double.url, kvEvents: { endpoint, replay } }
  }

  /** The number of the last message. */
  get sequence(): number {
    return this.#sequence - 1
  }

  /** Remembers what an answer says of its prompt. */
  async hear(answer: Response): Promise<void> {
    const text = await answer.text()
    const [, list] = /"prompt_token_ids":\[([\d,]*)\]/.exec(text) ?? []
    if (list !== undefined) this.prompts.push(Uint32Array.from(list.split(',').map(Number)))
  }

  /** Publishes the blocks of the last prompt that were not published yet. */
  async tell(tokens = this.prompts.at(-1) ?? new Uint32Array(0)): Promise<void> {
    const events: Packable[] = []
    let parent: number | null = null
    for (let at = 0; at + BLOCK <= tokens.length; at += BLOCK) {
      const block = [...tokens.subarray(at, at + BLOCK)]
      const name = nameOf(parent, block)
      if (!this.#stored.has(name)) {
        events.push(['BlockStored', [name], parent, block, BLOCK, null, 'GPU'])
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
    await this.double.close()
  }
}

/** A name that vouches for all before it, of 48 bits. */
function nameOf(parent: number | null, block: readonly number[]): number {
  return Number.parseInt(hash('sha256', `${parent} ${block.join()}`).slice(0, 12), 16)
}
