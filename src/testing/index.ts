/** The engine double: an inference server for tests and demos, without a model or a GPU. */
export {
  defaultScript,
  type Script,
  type ScriptedAnswer,
  type ScriptRequest,
} from './answer.js'
export {
  type EngineDouble,
  type EngineDoubleOptions,
  type EngineDoubleStatus,
  type Fault,
  type FaultOptions,
  startEngineDouble,
} from './double.js'
export type { RequestEnd } from './generation.js'
export { IssuerRegistry } from './issuer.js'
export type { SampleSummary } from './sample.js'
