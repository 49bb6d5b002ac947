/**
 * What a gateway hands in, read once: body bytes -> JSON -> facts, headers -> identity and tenant.
 *
 * Knows nothing of workers and targets. A body comes parsed or raw; raw bytes are decoded, within
 * `limits.bodyBytes`, and kept so that they can be sent on as they came. Cost: parsing, one walk and
 * canonical text, all linear in the body. Trusts nothing; throws UNSUPPORTED_PATH, INVALID_BODY,
 * UNSUPPORTED_ENCODING, BODY_TOO_LARGE, INVALID_ARGUMENT.
 */
import { hash } from 'node:crypto'
import { type Dialect, dialectOf, type RequestFacts } from '../dialects/index.js'
import { WarmpathError } from '../errors.js'
import {
  type HeaderMap,
  type HeadersLike,
  type Identity,
  identify,
  readHeaders,
} from '../identity/index.js'
import { checkBody, parseBody } from './bounds.js'
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
  /** The body as it came; sent on untouched where nothing must change. */
  raw?: Uint8Array | string
  /** The prompt's exact tokens, in place of canonical text. */
  tokens?: Uint32Array
  /** Chain hashes of the prompt's blocks, in place of canonical text. */
  hashes?: BigUint64Array
  /** Aborting it ends the turn, held or running. */
  signal?: AbortSignal
  /** Called when the turn is held and, at most once a second, when its place has changed. */
  onHold?: (hold: Hold) => void
  /** In place of the body's model name. */
  model?: string
  /** In place of what headers and body say. */
  session?: string
  parent?: string
}

/** A turn that waits for admission. */
export interface Hold {
  readonly id: string
  /** 1 is next among the held of its group. */
  readonly position: number
  readonly heldMs: number
  /** Whether the client asked for a stream, which may be kept alive with `dialect.keepAlive`. */
  readonly stream: boolean
}

export interface ReadRequest {
  readonly path: string
  readonly dialect: Dialect
  readonly headers: HeaderMap
  readonly tenant: string
  readonly identity: Identity
  /** Model name asked for. */
  readonly model?: string
  /** Absent when only tokens or hashes were given. */
  readonly body?: Record<string, unknown>
  readonly facts?: RequestFacts
  /** Decoded body bytes as they came. */
  readonly raw?: Uint8Array | string
}

export interface RequestRules {
  readonly bodyBytes: number
  readonly tenant?: (headers: HeaderMap) => string | undefined
}

const MAX_ID_BYTES = 256
const TENANT_HEX = 16
const CREDENTIAL_HEADERS = ['authorization', 'x-api-key', 'api-key']

export function readRequest(request: TurnRequest, rules: RequestRules): ReadRequest {
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
  const facts = body === undefined ? undefined : dialect.read(body)
  const model = request.model ?? facts?.model
  return {
    path,
    dialect,
    headers,
    tenant: tenantOf(headers, rules),
    identity: identityOf(request, headers, body),
    ...(model === undefined ? {} : { model }),
    ...(body === undefined ? {} : { body }),
    ...(facts === undefined ? {} : { facts }),
    ...(raw === undefined ? {} : { raw }),
  }
}

function bodyOf(
  request: TurnRequest,
  raw: Uint8Array | string | undefined,
): Record<string, unknown> | undefined {
  const { body, tokens, hashes } = request
  if (body === undefined && raw !== undefined) return parseBody(raw)
  if (body === undefined && (tokens !== undefined || hashes !== undefined)) return undefined
  return checkBody(body)
}

/** Credentials are secrets: only a short digest of one leaves this function. */
export function tenantOf(headers: HeaderMap, rules: RequestRules): string {
  if (rules.tenant !== undefined) return id(rules.tenant(headers) ?? '', 'identity.tenant')
  for (const name of CREDENTIAL_HEADERS) {
    const credential = headers.get(name)
    if (credential) return hash('sha256', credential).slice(0, TENANT_HEX)
  }
  return ''
}

function identityOf(
  request: TurnRequest,
  headers: HeaderMap,
  body: Record<string, unknown> | undefined,
): Identity {
  const found = identify(headers, body)
  const parent = request.parent === undefined ? undefined : id(request.parent, 'parent')
  if (request.session === undefined) {
    return parent === undefined || parent === found.session ? found : { ...found, parent }
  }
  const session = id(request.session, 'session')
  const { final, compaction } = found
  const known = parent === undefined || parent === session ? {} : { parent }
  return { session, final, compaction, source: 'request', ...known }
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
