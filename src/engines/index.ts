/** What engines tell of themselves over HTTP. */

export { boundedText, causeOf } from './answer.js'
export { type MasterFound, MasterWatch } from './master.js'
export { type EngineMetrics, readMetrics } from './metrics.js'
export { MetricsPoller, type Polled, type PollerOptions } from './poller.js'
export { EventPuller, type PullerOptions } from './puller.js'
export { type NoTokens, readTokens, TokenSourceOfEngine } from './tokens.js'
