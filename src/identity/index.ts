/**
 * Who sends this request: which session, which parent, is it the session's last, is it a
 * compaction?
 *
 * One table (rows.ts) says where each client writes its ids and in which order they count; this
 * file is its only interpreter. The first row whose root id is present decides alone: ids of two
 * rows are never mixed, since the parent of one scheme means nothing to the session of another.
 *
 * Identity is a claim of the client. It does not move a turn by itself, and whoever keys state by
 * it must scope it by tenant. O(rows); ids of a sane size are not copied.
 */
import type { HeaderMap, HeadersLike } from './headers.js'
import { readHeaders } from './headers.js'
import { parentId, sessionId } from './id.js'
import type { Place, Row } from './rows.js'
import { COMPACTION, FINAL, ROWS } from './rows.js'

interface Identity {
  /** At most 256 bytes; absent when the client gave none. */
  session?: string
  /** The session that started this one; never equal to `session`. */
  parent?: string
  /** Nothing will follow for this session. Only ever true together with a session. */
  final: boolean
  /** Name of the table's row that decided, or `none`. */
  source: string
  /** The client asks for a summary of its own history. */
  compaction: boolean
}

/** Reads the identity of a request. `body` is the parsed JSON or anything else; never throws. */
function identify(headers: HeaderMap, body: unknown): Identity {
  const read = (place: Place) => place(headers, body)
  const compaction = COMPACTION.some((marker) => read(marker.place) === marker.value)
  for (const row of ROWS) {
    const root = first(row.root, read)
    if (root === undefined) continue
    const { session, parent } = resolve(row, root, read)
    const final = FINAL.some((place) => isTrue(read(place)))
    const identity: Identity = { session, final, source: row.name, compaction }
    if (parent !== undefined && parent !== session) identity.parent = parent
    return identity
  }
  return { final: false, source: 'none', compaction }
}

/** Session and parent of the row that decided. */
function resolve(row: Row, root: string, read: (place: Place) => string | undefined) {
  const child = row.child && first(row.child, read)
  if (row.child !== undefined && child === undefined) {
    return { session: sessionId(root), parent: undefined }
  }
  const parent = first(row.parent, read) ?? (child === undefined ? undefined : root)
  return { session: sessionId(child ?? root), parent: parentId(parent) }
}

function first(places: readonly Place[], read: (place: Place) => string | undefined) {
  for (const place of places) {
    const value = read(place)
    if (value !== undefined) return value
  }
  return undefined
}

function isTrue(value: string | undefined): boolean {
  return value === '1' || value?.toLowerCase() === 'true'
}

export type { HeaderMap, HeadersLike, Identity }
export { identify, readHeaders }
