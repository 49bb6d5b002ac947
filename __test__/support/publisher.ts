/** An engine's event sockets: libzmq's publisher and replay socket. */
import { Publisher, Router } from 'zeromq'

type Message = readonly Buffer[]

const END = Buffer.alloc(8, 0xff)

/** Publishes recorded messages and repeats those that are asked for, as vLLM does. */
class Engine implements AsyncDisposable {
  readonly #publisher = new Publisher()
  readonly #router = new Router()
  readonly #sent: Message[] = []
  events = ''
  replay = ''

  /** At free ports, or where another one was before. */
  static async start(at: string[] = ['tcp://127.0.0.1:*', 'tcp://127.0.0.1:*']): Promise<Engine> {
    const engine = new Engine()
    await engine.#publisher.bind(at[0] ?? '')
    await engine.#router.bind(at[1] ?? '')
    engine.events = engine.#publisher.lastEndpoint ?? ''
    engine.replay = engine.#router.lastEndpoint ?? ''
    // Who asks while it is closed is not answered.
    engine.#answer().catch(() => undefined)
    return engine
  }

  /** `lost`: as if the subscriber had been too slow for it. */
  async send(message: Message, lost = false): Promise<void> {
    this.#sent.push(message)
    if (!lost) await this.#publisher.send([...message])
  }

  async #answer(): Promise<void> {
    for await (const [id, , from] of this.#router) {
      if (id === undefined || from === undefined) continue
      const first = from.readBigUInt64BE()
      for (const message of this.#sent) {
        const [topic, sequence, payload] = message
        if (topic === undefined || sequence === undefined || payload === undefined) continue
        if (sequence.readBigUInt64BE() < first) continue
        await this.#router.send([id, Buffer.alloc(0), topic, sequence, payload])
      }
      await this.#router.send([id, Buffer.alloc(0), Buffer.alloc(0), END, Buffer.alloc(0)])
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#publisher.close()
    this.#router.close()
  }
}

export { Engine, type Message }
