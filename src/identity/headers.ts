/**
 * The headers of a request as one lower-case map, whatever shape the caller's server has them in.
 *
 * Knows nothing of what a header means. O(headers). Trusts nothing: entries that are not strings
 * are left out, and a value that is no collection of headers gives an empty map.
 */

/** Lower-case names; the first non-empty value of a repeated header, trimmed. */
type HeaderMap = ReadonlyMap<string, string>

/**
 * `Headers`, a `Map`, pairs, Node's flat `rawHeaders` array, or a plain object whose values may be
 * arrays (Node's `headers`, Fastify, undici).
 */
type HeadersLike =
  | Iterable<readonly [string, string | readonly string[] | undefined]>
  | readonly string[]
  | Readonly<Record<string, string | readonly string[] | undefined>>

/** Reads any shape of {@link HeadersLike}; never throws. */
function readHeaders(headers: HeadersLike | null | undefined): HeaderMap {
  const map = new Map<string, string>()
  if (typeof headers !== 'object' || headers === null) return map
  for (const [name, value] of entriesOf(headers)) {
    if (typeof name !== 'string') continue
    const first = Array.isArray(value) ? value.find((v) => typeof v === 'string') : value
    if (typeof first !== 'string') continue
    const key = name.toLowerCase()
    if (!map.get(key)) map.set(key, first.trim())
  }
  return map
}

function* entriesOf(headers: object): Iterable<readonly [unknown, unknown]> {
  if (Array.isArray(headers) && typeof headers[0] === 'string') {
    for (let i = 0; i + 1 < headers.length; i += 2) yield [headers[i], headers[i + 1]]
  } else if (Symbol.iterator in headers) {
    for (const entry of headers as Iterable<unknown>) {
      if (Array.isArray(entry)) yield [entry[0], entry[1]]
    }
  } else {
    yield* Object.entries(headers)
  }
}

export type { HeaderMap, HeadersLike }
export { readHeaders }
