/**
 * Traces: one record at the end of each answer, and where it goes.
 *
 * `Recorder` makes records and hands them to sinks; `jsonl`, `diagnostics` and `otel` are sinks. A
 * program's own is a function or an object of the shape of `TraceSink`.
 */
export { diagnostics } from './diagnostics.js'
export { formatRecord } from './format.js'
export { type JsonlOptions, jsonl, type RotateOptions } from './jsonl.js'
export { type OtelOptions, type OtelSpan, type OtelTracer, otel } from './otel.js'
export { keptSteps, openRecorder, type Recorder, type TraceStatus } from './recorder.js'
export type { Told, TurnTrace } from './turn.js'
