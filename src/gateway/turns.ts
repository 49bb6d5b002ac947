/**
 * Question: how does one turn get from a client to a worker and back?
 *
 * The way: read the body, submit (which waits while the turn is held), ask the worker, deliver. If
 * a worker fails before anything of its answer has begun, or declines (429, 502, 503), the turn
 * moves to the next candidate as long as the scheduler says that this is safe and attempts are
 * left. A worker's last word is passed on as it is, errors included.
 *
 * Whatever happens, the reservation ends: by `Turn.watch` once there is an answer, by disposing
 * before. It decides nothing about where a turn goes.
 */
import type { Scheduler, Turn } from '../index.js'
import { WarmpathError } from '../index.js'
import type { UpstreamAnswer } from './answer.js'
import type { Bodies } from './body.js'
import type { Settings } from './config.js'
import { deliver, pump } from './deliver.js'
import type { Exchange } from './exchange.js'
import { UpstreamFailure } from './failures.js'
import { askOf, headerOf, isEventStream } from './headers.js'
import type { HealthWatch } from './health.js'
import { HeldAnswer } from './hold.js'
import type { Upstream } from './upstream.js'

/** What serving needs; one of each a gateway. */
interface Parts {
  scheduler: Scheduler
  settings: Settings
  upstream: Upstream
  health: HealthWatch
  bodies: Bodies
}

/** Answers by which a worker says that it did not take the request, so that another may. */
const DECLINED: ReadonlySet<number> = new Set([429, 502, 503])

/** Serves one request of a wire API. Throws what the client is to be told. */
async function serveTurn(parts: Parts, exchange: Exchange): Promise<void> {
  const raw = await parts.bodies.read(exchange.req, exchange.res)
  const turn = await submit(parts, exchange, raw)
  exchange.errorEvent = (code, message) => turn.errorEvent(code, message)
  try {
    const answer = await ask(parts, exchange, turn)
    const { status, headers } = answer
    const through = turn.watch({ status, contentType: headerOf(headers, 'content-type') })
    const { clientIdleMs } = parts.settings.timeouts
    const delivery = { answer, through, clientIdleMs }
    if (!exchange.headSent) await deliver(exchange, delivery)
    else await join(exchange, delivery)
  } catch (error) {
    turn.fail(error)
    if (error instanceof UpstreamFailure) parts.health.failed(turn.worker, turn.url, error)
    throw error
  } finally {
    turn[Symbol.dispose]()
  }
}

async function submit(parts: Parts, exchange: Exchange, raw: Buffer): Promise<Turn> {
  const held = new HeldAnswer(exchange, parts.settings.hold)
  try {
    return await parts.scheduler.submit({
      path: exchange.path,
      method: 'POST',
      headers: exchange.req.headers,
      ...askOf(exchange.req.headers),
      raw,
      signal: exchange.signal,
      onHold: (hold) => held.held(hold),
    })
  } finally {
    held.settled()
  }
}

/** Asks the turn's worker, and others where that is safe, until there is an answer to pass on. */
async function ask(parts: Parts, exchange: Exchange, turn: Turn): Promise<UpstreamAnswer> {
  for (let left = parts.settings.retry.attempts - 1; ; left -= 1) {
    note(exchange, turn)
    const { worker, url } = turn
    const outcome = await attempt(parts.upstream, turn, exchange.signal)
    const moved = left > 0 && mayMove(outcome) && turn.next()
    if (!moved) {
      if (outcome instanceof UpstreamFailure) throw outcome
      return outcome
    }
    // After the move: a turn on a worker that is marked down would be lost with it.
    if (outcome instanceof UpstreamFailure) parts.health.failed(worker, url, outcome)
    else outcome.drop()
  }
}

async function attempt(
  upstream: Upstream,
  turn: Turn,
  signal: AbortSignal,
): Promise<UpstreamAnswer | UpstreamFailure> {
  try {
    return await upstream.call({ url: turn.url, ...turn.init }, signal)
  } catch (error) {
    if (error instanceof UpstreamFailure) return error
    throw error
  }
}

/** A slow worker may still be at work on it, so only a worker that is not counts. */
function mayMove(outcome: UpstreamAnswer | UpstreamFailure): boolean {
  if (outcome instanceof UpstreamFailure)
    return outcome.kind === 'refused' || outcome.kind === 'lost'
  return DECLINED.has(outcome.status)
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
