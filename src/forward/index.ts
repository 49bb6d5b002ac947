/**
 * What crosses the router: headers, addresses, bodies.
 *
 * For gateways: `responseHeaders(response.headers)` is what may be sent on to the client, and
 * `requestHeaders` what a request to an upstream carries beside `turn.init`, which has used it
 * already. `upstreamUrl` joins a worker's base with a client's path the way turns do.
 */
export { type Change, changed } from './change.js'
export { type HeaderPlan, hasOwnCredential, requestHeaders, responseHeaders } from './headers.js'
export { ASK_FOR_TOKENS, TokenIds, type TokenIdsPlan } from './token-ids.js'
export { upstreamUrl, withoutCredentials } from './url.js'
export { ASK_FOR_USAGE, UsageChunkFilter } from './usage.js'
