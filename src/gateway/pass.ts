/**
 * Question: what of everything that is no turn: token counts, embeddings, files, stored responses?
 *
 * It goes to a worker as it is, with the model name mapped where the body has one, without a
 * reservation: what is neither long nor part of a session needs none. A stored response goes to the
 * worker that made it, since no other knows it.
 *
 * With a target's own credential go only requests that a model answers: files, batches and accounts are
 * whoever's the credential is, and not the clients'.
 *
 * Only a worker that refuses the connection is passed over, for the next that is up: here nothing
 * says whether a request may be repeated once it has been received.
 */
import type { IncomingHttpHeaders } from 'node:http'
import {
  type Destination,
  parseBody,
  upstreamUrl,
  WarmpathError,
  withoutCredentials,
} from '../index.js'
import type { UpstreamAnswer } from './answer.js'
import { deliver } from './deliver.js'
import type { Exchange } from './exchange.js'
import { UpstreamFailure } from './failures.js'
import { REFUSED, refusedCredential } from './recovery.js'
import type { Parts } from './turns.js'

/** What a model answers, beside turns. */
const OF_A_MODEL =
  /^\/v1\/(?:messages\/count_tokens|responses\/input_tokens|completions|embeddings|rerank|score|classify|moderations)$/
/** Names of models; encoded slashes mean other things to other servers. */
const MODELS = /^\/v1\/models(?:\/[\w.:@/-]+)?$/

/** Counts of what a turn would send. */
const COUNTED = /^(\/v1\/(?:messages|responses))\/(?:count_tokens|input_tokens)$/

/** To a worker that is up and serves the body's model. Throws WARMPATH_UNSUPPORTED_PATH. */
async function passOn(parts: Parts, exchange: Exchange): Promise<void> {
  const counted = COUNTED.exec(exchange.pathname)?.[1]
  if (counted !== undefined) return passCount(parts, exchange, counted)
  const raw = await parts.bodies.read(exchange.req, exchange.res)
  const body = objectIn(raw)
  const model = typeof body?.model === 'string' ? body.model : undefined
  for (let left = parts.settings.retry.attempts - 1; ; left -= 1) {
    const to = parts.scheduler.destination(model, exchange.dialect?.name)
    if (to.hasOwnCredential && !isOfAModel(exchange)) {
      throw new WarmpathError(
        'WARMPATH_UNSUPPORTED_PATH',
        `${exchange.pathname} is not passed on with the gateway's own credential`,
      )
    }
    const sent = body === undefined || model === undefined ? raw : to.body(body, raw)
    const outcome = await ask(parts, exchange, to, sent)
    if (!(outcome instanceof UpstreamFailure)) return give(parts, exchange, outcome)
    if (left === 0 || outcome.kind !== 'refused') throw outcome
  }
}

function isOfAModel({ req, pathname }: Exchange): boolean {
  const isRead = req.method === 'GET' || req.method === 'HEAD'
  return OF_A_MODEL.test(pathname) || (isRead && MODELS.test(pathname))
}

/**
 * How many tokens a turn would have: nothing goes that a turn of the tenant could not lean on, and it
 * goes to whoever keeps what it leans on. Written anew, so that what was looked at is what is sent.
 */
async function passCount(parts: Parts, exchange: Exchange, path: string): Promise<void> {
  const { scheduler, bodies } = parts
  const { 'content-encoding': _, ...headers } = exchange.req.headers
  const body = parseBody(await bodies.readDecoded(exchange.req, exchange.res))
  scheduler.checkState({ path, headers, body })
  const model = typeof body.model === 'string' ? body.model : undefined
  const { previous_response_id: id } = body
  const kept = typeof id === 'string' && scheduler.responseOwner(id, scheduler.tenantOf(headers))
  for (let left = parts.settings.retry.attempts - 1; ; left -= 1) {
    const to = kept || scheduler.destination(model, exchange.dialect?.name)
    const outcome = await ask(parts, exchange, to, to.body(body))
    if (!(outcome instanceof UpstreamFailure)) return give(parts, exchange, outcome)
    if (left === 0 || kept || outcome.kind !== 'refused') throw outcome
  }
}

/** To the worker that holds the response `id`. Throws WARMPATH_UNKNOWN_ID when none is known. */
async function passToOwner(parts: Parts, exchange: Exchange, id: string): Promise<void> {
  const raw = await parts.bodies.read(exchange.req, exchange.res)
  const { scheduler } = parts
  const owner = scheduler.responseOwner(id, scheduler.tenantOf(exchange.req.headers))
  if (owner === undefined) {
    throw new WarmpathError('WARMPATH_UNKNOWN_ID', 'no worker is known to hold this response')
  }
  const outcome = await ask(parts, exchange, owner, raw)
  if (outcome instanceof UpstreamFailure) throw outcome
  await give(parts, exchange, outcome)
}

/**
 * The JSON object of a body; undefined for any other body, and for one that is made to cost more to
 * read than it cost to send: these are passed on as they are.
 */
function objectIn(raw: Buffer): Record<string, unknown> | undefined {
  if (raw[0] !== 0x7b) return undefined
  try {
    return parseBody(raw)
  } catch {
    return undefined
  }
}

async function ask(
  parts: Parts,
  exchange: Exchange,
  to: Destination,
  body: string | Uint8Array,
): Promise<UpstreamAnswer | UpstreamFailure> {
  const outcome = await send(parts, exchange, to, body)
  if (outcome instanceof UpstreamFailure || !REFUSED.has(outcome.status)) return outcome
  if (!to.hasOwnCredential) return outcome
  outcome.drop()
  throw refusedCredential(to.target, outcome.status)
}

async function send(
  parts: Parts,
  exchange: Exchange,
  to: Destination,
  body: string | Uint8Array,
): Promise<UpstreamAnswer | UpstreamFailure> {
  const { worker, target, model } = to
  Object.assign(exchange.about, { worker, target, model })
  const path = to.hasOwnCredential ? withoutCredentials(exchange.path) : exchange.path
  const url = upstreamUrl(to.url, path)
  const { method = 'GET', headers } = exchange.req
  const request = {
    url,
    method,
    headers: { ...to.headers(headers), ...(typeof body !== 'string' && encodingOf(headers)) },
    body: body.length > 0 ? body : undefined,
  }
  try {
    return await parts.upstream.call(request, exchange.signal)
  } catch (error) {
    if (!(error instanceof UpstreamFailure)) throw error
    parts.health.failed(worker, url, error)
    return error
  }
}

/** Unlike those of turns, these bodies pass as they were encoded. */
function encodingOf(headers: IncomingHttpHeaders): Record<string, string> {
  const encoding = headers['content-encoding']
  return encoding === undefined ? {} : { 'content-encoding': encoding }
}

async function give(parts: Parts, exchange: Exchange, answer: UpstreamAnswer): Promise<void> {
  await deliver(exchange, { answer, clientIdleMs: parts.settings.timeouts.clientIdleMs })
}

export { passOn, passToOwner }
