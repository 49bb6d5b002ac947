/**
 * `warmpath serve` as a function: an HTTP server that speaks the three wire APIs and sends every
 * turn where the scheduler says. Nothing in here is imported from below the package's own public
 * surface, so it is also the largest example of how to use it.
 */
export { type GatewayConfig, readConfig } from './config.js'
export { loadConfig, readText } from './file.js'
export { checkConfig, type Gateway, startGateway } from './server.js'
