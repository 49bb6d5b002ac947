/**
 * Headers that belong to one connection or to the bytes of one message. Whoever opens the
 * connection writes them; a worker's headers cannot set them and nothing passes them on.
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
