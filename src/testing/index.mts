export {
  defaultScript,
  type EngineDouble,
  type EngineDoubleOptions,
  type EngineDoubleStatus,
  type Fault,
  IssuerRegistry,
  type RequestEnd,
  type SampleSummary,
  type Script,
  type ScriptedAnswer,
  type ScriptRequest,
  startEngineDouble,
} from './index.js'
