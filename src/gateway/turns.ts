/**
 * Question: how does one turn get from a client to a worker and back?
 *
 * The way: read the body, submit (which waits while the turn is held), ask the worker (recovery.ts
 * has what happens when that fails), deliver. A worker's last word is passed on as it is, errors
 * included.
 *
 * Whatever happens, the reservation ends: by `Turn.watch` once there is an answer, by disposing
 * before. It decides nothing about where a turn goes.
 */
import type { IncomingHttpHeaders } from 'node:http'
import type { Scheduler, Turn } from '../index.js'
import { WarmpathError } from '../index.js'
import type { Bodies } from './body.js'
import type { Settings } from './config.js'
import { deliver, pump } from './deliver.js'
import type { Exchange } from './exchange.js'
import { askOf, headerOf, isEventStream, priorityOf } from './headers.js'
import type { HealthWatch } from './health.js'
import { HeldAnswer } from './hold.js'
import { ask } from './recovery.js'
import type { Upstream } from './upstream.js'

/** What serving needs; one of each a gateway. */
interface Parts {
  scheduler: Scheduler
  settings: Settings
  upstream: Upstream
  health: HealthWatch
  bodies: Bodies
}

/** Serves one request of a wire API. Throws what the client is to be told. */
async function serveTurn(parts: Parts, exchange: Exchange): Promise<void> {
  const raw = await parts.bodies.readDecoded(exchange.req, exchange.res)
  const turn = await submit(parts, exchange, raw)
  exchange.errorEvent = (code, message) => turn.errorEvent(code, message)
  try {
    const answer = await ask(parts, turn, {
      signal: exchange.signal,
      note: () => note(exchange, turn),
    })
    const { status, headers } = answer
    const through = turn.watch({ status, contentType: headerOf(headers, 'content-type') })
    const { clientIdleMs } = parts.settings.timeouts
    const delivery = { answer, through, clientIdleMs }
    if (!exchange.headSent) await deliver(exchange, delivery)
    else await join(exchange, delivery)
  } catch (error) {
    turn.fail(error)
    throw error
  } finally {
    turn[Symbol.dispose]()
  }
}

async function submit(parts: Parts, exchange: Exchange, raw: Uint8Array): Promise<Turn> {
  const held = new HeldAnswer(exchange, parts.settings.hold)
  try {
    return await parts.scheduler.submit({
      path: exchange.path,
      method: 'POST',
      headers: decodedHeaders(exchange.req.headers),
      ...askOf(exchange.req.headers),
      ...priorityOf(exchange.req.headers, parts.settings.priorityHeader),
      raw,
      signal: exchange.signal,
      onHold: (hold) => held.held(hold),
    })
  } catch (error) {
    throw hinted(error, parts.health.limitedForMs)
  } finally {
    held.settled()
  }
}

/** Of a body that has been decoded. Most come without an encoding, and copying costs. */
function decodedHeaders(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  if (headers['content-encoding'] === undefined) return headers
  const { 'content-encoding': _, ...rest } = headers
  return rest
}

/** Where somebody is limited only for a while, a client is told for how long. */
function hinted(error: unknown, limitedForMs: number | undefined): unknown {
  const isNobody = WarmpathError.is(error) && error.code === 'WARMPATH_NO_WORKER'
  if (!isNobody || limitedForMs === undefined) return error
  const { code, message } = error
  const retryAfterSeconds = Math.ceil(limitedForMs / 1000)
  return new WarmpathError(code, message, { cause: error, retryAfterSeconds })
}

/** Continues a stream whose head was sent while the turn was held. */
async function join(exchange: Exchange, delivery: Parameters<typeof pump>[1]): Promise<void> {
  const { status, headers } = delivery.answer
  if (status >= 200 && status < 300 && isEventStream(headers)) {
    await pump(exchange, delivery)
    return exchange.end()
  }
  delivery.answer.drop()
  throw new WarmpathError(
    'WARMPATH_UPSTREAM',
    `the worker answered with status ${status} and no event stream`,
  )
}

function note(exchange: Exchange, turn: Turn): void {
  const { worker, model, target, session, receiptId, heldMs, reason } = turn
  Object.assign(exchange.about, { worker, model, target, session, receipt: receiptId, heldMs })
  if (reason === undefined) return
  exchange.about.continuity = reason.isSwitch ? 'switch' : 'stay'
  exchange.about.reason = reason.reason
}

export { type Parts, serveTurn }
