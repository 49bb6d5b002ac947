/**
 * Question: what did the client send, if it is not too much and not too slow?
 *
 * Reads a request body up to a limit, as sent or decoded. The limit is on what is held in memory: a
 * declared length above it is refused before a byte is read, and a body without one as soon as it
 * passes the limit. All bodies together have a limit too, from their first byte until their exchange
 * is over and by what they are decoded, so that memory is bounded however many clients send large ones.
 * A client that sends nothing for a while is given up. The rest of a refused body is left to whoever
 * answers (exchange.ts drops it).
 *
 * One copy at the end joins the pieces; a body that came in one piece is not copied.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { decodeBody, WarmpathError } from '../index.js'

interface BodyRules {
  /** The largest body, in bytes. */
  readonly bodyBytes: number
  /** All bodies at once, in bytes. */
  readonly allBodiesBytes: number
  /** The longest time between two pieces, in milliseconds. */
  readonly idleMs: number
}

/** The request bodies of one gateway. */
class Bodies {
  readonly #rules: BodyRules
  #held = 0

  constructor(rules: BodyRules) {
    this.#rules = rules
  }

  /** Bytes that are held now. */
  get held(): number {
    return this.#held
  }

  /**
   * The body of `req` as sent, counted until `res` is closed. Throws WARMPATH_BODY_TOO_LARGE,
   * WARMPATH_OVERLOADED, WARMPATH_CLIENT_SLOW; WARMPATH_ABORTED when the client goes.
   */
  read(req: IncomingMessage, res: ServerResponse): Promise<Buffer> {
    return this.#read(req, this.#account(res))
  }

  /** What it is without its content encodings. Throws as well what `decodeBody` does. */
  async readDecoded(req: IncomingMessage, res: ServerResponse): Promise<Uint8Array> {
    const count = this.#account(res)
    const raw = await this.#read(req, count)
    const decoded = decodeBody(raw, req.headers['content-encoding'], this.#rules.bodyBytes)
    count(decoded.length - raw.length)
    return decoded
  }

  /** Counts bytes until `res` is closed; throws WARMPATH_OVERLOADED where they would be too many. */
  #account(res: ServerResponse): (bytes: number) => void {
    let size = 0
    res.once('close', () => {
      this.#held -= size
    })
    return (bytes) => {
      if (this.#held + bytes > this.#rules.allBodiesBytes) throw overloaded()
      size += bytes
      this.#held += bytes
    }
  }

  async #read(req: IncomingMessage, count: (bytes: number) => void): Promise<Buffer> {
    const { bodyBytes, idleMs } = this.#rules
    if (Number(req.headers['content-length'] ?? 0) > bodyBytes) throw tooLarge(bodyBytes)
    const pieces: Buffer[] = []
    let size = 0
    await everyPiece(req, idleMs, (piece) => {
      if (size + piece.length > bodyBytes) throw tooLarge(bodyBytes)
      count(piece.length)
      size += piece.length
      pieces.push(piece)
    })
    const only = pieces.length === 1 ? pieces[0] : undefined
    return only ?? Buffer.concat(pieces)
  }
}

/** Gives each piece to `take` until the end; stops at the first throw, and leaves `req` paused. */
function everyPiece(
  req: IncomingMessage,
  idleMs: number,
  take: (piece: Buffer) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (error?: unknown) => {
      clearTimeout(idle)
      req.off('data', onPiece).off('end', settle).off('error', onGone).off('close', onGone)
      if (error === undefined) return resolve()
      req.pause()
      reject(error)
    }
    const onGone = () => settle(gone())
    const onPiece = (piece: Buffer) => {
      idle.refresh()
      try {
        take(piece)
      } catch (error) {
        settle(error)
      }
    }
    const idle = setTimeout(() => settle(slow(idleMs)), idleMs)
    req.on('data', onPiece).once('end', settle).once('error', onGone).once('close', onGone)
  })
}

function tooLarge(limit: number): WarmpathError {
  return new WarmpathError(
    'WARMPATH_BODY_TOO_LARGE',
    `the body is larger than limits.bodyBytes (${limit})`,
  )
}

function overloaded(): WarmpathError {
  return new WarmpathError(
    'WARMPATH_OVERLOADED',
    'the gateway holds as many bytes of requests as limits.allBodiesBytes allows',
  )
}

function slow(idleMs: number): WarmpathError {
  return new WarmpathError(
    'WARMPATH_CLIENT_SLOW',
    `nothing of the request's body came for timeouts.requestIdleMs (${idleMs})`,
  )
}

function gone(): WarmpathError {
  return new WarmpathError('WARMPATH_ABORTED', 'the client closed the connection')
}

export { Bodies }
