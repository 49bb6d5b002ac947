/**
 * Question: how does a worker's answer reach a client that may be slower, or leave?
 *
 * Bytes pass as they come. The next piece is asked for only when the client's connection has taken
 * the last one, so a slow client slows the worker down and nothing piles up here. A client that
 * takes nothing for `clientIdleMs` counts as gone: it would hold room on a worker for ever.
 *
 * It does not look into the bytes; that they end the reservation is the business of the Response
 * that it reads (`Turn.observe`). When the client goes, that Response's body is cancelled.
 */
import { once } from 'node:events'
import type { Exchange } from './exchange.js'
import { isEventStream, passedHeaders } from './headers.js'

/** Sends head and body. Throws what the body throws, or why the exchange was given up. */
async function deliver(
  exchange: Exchange,
  response: Response,
  clientIdleMs: number,
): Promise<void> {
  try {
    exchange.head(response.status, passedHeaders(response.headers))
  } catch (error) {
    await response.body?.cancel(error)
    throw error
  }
  if (isEventStream(response.headers)) exchange.beginStream()
  if (response.body) await pump(exchange, response.body, clientIdleMs)
  exchange.end()
}

/** The body only, into an answer whose head was sent while the turn was held. */
async function pump(
  exchange: Exchange,
  body: ReadableStream<Uint8Array>,
  clientIdleMs: number,
): Promise<void> {
  const reader = body.getReader()
  const leave = () => void reader.cancel(exchange.signal.reason).catch(() => {})
  exchange.signal.addEventListener('abort', leave, { once: true })
  if (exchange.signal.aborted) leave()
  try {
    for (;;) {
      const piece = await reader.read()
      exchange.signal.throwIfAborted()
      if (piece.done) return
      if (!exchange.write(piece.value)) await drained(exchange, clientIdleMs)
    }
  } finally {
    exchange.signal.removeEventListener('abort', leave)
    // Without effect on a body that has ended.
    leave()
  }
}

/** Resolves when the client has taken what was written, or has gone. */
async function drained(exchange: Exchange, clientIdleMs: number): Promise<void> {
  const idle = setTimeout(() => exchange.res.destroy(), clientIdleMs)
  try {
    await once(exchange.res, 'drain', { signal: exchange.signal })
  } catch {
    // Given up, or the client went; the next read sees the signal.
  } finally {
    clearTimeout(idle)
  }
}

export { deliver, pump }
