/**
 * What would the usual load balancers have done?
 *
 * A plain proxy in front of the same engines that differs from Warmpath's gateway in its decision
 * only: it takes the next worker in turn (round robin), or the one with the fewest requests in
 * flight (least loaded; ties go in turn). It does not look into bodies, holds nothing and streams
 * both ways, so it costs less time than any gateway that reads its requests: the comparison is not
 * tilted against it.
 *
 * A client that goes away ends its upstream request; an upstream that fails is a 502, or cuts the
 * answer when that has begun. No retries.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pipeline } from 'node:stream/promises'
import { Agent, type Dispatcher } from 'undici'

type BaselineName = 'round-robin' | 'least-loaded'

/** Picks a worker by its index. */
type Picker = (inFlight: readonly number[]) => number

interface Baseline {
  url: string
  /** Requests in flight, all workers. */
  inFlight(): number
  close(): Promise<void>
}

function roundRobin(): Picker {
  let turn = 0
  return (inFlight) => turn++ % inFlight.length
}

function leastLoaded(): Picker {
  let turn = 0
  return (inFlight) => {
    const start = turn++
    let best = start % inFlight.length
    for (let step = 1; step < inFlight.length; step++) {
      const index = (start + step) % inFlight.length
      if ((inFlight[index] ?? 0) < (inFlight[best] ?? 0)) best = index
    }
    return best
  }
}

const PICKERS: Readonly<Record<BaselineName, () => Picker>> = {
  'least-loaded': leastLoaded,
  'round-robin': roundRobin,
}

/** Headers that belong to one connection and are not passed on. */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'expect',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

function endToEnd(headers: IncomingMessage['headers']): Record<string, string | string[]> {
  const kept: Record<string, string | string[]> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && !HOP_BY_HOP.has(name)) kept[name] = value
  }
  return kept
}

class Forwarder {
  readonly inFlight: number[]
  readonly #workers: readonly string[]
  readonly #pick: Picker
  readonly #agent = new Agent({ headersTimeout: 0, bodyTimeout: 0 })

  constructor(workers: readonly string[], pick: Picker) {
    this.#workers = workers
    this.#pick = pick
    this.inFlight = workers.map(() => 0)
  }

  async forward(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const index = this.#pick(this.inFlight)
    const gone = new AbortController()
    res.once('close', () => gone.abort())
    this.#count(index, 1)
    try {
      const answer = await this.#agent.request({
        origin: this.#workers[index] ?? '',
        path: req.url ?? '/',
        method: (req.method ?? 'GET') as Dispatcher.HttpMethod,
        headers: endToEnd(req.headers),
        body: req,
        signal: gone.signal,
      })
      res.writeHead(answer.statusCode, endToEnd(answer.headers))
      await pipeline(answer.body, res)
    } catch {
      if (!res.headersSent) res.writeHead(502).end()
      else res.destroy()
    } finally {
      this.#count(index, -1)
    }
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  #count(index: number, change: number): void {
    this.inFlight[index] = (this.inFlight[index] ?? 0) + change
  }
}

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/**
 * Starts a baseline on a free port of this machine.
 * @param workers addresses of the engines, at least one
 */
async function startBaseline(name: BaselineName, workers: readonly string[]): Promise<Baseline> {
  const proxy = new Forwarder(workers, PICKERS[name]())
  const server = createServer((req, res) => void proxy.forward(req, res))
  const url = await listen(server)
  return {
    url,
    inFlight: () => proxy.inFlight.reduce((total, one) => total + one, 0),
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      await proxy.close()
    },
  }
}

export { type Baseline, type BaselineName, leastLoaded, roundRobin, startBaseline }
