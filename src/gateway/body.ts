/**
 * Question: what did the client send, if it is not too much?
 *
 * Reads a request body as sent, undecoded, up to a limit. The limit is on what is held in memory: a
 * declared length above it is refused before a byte is read, and a body without one as soon as it
 * passes the limit. The rest of a refused body is left to whoever answers (exchange.ts drops it).
 *
 * One copy at the end joins the pieces; a body that came in one piece is not copied.
 */
import type { IncomingMessage } from 'node:http'
import { WarmpathError } from '../index.js'

/** Throws WARMPATH_BODY_TOO_LARGE above `limit` bytes, WARMPATH_ABORTED when the client goes. */
async function readBody(req: IncomingMessage, limit: number): Promise<Buffer> {
  if (Number(req.headers['content-length'] ?? 0) > limit) throw tooLarge(limit)
  const pieces: Buffer[] = []
  let size = 0
  return new Promise((resolve, reject) => {
    const stop = (error: WarmpathError) => {
      req.off('data', take)
      req.pause()
      reject(error)
    }
    const take = (piece: Buffer) => {
      size += piece.length
      if (size > limit) return stop(tooLarge(limit))
      pieces.push(piece)
    }
    req.on('data', take)
    req.once('end', () => resolve(join(pieces)))
    req.once('error', () => stop(gone()))
    req.once('close', () => stop(gone()))
  })
}

function join(pieces: Buffer[]): Buffer {
  const only = pieces.length === 1 ? pieces[0] : undefined
  return only ?? Buffer.concat(pieces)
}

function tooLarge(limit: number): WarmpathError {
  return new WarmpathError(
    'WARMPATH_BODY_TOO_LARGE',
    `the body is larger than limits.bodyBytes (${limit})`,
  )
}

function gone(): WarmpathError {
  return new WarmpathError('WARMPATH_ABORTED', 'the client closed the connection')
}

export { readBody }
