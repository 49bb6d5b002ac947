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
  if (Array.isArray(headers) && typeof headers[0] === 'string') {
    for (let i = 0; i + 1 < headers.length; i += 2) add(map, headers[i], headers[i + 1])
  } else if (Symbol.iterator in headers) {
    for (const entry of headers as Iterable<unknown>) {
      if (Array.isArray(entry)) add(map, entry[0], entry[1])
    }
  } else {
    for (const name of Object.keys(headers)) add(map, name, Reflect.get(headers, name))
  }
  return map
}

function add(map: Map<string, string>, name: unknown, value: unknown): void {
  if (typeof name !== 'string') return
  const first = Array.isArray(value) ? value.find((v) => typeof v === 'string') : value
  if (typeof first !== 'string') return
  const key = name.toLowerCase()
  if (!map.get(key)) map.set(key, first.trim())
}

export type { HeaderMap, HeadersLike }
export { readHeaders }
