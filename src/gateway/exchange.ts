/**
 * Question: what is known of one HTTP request and its answer, and has anything been sent yet?
 *
 * An Exchange wraps node's request and response. It knows when the client has gone (`signal`), it
 * writes heads and whole answers, and it collects what the access log and the `x-warmpath-*`
 * headers say. Everything that writes to a client goes through it, so the one rule of HTTP that
 * matters here, one head for one answer, is kept in one place.
 *
 * It knows no routes and no scheduler; a turn's facts are copied into `about` as they become known.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Dialect, WarmpathError } from '../index.js'
import { ABOUT_HEADERS, answerHeaders, type HeaderList } from './headers.js'

/** What is known of where a request went; each becomes an answer header and a log field. */
interface About {
  worker?: string
  model?: string
  target?: string
  session?: string
  receipt?: string
  /** Whether its session keeps its model. */
  continuity?: 'stay' | 'switch'
  /** A code of docs/reasons.md. */
  reason?: string
  heldMs?: number
}

/** How long the rest of a refused body is read before its connection is closed, in milliseconds. */
const LINGER_MS = 1_000

function clientGone(): WarmpathError {
  return new WarmpathError('WARMPATH_ABORTED', 'the client closed the connection')
}

/** One request and its answer; made when the request's head is there. */
class Exchange {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  /** Without query; the part that routes. */
  readonly pathname: string
  /** With query, as the worker is to see it. */
  path: string
  readonly started = performance.now()
  readonly about: About = {}
  dialect: Dialect | undefined
  /** Writes the event that ends a stream which broke off; default: as the dialect does. */
  errorEvent: Dialect['errorEvent'] | undefined
  bytes = 0
  /** The code of the error that ended it, for the log. */
  failure: string | undefined
  #stream: 'none' | 'begun' | 'begun with trailers to come' = 'none'
  readonly #gone = new AbortController()

  constructor(req: IncomingMessage, res: ServerResponse, pathname: string, query: string) {
    this.req = req
    this.res = res
    this.pathname = pathname
    this.path = pathname + query
    res.once('close', () => {
      if (!res.writableFinished) this.abandon(clientGone())
    })
    // A reset connection also closes it; without a listener node would end the process.
    res.on('error', () => {})
  }

  /** Aborts when the client has gone, or when the gateway gives the request up. */
  get signal(): AbortSignal {
    return this.#gone.signal
  }

  /** Gives the request up; what is under way for it is cancelled. Idempotent. */
  abandon(reason: Error): void {
    this.#gone.abort(reason)
  }

  /** True if the answer was not taken to its end. */
  get clientLeft(): boolean {
    return this.res.destroyed && !this.res.writableFinished
  }

  get headSent(): boolean {
    return this.res.headersSent
  }

  /** True once nothing more can reach the client. */
  get over(): boolean {
    return this.res.writableEnded || this.res.destroyed
  }

  /** Writes the head of an answer; the `x-warmpath-*` headers are added. */
  head(status: number, headers: HeaderList): void {
    this.res.writeHead(status, [...headers, ...answerHeaders(this.about)].flat())
  }

  /** Says that the body which follows is an event stream, so that an error can end it as one. */
  beginStream(): void {
    this.#stream = 'begun'
  }

  /** True while the answer is an event stream. */
  get streaming(): boolean {
    return this.#stream !== 'none'
  }

  /**
   * Sends the head of an event stream before it is known where the turn goes; what the head could
   * not say follows in trailers.
   */
  openStream(): void {
    this.head(200, [
      ['content-type', 'text/event-stream; charset=utf-8'],
      ['cache-control', 'no-cache'],
      ['trailer', Object.values(ABOUT_HEADERS).join(', ')],
    ])
    this.#stream = 'begun with trailers to come'
  }

  /** False when the client should be given time to take it. */
  write(piece: string | Uint8Array): boolean {
    this.bytes += piece.length
    return this.res.write(piece)
  }

  end(): void {
    const { res, about } = this
    if (this.#stream === 'begun with trailers to come') res.addTrailers([...answerHeaders(about)])
    res.end()
  }

  /** An answer that says nothing but that it was done. */
  empty(): void {
    this.head(204, [])
    this.end()
  }

  /** A whole JSON answer. */
  json(status: number, value: unknown, headers: HeaderList = []): void {
    this.text(status, 'application/json; charset=utf-8', `${JSON.stringify(value)}\n`, headers)
  }

  /** A whole answer. */
  text(status: number, type: string, content: string, headers: HeaderList = []): void {
    const body = Buffer.from(content)
    const isUnread = !this.req.readableEnded && this.#bodyExpected()
    // Before the head, which tells the client that the connection ends.
    if (isUnread) this.res.shouldKeepAlive = false
    this.head(status, [['content-type', type], ['content-length', String(body.length)], ...headers])
    this.bytes += body.length
    if (this.req.method === 'HEAD') this.res.end()
    else if (isUnread) this.#endUnread(body)
    else this.res.end(body)
  }

  #bodyExpected(): boolean {
    const { headers } = this.req
    return headers['transfer-encoding'] !== undefined || Number(headers['content-length']) > 0
  }

  /**
   * Answers a request whose body was not read to its end. Closing at once would reset the
   * connection, and the reset could overtake the answer; so the rest is read and dropped for a
   * bounded time. The client has the whole answer meanwhile, by its length.
   */
  #endUnread(body: Buffer): void {
    const { req, res } = this
    res.write(body)
    const timer = setTimeout(() => res.end(), LINGER_MS)
    timer.unref()
    const finish = () => {
      clearTimeout(timer)
      res.end()
    }
    req.once('end', finish)
    req.once('close', finish)
    req.resume()
  }
}

export { type About, Exchange }
