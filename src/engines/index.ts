/** What engines tell of themselves over HTTP. */

export { type EngineMetrics, readMetrics } from './metrics.js'
export { type NoTokens, readTokens, TokenSourceOfEngine } from './tokens.js'
