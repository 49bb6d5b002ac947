/**
 * What a gateway hands in, read once: body bytes -> JSON -> facts, headers -> identity and tenant.
 *
 * A body whose bytes come too is held against the session's last one, and what it repeats of that is
 * not read again. Knows nothing of workers and targets. A body comes parsed or raw; raw bytes are decoded, within
 * `limits.bodyBytes`, and kept so that they can be sent on as they came. Cost: parsing, one walk and
 * canonical text, all linear in the body. Trusts nothing; throws UNSUPPORTED_PATH, INVALID_BODY,
 * UNSUPPORTED_ENCODING, BODY_TOO_LARGE, INVALID_ARGUMENT.
 */
import { hash } from 'node:crypto'
import { CREDENTIALS } from '../config/index.js'
import { type Dialect, dialectOf, type RequestFacts, type TextSink } from '../dialects/index.js'
import { WarmpathError } from '../errors.js'
import {
  type HeaderMap,
  type HeadersLike,
  type Identity,
  identify,
  readHeaders,
} from '../identity/index.js'
import type { HoldReason, Recalled } from '../link.js'
import { checkLevels, checkObject, parseJson } from './bounds.js'
import { decodeBody } from './encoding.js'

/** One model request of a session. */
export interface TurnRequest {
  /** Path and query as the client sent them, such as `/v1/messages?beta=true`. */
  path: string
  /** Default POST; no other method can be routed. */
  method?: string
  headers?: HeadersLike
  /** The parsed JSON body. */
  body?: unknown
  /**
   * The body as it came; sent on as it is but for members that must change. Beside `body` it must be what
   * that was parsed from: of bytes, what the session has sent before is not read again.
   */
  raw?: Uint8Array | string
  /** The prompt's exact tokens, in place of canonical text. */
  tokens?: Uint32Array
  /** Chain hashes of the prompt's blocks, in place of canonical text. */
  hashes?: BigUint64Array
  /** Aborting it ends the turn, held or running; before `submit` has resolved, it rejects with ABORTED. */
  signal?: AbortSignal
  /**
   * Called when the turn is held and, at most once a second, when its place, its reason or what is
   * expected of its wait has changed. What it
   * throws, or rejects with, ends the turn and is what `submit` rejects with.
   */
  onHold?: (hold: Hold) => void
  /** In place of the body's model name. */
  model?: string
  /** In place of what headers and body say. */
  session?: string
  parent?: string
  /**
   * Name of the target that the caller would take: the base choice. Default: the first of the alias
   * that is up. One that the model name does not mean is INVALID_ARGUMENT.
   */
  base?: string
  /** What kind of work it is: sessions of one route are expected to go on alike. */
  route?: string
  /** Whether the task is another one than on the turn before. */
  drift?: boolean
  /**
   * How urgent it is where turns wait, a whole number from -100 to 100: higher goes first, below 0 after
   * the ordinary. Default 0. `admission.queue.priority` can make it something else.
   */
  priority?: number
}

/** A turn that waits for admission. */
export interface Hold {
  readonly id: string
  /** 1 is next among those of its class that wait for the same. */
  readonly position: number
  readonly reason: HoldReason
  /** The class of `admission.queue` that it waits in; undefined where there are none. */
  readonly class: string | undefined
  /** About how much longer it should take, from how others got on; undefined until some have. */
  readonly expectedMs: number | undefined
  readonly heldMs: number
  /** Whether the client asked for a stream, which may be kept alive with `dialect.keepAlive`. */
  readonly stream: boolean
}

/** A session by its name. */
export interface NamedSession {
  readonly session: string
  readonly tenant: string
}

export interface ReadRequest {
  readonly path: string
  readonly dialect: Dialect
  readonly headers: HeaderMap
  readonly tenant: string
  readonly identity: Identity
  /** Model name asked for. */
  readonly model: string | undefined
  /** Absent when only tokens or hashes were given. */
  readonly body: Record<string, unknown> | undefined
  /** Its prompt is only what was not `recalled`. */
  readonly facts: RequestFacts | undefined
  readonly recalled: Recalled | undefined
  /** Decoded body bytes as they came. */
  readonly raw: Uint8Array | string | undefined
}

/** Holds a body against the session's last one. */
export type Recall = (
  tenant: string,
  session: string,
  raw: Uint8Array,
  items: Dialect['items'],
) => Recalled | undefined

export interface RequestRules {
  readonly bodyBytes: number
  /** Absent: by the credential. */
  readonly tenant: TenantRule | undefined
}

const MAX_ID_BYTES = 256
const TENANT_HEX = 16

/** `sink` is where the prompt lies; `recall` is left out where every segment's text is needed. */
export function readRequest(
  request: TurnRequest,
  rules: RequestRules,
  sink: TextSink,
  recall?: Recall,
): ReadRequest {
  const { path } = request
  const dialect = typeof path === 'string' ? dialectOf(path) : undefined
  if (dialect === undefined || (request.method ?? 'POST').toUpperCase() !== 'POST') {
    throw new WarmpathError(
      'WARMPATH_UNSUPPORTED_PATH',
      `cannot route ${request.method ?? 'POST'} ${String(path)}: no model request of a known API`,
    )
  }
  const headers = readHeaders(request.headers)
  const raw =
    request.raw === undefined
      ? undefined
      : decodeBody(request.raw, headers.get('content-encoding'), rules.bodyBytes)
  const body = bodyOf(request, raw)
  const tenant = tenantOf(headers, rules)
  const identity = readable(() => identityOf(request, headers, body))
  const { session } = identity
  const recalled =
    recall !== undefined && session !== undefined && isBytes(raw)
      ? recall(tenant, session, raw, dialect.items)
      : undefined
  const facts = body === undefined ? undefined : factsOf(body, dialect, sink, recalled?.items ?? 0)
  const model = request.model ?? facts?.model
  // Members that are absent are written out: to spread them costs microseconds (Node 20).
  return { path, dialect, headers, tenant, identity, model, body, facts, recalled, raw }
}

/** A body that a program has made may throw from any of its members. */
function readable<T>(read: () => T): T {
  try {
    return read()
  } catch (cause) {
    if (WarmpathError.is(cause)) throw cause
    throw new WarmpathError('WARMPATH_INVALID_BODY', 'the body cannot be read', { cause })
  }
}

/** The same request with the text of its whole prompt. */
export function readWhole(read: ReadRequest, sink: TextSink): ReadRequest {
  const { body, dialect } = read
  const facts = body === undefined ? read.facts : factsOf(body, dialect, sink, 0)
  return { ...read, recalled: undefined, facts }
}

function isBytes(raw: Uint8Array | string | undefined): raw is Uint8Array {
  return raw !== undefined && typeof raw !== 'string'
}

function bodyOf(
  request: TurnRequest,
  raw: Uint8Array | string | undefined,
): Record<string, unknown> | undefined {
  const { body, tokens, hashes } = request
  if (body === undefined && raw !== undefined) return checkObject(parseJson(raw))
  if (body === undefined && (tokens !== undefined || hashes !== undefined)) return undefined
  return checkObject(body)
}

/** What is known was looked at when it was sent first. */
function factsOf(
  body: Record<string, unknown>,
  dialect: Dialect,
  sink: TextSink,
  known: number,
): RequestFacts {
  const items = known === 0 ? undefined : body[dialect.items]
  if (!Array.isArray(items)) checkLevels(body)
  else for (let at = known; at < items.length; at += 1) checkItem(items[at])
  return dialect.read(body, { sink, known })
}

/** Above an item are the body and the list. */
function checkItem(item: unknown): void {
  if (typeof item === 'object' && item !== null) checkLevels(item, 2)
}

/**
 * The session that headers and body name as those of a turn do; absent where they name none. Throws
 * INVALID_BODY for a body that throws.
 */
export function sessionOf(
  headers: HeaderMap,
  body: unknown,
  rules: RequestRules,
): NamedSession | undefined {
  const { session } = readable(() => identify(headers, body))
  return session === undefined ? undefined : { session, tenant: tenantOf(headers, rules) }
}

type TenantRule = (headers: HeaderMap) => string | undefined

/** Of a function, or of the header that names the tenant. */
export function tenantRule(given: string | TenantRule | undefined): TenantRule | undefined {
  return typeof given === 'string' ? (headers) => headers.get(given) : given
}

/** Credentials are secrets: only a short digest of one leaves this function. */
export function tenantOf(headers: HeaderMap, rules: RequestRules): string {
  const named = id(rules.tenant?.(headers) ?? '', 'identity.tenant')
  if (named !== '') return named
  for (const name of CREDENTIALS) {
    const credential = headers.get(name)
    if (credential) return digestOf(credential)
  }
  return ''
}

/** Digests of the credentials that came lately: one costs as much as the rest of a small request. */
const digests = new Map<string, string>()
const KEPT_DIGESTS = 256

function digestOf(credential: string): string {
  const known = digests.get(credential)
  if (known !== undefined) return known
  const digest = hash('sha256', credential).slice(0, TENANT_HEX)
  if (digests.size >= KEPT_DIGESTS) digests.clear()
  digests.set(credential, digest)
  return digest
}

function identityOf(
  request: TurnRequest,
  headers: HeaderMap,
  body: Record<string, unknown> | undefined,
): Identity {
  const found = identify(headers, body)
  const parent = request.parent === undefined ? undefined : id(request.parent, 'parent')
  // An empty name is none, as an empty header is.
  if (request.session === undefined || request.session === '') {
    return parent === undefined || parent === found.session ? found : { ...found, parent }
  }
  const session = id(request.session, 'session')
  const { final, compaction } = found
  const known = parent === undefined || parent === session ? {} : { parent }
  return { session, final, compaction, source: 'request', ...known }
}

/** The kind of work that a request names; empty when it names none. */
export function routeOf({ route }: TurnRequest): string {
  return route === undefined ? '' : id(route, 'route')
}

function id(value: unknown, what: string): string {
  if (typeof value !== 'string' || Buffer.byteLength(value) > MAX_ID_BYTES) {
    throw new WarmpathError(
      'WARMPATH_INVALID_ARGUMENT',
      `${what} must be a string of at most ${MAX_ID_BYTES} bytes`,
    )
  }
  return value
}
