/**
 * Options of a scheduler: their types, and the way from what was written to what is meant.
 */

export type { ModelPrice, PriceCatalogue, PriceOptions } from '../providers/index.js'
export type { BaseRuleOptions } from './base.js'
export { Catalog } from './catalog.js'
export { CREDENTIALS, HOP_BY_HOP, isSecretName, mayBeForwarded } from './connection.js'
export {
  asksForImages,
  type ContinuitySettings,
  type Grade,
  type ModelCard,
  type ModelPolicy,
  modelCard,
} from './continuity.js'
export { type EnvCredential, env } from './env.js'
export { isPulled } from './events.js'
export type { MetricsSettings } from './metrics.js'
export {
  type KeptSteps,
  nativeGroup,
  nativeModel,
  nativeOptions,
  nativePool,
  nativeTarget,
  nativeWorker,
  type TargetDetail,
  type WorkerDetail,
  workerDetail,
} from './native.js'
export type { PoolEntry } from './pool.js'
export { MOST_PRIORITY, type QueueClass, type QueueOptions, type QueueOrder } from './queue.js'
export { type ResolvedConfig, resolve, type TargetEntry } from './resolve.js'
export { identity } from './scope.js'
export { DEFAULT_SCORE } from './settings.js'
export { type Auth, DEFAULT_TARGET } from './target.js'
export type { PromptToTokenize, Tokenize, TokenSettings, TokenSource } from './tokens.js'
export type { TraceFunction, TraceOptions, TraceSettings, TraceSink } from './trace.js'
export type {
  AdmissionOptions,
  CacheOptions,
  CacheRuleOptions,
  ContinuityOptions,
  Credential,
  FanOutOptions,
  ForwardOptions,
  HysteresisOptions,
  IdentityOptions,
  KvEventsOptions,
  LimitOptions,
  Logger,
  MetricsOptions,
  OwnerDown,
  OwnerDownOptions,
  PoolLayoutOptions,
  PoolOptions,
  SaarOptions,
  SchedulerOptions,
  ScoreOptions,
  SessionAffinityOptions,
  TargetOptions,
  TokenOptions,
  WorkerOptions,
} from './types.js'
export { ADDED_WORKER_FIELDS, addedTargets, type WorkerEntry, workerEntry } from './worker.js'
