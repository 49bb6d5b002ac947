/**
 * Question: of what kind is the failure of a worker?
 *
 * An UpstreamFailure has a kind, by which it is decided whether a turn may go elsewhere; its message
 * names no address, since an address may hold credentials.
 */
import { WarmpathError } from '../index.js'

/** `refused`: no connection came about. `lost`: it broke. `slow`: a time limit passed. */
type FailureKind = 'refused' | 'lost' | 'slow' | 'aborted'

/** Why a worker gave no answer, or not the whole of one. */
class UpstreamFailure extends WarmpathError {
  readonly kind: FailureKind

  constructor(kind: FailureKind, cause: unknown) {
    const code = kind === 'aborted' ? 'WARMPATH_ABORTED' : 'WARMPATH_UPSTREAM'
    super(code, FAILURE_TEXT[kind], kind === 'slow' ? { cause, status: 504 } : { cause })
    this.kind = kind
  }
}

const FAILURE_TEXT: Readonly<Record<FailureKind, string>> = {
  refused: 'the worker did not accept a connection',
  lost: 'the connection with the worker broke',
  slow: 'the worker took too long',
  aborted: 'the request was given up',
}

const KIND_OF_CODE: Readonly<Record<string, FailureKind>> = {
  ECONNREFUSED: 'refused',
  EHOSTUNREACH: 'refused',
  ENETUNREACH: 'refused',
  ENOTFOUND: 'refused',
  EAI_AGAIN: 'refused',
  ETIMEDOUT: 'refused',
  UND_ERR_CONNECT_TIMEOUT: 'refused',
  UND_ERR_HEADERS_TIMEOUT: 'slow',
  UND_ERR_BODY_TIMEOUT: 'slow',
}

/** Throws what is no failure of the worker but a fault in the request. */
function failureOf(error: unknown, signal: AbortSignal): UpstreamFailure {
  if (error instanceof UpstreamFailure) return error
  if (signal.aborted) return new UpstreamFailure('aborted', error)
  if (error instanceof TypeError || codeOf(error) === 'UND_ERR_INVALID_ARG') throw error
  return new UpstreamFailure(KIND_OF_CODE[codeOf(error)] ?? 'lost', error)
}

/** A failed connection to a name with several addresses is an AggregateError without a code. */
function codeOf(error: unknown): string {
  if (error instanceof AggregateError) return codeOf(error.errors[0])
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : ''
}

export { failureOf, UpstreamFailure }
