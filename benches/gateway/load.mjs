/**
 * Clients: so many streams at once through one address, and how late each event came (nanoseconds from
 * being written by the worker to being read here). Asked by its parent, one load after the other.
 */
import { Agent, request } from 'node:http'

/** Events at both ends of a stream that do not count. */
const EDGE = 5
const AT = /"at":"(\d+)"/g

const BODIES = {
  '/v1/chat/completions': { messages: [{ role: 'user', content: 'Hello' }] },
  '/v1/messages': { max_tokens: 4096, messages: [{ role: 'user', content: 'Hello' }] },
  '/v1/responses': { input: 'Hello' },
}

/**
 * One load. What is told counts from when all streams have begun until the first one is about to end:
 * what a turn costs once is not part of what an event costs.
 */
class Load {
  #counts
  #late = []
  #events = 0
  #pieces = 0
  #state = 'beginning'

  constructor(asked) {
    Object.assign(this, asked)
    this.#counts = new Array(asked.streams).fill(0)
  }

  piece(number, text) {
    const now = process.hrtime.bigint()
    for (const [, at] of text.matchAll(AT)) {
      this.#counts[number] += 1
      if (this.#state !== 'steady') continue
      this.#late.push(Number(now - BigInt(at)))
      this.#events += 1
    }
    if (this.#state === 'steady') this.#pieces += 1
    this.#change(number)
  }

  #change(number) {
    if (this.#state === 'beginning' && Math.min(...this.#counts) >= EDGE) {
      this.#state = 'steady'
      process.send({ kind: 'steady' })
    }
    if (this.#state !== 'steady' || this.#counts[number] < this.tokens - EDGE) return
    this.#state = 'ending'
    this.#late.sort((a, b) => a - b)
    const p50 = this.#late[Math.floor(this.#late.length / 2)]
    const events = this.#events
    process.send({ kind: 'ending', events, p50, eventsAPiece: events / this.#pieces })
  }
}

function stream(load, number) {
  const { url, path, agent } = load
  const body = JSON.stringify({ model: 'm', stream: true, ...BODIES[path] })
  const headers = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    'x-session-id': `session-${number}`,
  }
  return new Promise((resolve, reject) => {
    const req = request(url + path, { method: 'POST', agent, headers }, (res) => {
      if (res.statusCode !== 200) reject(new Error(`status ${res.statusCode}`))
      res.on('data', (piece) => load.piece(number, String(piece)))
      res.on('end', resolve)
      res.on('error', reject)
    })
    req.on('error', reject)
    req.end(body)
  })
}

process.on('message', async (asked) => {
  const load = new Load({ ...asked, agent: new Agent() })
  try {
    await Promise.all(Array.from({ length: asked.streams }, (_, number) => stream(load, number)))
    process.send({ kind: 'over' })
  } catch (error) {
    process.send({ kind: 'over', error: error.message })
  }
})
process.on('disconnect', () => process.exit())
