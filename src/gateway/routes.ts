/**
 * Question: which handler answers a method and a path?
 *
 * A table, tried in order. A route that is `exact` owns its paths: another method there is 405. The
 * others let a method that they do not know fall through, because below `/v1/` a worker may know
 * more than this gateway does; there the last route passes everything on.
 *
 * The wire APIs are also found without `/v1`, since clients differ in what they count as base URL.
 */
import { WarmpathError } from '../index.js'
import type { Exchange } from './exchange.js'
import {
  endSession,
  serveHealth,
  serveMetrics,
  serveModel,
  serveModels,
  serveReceipt,
  serveStatus,
} from './inspect.js'
import { passOn, passToOwner } from './pass.js'
import { toolEnded, toolStarted } from './tools.js'
import { type Parts, serveTurn } from './turns.js'

/** `id` is what the path's one variable part holds, decoded. */
type Handler = (parts: Parts, exchange: Exchange, id: string) => void | Promise<void>

interface Route {
  path: RegExp
  methods: readonly string[]
  owns: 'every method' | 'these methods'
  handler: Handler
}

const READ = ['GET', 'HEAD'] as const

function exact(path: RegExp, methods: readonly string[], handler: Handler): Route {
  return { path, methods, owns: 'every method', handler }
}

function open(path: RegExp, methods: readonly string[], handler: Handler): Route {
  return { path, methods, owns: 'these methods', handler }
}

const ANY_METHOD = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

const ROUTES: readonly Route[] = [
  exact(/^\/healthz$/, READ, serveHealth),
  exact(/^\/status$/, READ, serveStatus),
  exact(/^\/metrics$/, READ, serveMetrics),
  exact(/^\/receipts\/([^/]+)$/, READ, serveReceipt),
  exact(/^\/sessions\/([^/]+)$/, ['DELETE'], endSession),
  exact(/^\/tools\/started$/, ['POST'], toolStarted),
  exact(/^\/tools\/ended$/, ['POST'], toolEnded),
  exact(/^\/v1\/models$/, READ, serveModels),
  // Names of models may have slashes in them, and clients send these as they are.
  open(/^\/v1\/models\/(.+)$/, READ, serveModel),
  exact(/^\/v1\/(?:chat\/completions|responses|messages)$/, ['POST'], serveTurn),
  open(/^\/v1\/responses\/compact$/, ['POST'], serveTurn),
  open(/^\/v1\/responses\/([^/]+)$/, ['GET', 'DELETE'], passToOwner),
  open(/^\/v1\/responses\/([^/]+)\/cancel$/, ['POST'], passToOwner),
  open(/^\/v1\/responses\/([^/]+)\/input_items$/, ['GET'], passToOwner),
  open(/^\/v1\/./, ANY_METHOD, passOn),
]

/** Paths that get the `/v1` which the client left out. */
const UNVERSIONED = /^\/(?:chat\/completions|responses|messages|models)(?:\/|$)/

/** A path as the routes know it: versioned, without a slash at its end. */
function canonicalPath(pathname: string): string {
  const trimmed = pathname.length > 1 ? pathname.replace(/\/$/, '') : pathname
  return UNVERSIONED.test(trimmed) ? `/v1${trimmed}` : trimmed
}

/** Throws WARMPATH_UNSUPPORTED_PATH, with status 405 where the path exists. */
function route(parts: Parts, exchange: Exchange): void | Promise<void> {
  const method = exchange.req.method ?? ''
  for (const { path, methods, owns, handler } of ROUTES) {
    const match = path.exec(exchange.pathname)
    if (!match) continue
    if (methods.includes(method)) return handler(parts, exchange, decoded(match[1] ?? ''))
    if (owns === 'every method') throw methodNotAllowed(methods)
  }
  throw new WarmpathError('WARMPATH_UNSUPPORTED_PATH', 'there is nothing at this path')
}

function methodNotAllowed(methods: readonly string[]): WarmpathError {
  const allow = methods.join(', ')
  return new WarmpathError('WARMPATH_UNSUPPORTED_PATH', `methods allowed here: ${allow}`, {
    status: 405,
    detail: { allow },
  })
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new WarmpathError('WARMPATH_INVALID_ARGUMENT', 'the path is not valid percent-encoding')
  }
}

export { canonicalPath, route }
