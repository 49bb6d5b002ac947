/**
 * Headers that belong to one connection or to the bytes of one message. Whoever opens the
 * connection writes them; a worker's headers cannot set them and nothing passes them on.
 *
 * And those that prove who asks: they go where a target's `credential` says, and no list adds them.
 */
export const HOP_BY_HOP: ReadonlySet<string> = new Set([
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade', 'http2-settings'],
])

/** Of a request, beside the hop-by-hop ones. */
export const OF_ONE_CONNECTION: ReadonlySet<string> = new Set([
  'host',
  'content-length',
  'content-encoding',
  'expect',
])

/** Prove who pays. */
export const CREDENTIALS: ReadonlySet<string> = new Set([
  'authorization',
  'x-api-key',
  'api-key',
  'x-goog-api-key',
])

/** What names of headers and of members of a query have in them that prove who asks. */
const SECRET = /key|token|secret|passw|signature|^sig$|jwt|auth|credential|cookie/i

/** Whether what has that name is to be taken for a secret. */
export function isSecretName(name: string): boolean {
  return SECRET.test(name)
}

/** Whether `forward.headers` may name it. */
export function mayBeForwarded(name: string): boolean {
  const isOfConnection = HOP_BY_HOP.has(name) || OF_ONE_CONNECTION.has(name)
  return !isOfConnection && !CREDENTIALS.has(name) && name !== 'cookie'
}
