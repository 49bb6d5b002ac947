/**
 * The clients of a soak: each has a stream at any time. One in ten leaves inside it, after half a minute
 * at most, and comes back; one in a hundred reads slower than it is written to; all others read what
 * comes. All of them leave together.
 */
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

const LEAVES_EVERY = 10
const LEAVES_WITHIN_MS = 30_000
const SLOW_EVERY = 100
/** A slow reader takes a piece (at most 64 KiB) in this time, and gets so many times as many events. */
const SLOW_MS = 4_000
const SLOW_TIMES = 2_000
/** While they become more, so many wait for an answer to begin. */
const PENDING = 200
const TELL_MS = 5_000

export class Clients {
  /** What has come of all streams so far. */
  seen = { leftInside: 0, broken: 0, refused: 0, slow: 0, status: {} }
  /** Streams whose answer has begun. */
  live = 0
  #asked = 0
  #url
  #count
  #open = new Set()
  /** Those that their clients have given up. */
  #left = new WeakSet()
  #stopping = false
  #agent = new Agent({ keepAlive: true, maxFreeSockets: Number.POSITIVE_INFINITY })
  #places = []

  constructor(url, count) {
    this.#url = url
    this.#count = count
  }

  /** Until all have a stream; `tell` hears now and then how many do. */
  async come(tell) {
    let told = Date.now()
    for (let place = 0; place < this.#count || this.#asked > this.live; ) {
      if (place < this.#count && this.#asked - this.live < PENDING) {
        this.#places.push(this.#keepBusy(place))
        place += 1
        continue
      }
      await sleep(20)
      if (Date.now() - told < TELL_MS) continue
      told = Date.now()
      tell(this.live)
    }
  }

  /** Until none has one. */
  async leave() {
    this.#stopping = true
    for (const req of this.#open) this.#leave(req)
    await Promise.all(this.#places)
    this.#agent.destroy()
  }

  async #keepBusy(place) {
    if (isSlow(place)) this.seen.slow += 1
    while (!this.#stopping) await this.#stream(place)
  }

  #stream(place) {
    const headers = { 'content-type': 'application/json', 'x-session-id': `session-${place}` }
    const options = { method: 'POST', agent: this.#agent, headers }
    const req = request(`${this.#url}/v1/chat/completions`, options)
    this.#open.add(req)
    this.#asked += 1
    const leaving =
      place % LEAVES_EVERY === 0
        ? setTimeout(() => this.#leave(req), Math.random() * LEAVES_WITHIN_MS)
        : undefined
    let begun = 0
    req.once('response', (res) => {
      begun = 1
      this.live += 1
      this.#answered(res, place)
    })
    req.on('error', () => {})
    req.end(JSON.stringify(bodyOf(place)))
    return new Promise((over) => {
      req.once('close', () => {
        clearTimeout(leaving)
        this.#open.delete(req)
        this.#asked -= 1
        this.live -= begun
        if (!this.#left.has(req)) this.seen.broken += 1
        else if (!this.#stopping) this.seen.leftInside += 1
        over()
      })
    })
  }

  #leave(req) {
    this.#left.add(req)
    req.destroy()
  }

  #answered(res, place) {
    const { status } = this.seen
    status[res.statusCode] = (status[res.statusCode] ?? 0) + 1
    res.on('error', () => {})
    if (res.statusCode !== 200) {
      this.seen.refused += 1
      res.on('data', (piece) => process.stderr.write(`${res.statusCode}: ${piece}\n`))
      return
    }
    if (!isSlow(place)) return res.resume()
    res.on('data', () => {
      res.pause()
      setTimeout(() => res.resume(), SLOW_MS)
    })
  }
}

/** Not those that leave. */
function isSlow(place) {
  return place % SLOW_EVERY === 1
}

function bodyOf(place) {
  return {
    model: 'm',
    stream: true,
    ...(isSlow(place) && { times: SLOW_TIMES }),
    messages: [{ role: 'user', content: `${place} ${'a long context '.repeat(40)}` }],
  }
}
