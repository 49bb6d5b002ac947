/**
 * Question: what does the gateway say of itself, and what may it be told?
 *
 * `/healthz` for a load balancer, `/status` for a person, `/metrics` for Prometheus, `/receipts/:id` for why a
 * turn went where it went, `/v1/models` for a client that wants to know what it may ask for. These
 * read the scheduler and change nothing. They are as open as the port is: session ids are in
 * receipts and in the status, though not in metrics, which is a reason for the default host.
 *
 * `DELETE /sessions/:id` says that a session is over, so that its room goes to others at once. It
 * ends sessions of the caller's own tenant only, as its credential tells.
 */
import { metricsText, WarmpathError } from '../index.js'
import type { Exchange } from './exchange.js'
import { passOn } from './pass.js'
import type { Parts } from './turns.js'

const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** 200 while a worker is up, else 503. */
function serveHealth(parts: Parts, exchange: Exchange): void {
  const up = parts.scheduler.status().workers.filter((worker) => worker.health === 'up').length
  exchange.json(up > 0 ? 200 : 503, { status: up > 0 ? 'ok' : 'no worker is up', workersUp: up })
}

/** The scheduler's status, as it is. */
function serveStatus(parts: Parts, exchange: Exchange): void {
  exchange.json(200, parts.scheduler.status())
}

/** The scheduler's metrics as Prometheus reads them. */
function serveMetrics(parts: Parts, exchange: Exchange): void {
  exchange.text(200, METRICS_TYPE, metricsText(parts.scheduler.metrics()))
}

/** Throws WARMPATH_UNKNOWN_ID for a receipt that never was or has been overwritten. */
function serveReceipt(parts: Parts, exchange: Exchange, id: string): void {
  const receipt = parts.scheduler.receipt(id)
  if (receipt === undefined) {
    throw new WarmpathError(
      'WARMPATH_UNKNOWN_ID',
      'no receipt with this id is kept; only the newest ones are',
    )
  }
  exchange.json(200, receipt)
}

/** 204 whether or not there was such a session: it is over now. */
function endSession({ scheduler }: Parts, exchange: Exchange, id: string): void {
  scheduler.endSession(id, scheduler.tenantOf(exchange.req.headers))
  exchange.empty()
}

/**
 * What clients may ask for, in the one list that both families of clients read. A scheduler that
 * passes model names through has no list of its own; then a worker is asked.
 */
async function serveModels(parts: Parts, exchange: Exchange): Promise<void> {
  const names = parts.scheduler.models()
  if (names.length === 0) return passOn(parts, exchange)
  const data = names.map(modelEntry)
  const [first, last] = [names[0], names[names.length - 1]]
  exchange.json(200, { object: 'list', data, has_more: false, first_id: first, last_id: last })
}

/** One of them as the list has it. Throws WARMPATH_UNKNOWN_MODEL. */
async function serveModel(parts: Parts, exchange: Exchange, id: string): Promise<void> {
  const names = parts.scheduler.models()
  if (names.length === 0) return passOn(parts, exchange)
  if (!names.includes(id)) {
    const message = `unknown model ${JSON.stringify(id)}; available: ${names.join(', ')}`
    throw new WarmpathError('WARMPATH_UNKNOWN_MODEL', message)
  }
  exchange.json(200, modelEntry(id))
}

function modelEntry(id: string): object {
  return {
    id,
    object: 'model',
    type: 'model',
    display_name: id,
    created: 0,
    created_at: '1970-01-01T00:00:00Z',
    owned_by: 'warmpath',
  }
}

export { endSession, serveHealth, serveMetrics, serveModel, serveModels, serveReceipt, serveStatus }
