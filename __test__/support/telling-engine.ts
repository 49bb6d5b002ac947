/**
 * The engine double with an event socket. Answers are heard on their way, so that the tokens are those that
 * the double has made.
 */
import {
  type EngineDouble,
  type EngineDoubleOptions,
  startEngineDouble,
} from '../../src/testing/index.js'
import { Teller } from './teller.js'

export class TellingEngine implements AsyncDisposable {
  readonly double: EngineDouble
  readonly #teller: Teller
  /** What the double said of each prompt, the last one last. */
  readonly prompts: Uint32Array[] = []

  static async start(options: EngineDoubleOptions = {}): Promise<TellingEngine> {
    const [double, teller] = await Promise.all([startEngineDouble(options), Teller.start()])
    return new TellingEngine(double, teller)
  }

  constructor(double: EngineDouble, teller: Teller) {
    this.double = double
    this.#teller = teller
  }

  get worker() {
    return { url: this.double.url, kvEvents: this.#teller.kvEvents }
  }

  get sequence(): number {
    return this.#teller.sequence
  }

  /** Remembers what an answer says of its prompt. */
  async hear(answer: Response): Promise<void> {
    const text = await answer.text()
    const [, list] = /"prompt_token_ids":\[([\d,]*)\]/.exec(text) ?? []
    if (list !== undefined) this.prompts.push(Uint32Array.from(list.split(',').map(Number)))
  }

  /** Publishes what it has computed of the last prompt, or of another one. */
  tell(tokens = this.prompts.at(-1) ?? new Uint32Array(0)): Promise<void> {
    return this.#teller.tell(tokens)
  }

  clear(): Promise<void> {
    return this.#teller.clear()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#teller[Symbol.asyncDispose]()
    await this.double.close()
  }
}
