/**
 * A span for each turn, through the OpenTelemetry tracer that the program has.
 *
 * The package is not a dependency: the tracer is given, and only what is used of it is asked for.
 * Spans are made when a turn has ended, with the times at which things happened, and named as the
 * semantic conventions of generative AI have it; what these have no word for is `warmpath.*`.
 * Blocks stay out: they are thousands of numbers. Spans have no parent, since the context of the
 * request is gone by then.
 */
import { refuse } from '../config/check.js'
import type { TraceSink } from '../config/index.js'
import type { TraceRecord } from '../telemetry/index.js'

type Value = string | number | boolean | string[]

/** What is used of a span of `@opentelemetry/api`. */
export interface OtelSpan {
  addEvent(name: string, attributes: Record<string, Value>, time: number): unknown
  setStatus(status: { code: number; message?: string }): unknown
  end(time: number): void
}

/** What is used of a tracer of `@opentelemetry/api`. */
export interface OtelTracer {
  startSpan(
    name: string,
    options: { kind: number; startTime: number; attributes: Record<string, Value> },
  ): OtelSpan
}

export interface OtelOptions {
  /** Such as `trace.getTracer('warmpath')`. */
  tracer: OtelTracer
}

/** Numbers of `SpanKind` and `SpanStatusCode` in that package. */
const KIND_CLIENT = 2
const STATUS_ERROR = 2

/** Throws CONFIG unless a tracer is given. */
export function otel(options: OtelOptions): TraceSink {
  const tracer: OtelTracer | undefined = options?.tracer
  if (typeof tracer?.startSpan !== 'function') {
    refuse('otel.tracer', 'must be a tracer of OpenTelemetry')
  }
  return {
    write: (records) => {
      for (const record of records) span(tracer, record)
    },
  }
}

function span(tracer: OtelTracer, { event }: TraceRecord): void {
  const { request, warmpath } = event
  const { received, held, first_token: firstToken, end } = warmpath.timings
  const name = request.model === undefined ? 'chat' : `chat ${request.model}`
  const made = tracer.startSpan(name, {
    kind: KIND_CLIENT,
    startTime: received,
    attributes: attributes(event),
  })
  if (held > 0) made.addEvent('warmpath.go', { 'warmpath.held_ms': held }, received + held)
  if (firstToken !== undefined) made.addEvent('warmpath.first_token', {}, firstToken)
  const reason = request.finish_reason_metadata.finish_reason
  if (reason === 'error') made.setStatus({ code: STATUS_ERROR, message: 'the worker failed' })
  made.end(end)
}

function attributes({ request, warmpath }: TraceRecord['event']): Record<string, Value> {
  const reason = request.finish_reason_metadata.finish_reason
  const all: Record<string, Value | undefined> = {
    'gen_ai.operation.name': 'chat',
    'gen_ai.request.model': request.model,
    'gen_ai.conversation.id': warmpath.session,
    'gen_ai.usage.input_tokens': request.input_tokens,
    'gen_ai.usage.output_tokens': request.output_tokens,
    'gen_ai.usage.cache_read.input_tokens': request.cached_tokens,
    'gen_ai.response.finish_reasons': reason === undefined ? undefined : [reason],
    'warmpath.request_id': request.request_id,
    'warmpath.parent': warmpath.parent,
    'warmpath.turn': warmpath.turn,
    'warmpath.phase': warmpath.phase,
    'warmpath.worker': request.worker.decode_worker_id,
    'warmpath.rank': request.worker.decode_dp_rank,
    'warmpath.predicted_cached_tokens': warmpath.predicted_cached_tokens,
    'warmpath.blocks': request.replay.input_sequence_hashes.length,
    'warmpath.held_ms': warmpath.timings.held,
    'warmpath.tools': warmpath.tools && [...warmpath.tools],
    'warmpath.receipt_id': warmpath.receipt_id,
  }
  const known = Object.entries(all).filter((entry): entry is [string, Value] => {
    return entry[1] !== undefined
  })
  return Object.fromEntries(known)
}
