/** What engines tell of themselves over HTTP. */

export { type Answer, askedText, boundedText, causeOf } from './answer.js'
export { type MasterFound, MasterWatch } from './master.js'
export { type EngineMetrics, readMetrics } from './metrics.js'
export {
  baseOf,
  LONGEST_METRICS,
  METRICS_PATHS,
  MetricsPoller,
  type Polled,
  type PollerOptions,
} from './poller.js'
export { EventPuller, type PullerOptions } from './puller.js'
export { type NoTokens, readTokens, TokenSourceOfEngine, tokenList } from './tokens.js'
