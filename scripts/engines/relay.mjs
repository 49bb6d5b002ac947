/**
 * What an engine publishes, written down by a subscriber of libzmq, and passed on: a wire that can lose
 * messages on purpose. What was said is read from the messages' own words and shares no code with what is
 * being tested.
 */
import { Publisher, Subscriber } from 'zeromq'

const KINDS = ['BlockStored', 'BlockRemoved', 'AllBlocksCleared']

export class Relay {
  #from = new Subscriber({ receiveHighWaterMark: 0 })
  #to
  #lose = 0
  /**
   * {made, at, kinds: {BlockRemoved: 2, ...}} of each message: when the engine made it and when it came,
   * by the one clock of this machine.
   */
  heard = []
  lost = 0

  static async start(endpoint) {
    const relay = new Relay()
    relay.#to = new Publisher({ sendHighWaterMark: 0 })
    await relay.#to.bind('tcp://127.0.0.1:*')
    relay.endpoint = relay.#to.lastEndpoint
    relay.#from.connect(endpoint)
    relay.#from.subscribe()
    void relay.#pass()
    return relay
  }

  /** The next `messages` do not arrive. */
  lose(messages) {
    this.#lose = messages
  }

  get isLosing() {
    return this.#lose > 0
  }

  /** Messages with something of this kind that were made until one time and came after another. */
  said(kind, { madeUntil, cameAfter }) {
    return this.heard.filter(
      ({ made, at, kinds }) => kinds[kind] > 0 && made <= madeUntil && at >= cameAfter,
    ).length
  }

  /** How many milliseconds after they were made messages have come: the median, the 95th of a hundred, the longest. */
  get lags() {
    const all = this.heard.map(({ made, at }) => Math.max(0, at - made)).sort((a, b) => a - b)
    const quantile = (q) =>
      Math.round(all[Math.min(all.length - 1, Math.floor(q * all.length))] ?? 0)
    return [quantile(0.5), quantile(0.95), quantile(1)]
  }

  async #pass() {
    try {
      for await (const message of this.#from) {
        const text = message.at(-1).toString('latin1')
        const count = (kind) => text.split(kind).length - 1
        const kinds = Object.fromEntries(KINDS.map((kind) => [kind, count(kind)]))
        this.heard.push({ made: madeAt(message.at(-1)), at: Date.now(), kinds })
        if (this.#lose > 0) {
          this.#lose -= 1
          this.lost += 1
        } else await this.#to.send(message)
      }
    } catch {
      // Closed.
    }
  }

  close() {
    this.#from.close()
    this.#to.close()
  }
}

/** A batch is an array that begins with its time: a double, in seconds. */
function madeAt(payload) {
  return payload.readDoubleBE(2) * 1000
}
