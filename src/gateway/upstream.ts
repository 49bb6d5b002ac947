/**
 * Question: what does a worker answer, or how exactly did it fail to?
 *
 * One pooled agent for all workers. `call` resolves once the answer has begun (answer.ts). It knows no
 * turns and retries nothing.
 */
import type { Socket } from 'node:net'
import { Agent, buildConnector, type Dispatcher } from 'undici'
import { BegunAnswer, type UpstreamAnswer } from './answer.js'
import type { Timeouts } from './config.js'

/** What a request needs; `Turn.init` has it. */
interface UpstreamRequest {
  url: string
  method: string
  headers: Record<string, string>
  body?: string | Uint8Array | undefined
}

/** Python servers close idle connections after 5 s; a shorter time here avoids that race. */
const IDLE_MS = 4_000

/** The connections with all workers. */
class Upstream {
  readonly #agent: Agent

  constructor(timeouts: Timeouts) {
    this.#agent = new Agent({
      connect: connectorOf(timeouts.connectMs),
      headersTimeout: timeouts.headersMs,
      bodyTimeout: timeouts.bodyIdleMs,
      keepAliveTimeout: IDLE_MS,
    })
  }

  /** Rejects with UpstreamFailure. The signal gives the body up too. */
  call(request: UpstreamRequest, signal: AbortSignal): Promise<UpstreamAnswer> {
    return new Promise((resolve, reject) => {
      const target = new URL(request.url)
      const options = {
        origin: target.origin,
        path: target.pathname + target.search,
        method: request.method as Dispatcher.HttpMethod,
        headers: request.headers,
        body: request.body ?? null,
      }
      this.#agent.dispatch(options, new BegunAnswer({ resolve, reject, signal }))
    })
  }

  /** Waits for nothing: open requests fail. */
  async close(): Promise<void> {
    await this.#agent.destroy()
  }
}

/**
 * Opens connections, and closes those that nobody uses. When the connection of a request that was given up
 * is closed, undici 7 and 8 open another one for it before they look whether anybody still wants it; the
 * next request may have it, but no idle time of undici's ends it.
 */
function connectorOf(timeoutMs: number): buildConnector.connector {
  const connect = buildConnector({ timeout: timeoutMs })
  return (options, callback) => {
    connect(options, (...opened) => {
      // Left out where there is an error, whatever its type says.
      const socket: Socket | null | undefined = opened[1]
      if (socket) closeUnlessUsed(socket)
      callback(...opened)
    })
  }
}

function closeUnlessUsed(socket: Socket): void {
  const look = () => {
    if (socket.bytesWritten === 0) socket.destroy()
  }
  const idle = setTimeout(look, IDLE_MS).unref()
  socket.once('close', () => clearTimeout(idle))
}

export { Upstream, type UpstreamRequest }
