/**
 * The public surface of the library, and all of it.
 */
import './platform.js'

export {
  type AdmissionOptions,
  type BaseRuleOptions,
  type CacheOptions,
  type CacheRuleOptions,
  type ContinuityOptions,
  type Credential,
  DEFAULT_SCORE,
  type EnvCredential,
  env,
  type FanOutOptions,
  type ForwardOptions,
  type Grade,
  type HysteresisOptions,
  type IdentityOptions,
  type KvEventsOptions,
  type LimitOptions,
  type Logger,
  type MetricsOptions,
  type ModelPolicy,
  type ModelPrice,
  type OwnerDown,
  type OwnerDownOptions,
  type PoolLayoutOptions,
  type PoolOptions,
  type PriceCatalogue,
  type PriceOptions,
  type PromptToTokenize,
  type QueueClass,
  type QueueOptions,
  type QueueOrder,
  type SaarOptions,
  type SchedulerOptions,
  type ScoreOptions,
  type SessionAffinityOptions,
  type TargetOptions,
  type Tokenize,
  type TokenOptions,
  type TokenSource,
  type TraceFunction,
  type TraceOptions,
  type TraceSink,
  type WorkerOptions,
} from './config/index.js'
export {
  type Dialect,
  type DialectName,
  dialectOf,
  type RequestFacts,
  type ResponseFacts,
  type StreamReader,
  type Usage,
} from './dialects/index.js'
export { ERROR_CODES, type ErrorCode, type ErrorOptions, WarmpathError } from './errors.js'
export type { DrainOptions, ShedOptions } from './fleet/depart.js'
export type { AddedWorker } from './fleet/running.js'
export type { Reconfigured } from './fleet.js'
export { responseHeaders, upstreamUrl, withoutCredentials } from './forward/index.js'
export { type HeaderMap, type HeadersLike, readHeaders } from './identity/index.js'
export type {
  Candidate,
  CostRow,
  Disagreement,
  EngineStatus,
  EventsStatus,
  Evidence,
  MasterStatus,
  ModelChoice,
  ModelRow,
  PoolStatus,
  PublisherStatus,
  QueueStatus,
  Receipt,
  Refusal,
  Status,
  StreamStatus,
  Trust,
  TurnReason,
  WaitingTurn,
  Weighed,
  WorkerStatus,
} from './link/report.js'
export type { Restored, RestoreOptions } from './link/snapshot.js'
export type { HoldReason } from './link.js'
export type { Destination } from './scheduler/destinations.js'
export { Scheduler } from './scheduler.js'
export type {
  DecisionMessage,
  EndMessage,
  ErrorMessage,
  HoldMessage,
  TracedBlocks,
  TracedRequest,
  TracedToolCall,
  TracedTurn,
  TracedWorker,
  TraceEvent,
  TraceRecord,
} from './telemetry/index.js'
export {
  type MetricFamily,
  type MetricRegistry,
  type MetricValue,
  metricsText,
  registerMetrics,
} from './telemetry/index.js'
export {
  diagnostics,
  formatRecord,
  type JsonlOptions,
  jsonl,
  type OtelOptions,
  type OtelSpan,
  type OtelTracer,
  otel,
  type RotateOptions,
  type TraceStatus,
} from './trace/index.js'
export { parseBody } from './turn/bounds.js'
export { decodeBody } from './turn/encoding.js'
export type { Break, BreakCode } from './turn/portability.js'
export type { Hold, NamedSession, TurnRequest } from './turn/request.js'
export type { SessionLike, StartedTool, ToolOwner } from './turn/tools.js'
export type { AnswerWatch } from './turn/watch.js'
export type { AnswerFacts, Turn, TurnInit } from './turn.js'
