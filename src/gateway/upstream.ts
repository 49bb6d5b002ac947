/**
 * Question: what does a worker answer, or how exactly did it fail to?
 *
 * One pooled agent for all workers. `call` resolves once the answer has begun (answer.ts). It knows no
 * turns and retries nothing.
 */
import { Agent, buildConnector, type Dispatcher, errors } from 'undici'
import { BegunAnswer, type UpstreamAnswer } from './answer.js'
import type { Timeouts } from './config.js'

/** What a request needs; `Turn.init` has it. */
interface UpstreamRequest {
  url: string
  method: string
  headers: Record<string, string>
  body?: string | Uint8Array | undefined
}

/** The connections with all workers. */
class Upstream {
  readonly #agent: Agent

  constructor(timeouts: Timeouts) {
    this.#agent = new Agent({
      connect: connectorOf(timeouts.connectMs),
      headersTimeout: timeouts.headersMs,
      bodyTimeout: timeouts.bodyIdleMs,
      // Python servers close idle connections after 5 s; a shorter time here avoids that race.
      keepAliveTimeout: 4_000,
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
 * Opens connections, but none for a request that has been given up. When the connection of one is closed,
 * undici 7 and 8 open another for it before they look whether anybody still wants it; nothing ever uses
 * that, so no idle time ends it either.
 */
function connectorOf(timeoutMs: number): buildConnector.connector {
  const connect = buildConnector({ timeout: timeoutMs })
  let isGivenUp = false
  return (options, callback) => {
    if (isGivenUp) return callback(new Error('the request was given up'), null)
    connect(options, (...opened) => {
      const [, socket] = opened
      // Around undici's own listener, within which it would open the next one.
      socket?.once('close', () => {
        isGivenUp = wasAborted(socket.errored)
      })
      callback(...opened)
      socket?.once('close', () => {
        isGivenUp = false
      })
    })
  }
}

function wasAborted(error: Error | null): boolean {
  return error instanceof errors.InformationalError && error.message === 'aborted'
}

export { Upstream, type UpstreamRequest }
