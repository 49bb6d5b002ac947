/**
 * Question: what does a worker answer, or how exactly did it fail to?
 *
 * One pooled agent for all workers. `call` resolves once the answer has begun: its head is there
 * and, where it succeeded, also the first bytes of its body, so that whoever called may still go
 * elsewhere when a worker dies between the two. The answer is a web Response whose body is pulled,
 * never pushed: nothing is read from a worker that nobody reads from us, beyond a socket's buffers.
 *
 * Failures are an UpstreamFailure with a kind; its message names no address, since an address may
 * hold credentials. It knows no turns and retries nothing.
 */
import { Agent, type Dispatcher } from 'undici'
import { WarmpathError } from '../index.js'
import type { Timeouts } from './config.js'

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

/** What a request needs; `Turn.init` has it. */
interface UpstreamRequest {
  url: string
  method: string
  headers: Record<string, string>
  body?: string | Uint8Array | undefined
}

/** The connections with all workers. */
class Upstream {
  readonly #agent: Agent

  constructor(timeouts: Timeouts) {
    this.#agent = new Agent({
      connect: { timeout: timeouts.connectMs },
      headersTimeout: timeouts.headersMs,
      bodyTimeout: timeouts.bodyIdleMs,
      // Python servers close idle connections after 5 s; a shorter time here avoids that race.
      keepAliveTimeout: 4_000,
    })
  }

  /** Throws UpstreamFailure. The signal cancels the body too. */
  async call(request: UpstreamRequest, signal: AbortSignal): Promise<Response> {
    try {
      const target = new URL(request.url)
      const answer = await this.#agent.request({
        origin: target.origin,
        path: target.pathname + target.search,
        method: request.method as Dispatcher.HttpMethod,
        headers: request.headers,
        body: request.body ?? null,
        signal,
      })
      return await begun(answer, signal)
    } catch (error) {
      throw failureOf(error, signal)
    }
  }

  /** Waits for nothing: open requests fail. */
  async close(): Promise<void> {
    await this.#agent.destroy()
  }
}

const NULL_BODY: ReadonlySet<number> = new Set([204, 205, 304])

/** The answer once it has begun; whatever goes wrong until then lets go of its connection. */
async function begun(answer: Dispatcher.ResponseData, signal: AbortSignal): Promise<Response> {
  const { statusCode: status, body } = answer
  // Destroying it is also an error event, which ends the process when nobody listens.
  body.on('error', () => {})
  try {
    const init = { status, headers: webHeaders(answer.headers) }
    if (NULL_BODY.has(status)) {
      await body.dump()
      return new Response(null, init)
    }
    const pieces = body[Symbol.asyncIterator]() as AsyncIterator<Buffer>
    const first = status < 300 ? await pieces.next() : undefined
    const drop = () => void body.destroy()
    return new Response(pulled({ pieces, first, drop }, signal), init)
  } catch (error) {
    body.destroy()
    throw error
  }
}

interface Source {
  pieces: AsyncIterator<Buffer>
  /** What was read already. */
  first: IteratorResult<Buffer> | undefined
  /** Gives the rest up, also while a piece is being waited for. */
  drop: () => void
}

/** A body that reads ahead by nothing. */
function pulled({ pieces, first, drop }: Source, signal: AbortSignal): ReadableStream<Uint8Array> {
  let waiting = first
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
    try {
      const piece = waiting ?? (await pieces.next())
      waiting = undefined
      if (piece.done) controller.close()
      else controller.enqueue(piece.value)
    } catch (error) {
      controller.error(failureOf(error, signal))
    }
  }
  return new ReadableStream({ pull, cancel: drop }, { highWaterMark: 0 })
}

function webHeaders(raw: Dispatcher.ResponseData['headers']): Headers {
  const headers = new Headers()
  for (const [name, value] of Object.entries(raw)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined) headers.append(name, one)
    }
  }
  return headers
}

/** Throws what is no failure of the worker but a fault in the request. */
function failureOf(error: unknown, signal: AbortSignal): UpstreamFailure {
  if (error instanceof UpstreamFailure) return error
  if (error instanceof TypeError || codeOf(error) === 'UND_ERR_INVALID_ARG') throw error
  if (signal.aborted) return new UpstreamFailure('aborted', error)
  return new UpstreamFailure(KIND_OF_CODE[codeOf(error)] ?? 'lost', error)
}

/** A failed connection to a name with several addresses is an AggregateError without a code. */
function codeOf(error: unknown): string {
  if (error instanceof AggregateError) return codeOf(error.errors[0])
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : ''
}

export { Upstream, UpstreamFailure, type UpstreamRequest }
