/**
 * Which error is this, and what should a caller or an HTTP client be told?
 *
 * One class for everything that Warmpath throws. `code` is stable and is what programs compare;
 * the message is for people and may change. docs/errors.md lists each code with what to do about
 * it, and a test keeps that table and this list equal.
 *
 * Two copies of the package may live in one process (a gateway and a plug-in of it), so an error is
 * recognised by a brand from the global symbol registry and not by `instanceof`.
 */

/** HTTP status that a gateway answers with, by code. The keys are the whole list of codes. */
const STATUS = {
  WARMPATH_CONFIG: 500,
  WARMPATH_INVALID_ARGUMENT: 400,
  WARMPATH_INVALID_BODY: 400,
  WARMPATH_UNSUPPORTED_ENCODING: 415,
  WARMPATH_UNSUPPORTED_PATH: 404,
  WARMPATH_UNKNOWN_MODEL: 404,
  WARMPATH_NO_WORKER: 503,
  WARMPATH_OWNER_UNAVAILABLE: 503,
  WARMPATH_STATE_LOST: 409,
  WARMPATH_HOLD_LIMIT: 503,
  WARMPATH_QUEUE_FULL: 503,
  WARMPATH_ABORTED: 499,
  WARMPATH_CLOSED: 503,
  WARMPATH_DUPLICATE_ID: 409,
  WARMPATH_UNKNOWN_ID: 404,
  WARMPATH_TOO_MANY_RESERVATIONS: 429,
  WARMPATH_BODY_TOO_LARGE: 413,
  WARMPATH_CLIENT_SLOW: 408,
  WARMPATH_OVERLOADED: 503,
  WARMPATH_SNAPSHOT_INVALID: 400,
  WARMPATH_SNAPSHOT_VERSION: 400,
  WARMPATH_SNAPSHOT_SUPERSEDED: 409,
  WARMPATH_SNAPSHOT_NOT_FRESH: 409,
  WARMPATH_TRACE: 400,
  WARMPATH_PANIC: 500,
  WARMPATH_UNSUPPORTED_PLATFORM: 500,
  WARMPATH_UPSTREAM: 502,
} as const

type ErrorCode = keyof typeof STATUS

const ERROR_CODES = Object.freeze(Object.keys(STATUS)) as readonly ErrorCode[]

const BRAND: unique symbol = Symbol.for('warmpath.error') as never

interface ErrorOptions {
  /** What made this error; kept as the standard `cause`. */
  cause?: unknown
  /** Facts for programs, such as the name of the option at fault. */
  detail?: Readonly<Record<string, unknown>>
  /** Seconds, >= 0: when a repeat is worth trying. */
  retryAfterSeconds?: number
  /** An HTTP status that fits better than the usual one of the code. */
  status?: number
}

class WarmpathError extends Error {
  readonly code: ErrorCode
  /** HTTP status to answer with, 400 to 599. */
  readonly status: number
  declare readonly detail?: Readonly<Record<string, unknown>>
  declare readonly retryAfterSeconds?: number

  constructor(code: ErrorCode, message: string, options: ErrorOptions = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.name = 'WarmpathError'
    this.code = code
    this.status = options.status ?? STATUS[code]
    if (options.detail !== undefined) this.detail = options.detail
    if (options.retryAfterSeconds !== undefined) this.retryAfterSeconds = options.retryAfterSeconds
    Object.defineProperty(this, BRAND, { value: true })
  }

  /** Whether `value` is such an error, made by this copy of the package or by another. */
  static is(value: unknown): value is WarmpathError {
    return typeof value === 'object' && value !== null && Reflect.get(value, BRAND) === true
  }
}

/** Whether `code` is one of the stable codes. */
function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && Object.hasOwn(STATUS, code)
}

/**
 * What a native call threw, as a WarmpathError. Our own codes are kept; an argument that the
 * addon's glue could not convert is WARMPATH_INVALID_ARGUMENT; the rest is a fault of ours and is
 * WARMPATH_PANIC. The original stays as `cause`.
 */
function fromNative(error: unknown): WarmpathError {
  if (WarmpathError.is(error)) return error
  const isObject = typeof error === 'object' && error !== null
  const code: unknown = isObject ? Reflect.get(error, 'code') : undefined
  const message = error instanceof Error ? error.message : String(error)
  const known = isErrorCode(code) ? code : codeOfGlue(code)
  const retry = RECOVERS.has(known) ? { retryAfterSeconds: 1 } : {}
  return new WarmpathError(known, message, { cause: error, ...retry })
}

/** What the next second may mend: a worker that comes back, a turn that ends. */
const RECOVERS: ReadonlySet<ErrorCode> = new Set([
  'WARMPATH_NO_WORKER',
  'WARMPATH_OWNER_UNAVAILABLE',
  'WARMPATH_TOO_MANY_RESERVATIONS',
])

/** napi-rs names a failed conversion `InvalidArg` or `<Type>Expected`. */
function codeOfGlue(code: unknown): ErrorCode {
  const conversion =
    typeof code === 'string' && (code === 'InvalidArg' || code.endsWith('Expected'))
  return conversion ? 'WARMPATH_INVALID_ARGUMENT' : 'WARMPATH_PANIC'
}

export type { ErrorCode, ErrorOptions }
export { ERROR_CODES, fromNative, isErrorCode, WarmpathError }
