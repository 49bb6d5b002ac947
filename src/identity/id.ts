/**
 * What an id may look like once it is inside: at most 256 bytes, no control characters, well formed.
 *
 * An id that breaks this is still the client's only name for its session, so a *session* is
 * replaced by a digest of it: equal ids stay equal, and nothing large or unprintable reaches a map,
 * a log or a header. A *parent* that breaks it is dropped, as Dynamo does: lineage is a bonus.
 */
import { createHash } from 'node:crypto'

const MAX_BYTES = 256

/** The id to use for a session; a digest (`sha256:` and 64 hex digits) if the given one is unfit. */
function sessionId(id: string): string {
  return isFit(id) ? id : `sha256:${createHash('sha256').update(id).digest('hex')}`
}

/** The id of a parent, or undefined if it is absent or unfit. */
function parentId(id: string | undefined): string | undefined {
  return id !== undefined && isFit(id) ? id : undefined
}

function isFit(id: string): boolean {
  if (id.length > MAX_BYTES) return false
  // Controls (C0, DEL, C1) and, thanks to the u flag, surrogates that have no partner.
  return !/[\p{Cc}\p{Cs}]/u.test(id) && Buffer.byteLength(id) <= MAX_BYTES
}

export { parentId, sessionId }
