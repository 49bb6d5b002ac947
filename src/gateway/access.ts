/**
 * Question: what does the access log say of a finished request?
 *
 * One JSON line in the shape that pino writes (level, time, msg, then fields), so that existing
 * tools read it. It holds where a request went and what came of it: never a body, a header of the
 * client, a query string, or a session id. Of an unforeseen error it has the type and the frames,
 * not the message, since that may repeat anything.
 */
import type { Exchange } from './exchange.js'

const LEVEL = { info: 30, warn: 40, error: 50 } as const

/** The line of one exchange that is over. `status` is what the client got, or would have got. */
function accessLine(exchange: Exchange, now: number, error?: unknown): string {
  const { req, res, about, bytes, failure } = exchange
  const status = exchange.clientLeft ? 499 : res.statusCode
  return JSON.stringify({
    level: levelOf(status, failure),
    time: now,
    pid: process.pid,
    msg: 'request',
    method: req.method,
    path: exchange.pathname,
    status,
    durationMs: Math.round(performance.now() - exchange.started),
    bytes,
    worker: about.worker,
    model: about.model,
    target: about.target,
    receipt: about.receipt,
    continuity: about.continuity,
    reason: about.reason,
    heldMs: about.heldMs,
    code: failure,
    err: error instanceof Error ? { type: error.name, stack: frames(error) } : undefined,
  })
}

function levelOf(status: number, failure: string | undefined): number {
  if (status === 500) return LEVEL.error
  return status >= 400 || failure !== undefined ? LEVEL.warn : LEVEL.info
}

function frames(error: Error): string {
  const lines = (error.stack ?? '').split('\n')
  return lines.filter((line) => /^\s+at /.test(line)).join('\n')
}

export { accessLine }
