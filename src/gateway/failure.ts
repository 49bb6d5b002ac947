/**
 * Question: how does a client learn that something went wrong?
 *
 * One way out for every error: a status, the code, and a message, in the shape of the API that the
 * client speaks; as an event where a stream has begun, and as a broken connection where a JSON
 * answer has, because nothing else can be told there. Messages of WarmpathError are written for
 * clients; of any other error, and of faults of ours, only "internal error" is told, since the text
 * may hold anything.
 */
import { WarmpathError } from '../index.js'
import type { Exchange } from './exchange.js'
import type { HeaderList } from './headers.js'

/** Seconds after which a client may try again when the error itself does not say. */
const RETRY_AFTER: Readonly<Record<string, number>> = {
  WARMPATH_TOO_MANY_RESERVATIONS: 1,
  WARMPATH_NO_WORKER: 5,
  WARMPATH_OWNER_UNAVAILABLE: 5,
  WARMPATH_HOLD_LIMIT: 5,
  WARMPATH_QUEUE_FULL: 5,
  WARMPATH_CLOSED: 1,
  WARMPATH_OVERLOADED: 1,
}

/** The fleet has too much to do. */
const BUSY: ReadonlySet<string> = new Set(['WARMPATH_HOLD_LIMIT', 'WARMPATH_QUEUE_FULL'])

interface Told {
  status: number
  code: string
  message: string
  headers: HeaderList
}

/** What a client is told of any thrown value. */
function told(error: unknown): Told {
  if (!WarmpathError.is(error)) {
    return { status: 500, code: 'WARMPATH_PANIC', message: 'internal error', headers: [] }
  }
  const { code, status } = error
  const headers: [string, string][] = []
  const seconds = error.retryAfterSeconds ?? RETRY_AFTER[code]
  if (seconds !== undefined) headers.push(['retry-after', String(Math.max(1, Math.ceil(seconds)))])
  if (status === 405) headers.push(['allow', String(error.detail?.allow)])
  const message = status === 500 ? 'internal error' : error.message
  return { status, code, message, headers }
}

/** Ends an exchange with an error, however far its answer has come. */
function fail(exchange: Exchange, error: unknown): void {
  const { code, message, headers, ...rest } = told(error)
  const status = BUSY.has(code) ? busyStatus(exchange) : rest.status
  exchange.failure = code
  if (exchange.over) return
  if (!exchange.headSent) exchange.json(status, errorBody(exchange, status, code, message), headers)
  else if (exchange.streaming) endStream(exchange, errorEvent(exchange, code, message))
  else exchange.res.destroy()
}

/** What clients of the dialect take for overload, and repeat after a while. */
function busyStatus({ dialect }: Exchange): number {
  return dialect?.busyStatus ?? 503
}

function endStream(exchange: Exchange, event: string): void {
  exchange.write(event)
  exchange.end()
}

/** The error in the dialect of the path; paths of no dialect get the most common shape. */
function errorBody(exchange: Exchange, status: number, code: string, message: string): unknown {
  if (exchange.dialect) return exchange.dialect.errorBody(status, code, message)
  const type = status < 500 ? 'invalid_request_error' : 'server_error'
  return { error: { message, type, param: null, code } }
}

function errorEvent(exchange: Exchange, code: string, message: string): string {
  if (exchange.errorEvent) return exchange.errorEvent(code, message)
  if (exchange.dialect) return exchange.dialect.errorEvent(code, message)
  return `\n\ndata: ${JSON.stringify(errorBody(exchange, 500, code, message))}\n\n`
}

export { fail, told }
