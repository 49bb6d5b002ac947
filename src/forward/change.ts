/**
 * Question: what is a body with some of its members changed?
 *
 * Of a parsed one: a copy, in whose order of members nothing changes but what is new, which comes last.
 * Of bytes the same is done natively (turn/sent.ts).
 */

/** A value that a member of a body is to have. */
export interface Change {
  readonly name: string
  /** Of the member inside of it that is meant: all else in it is kept. */
  readonly inner?: string
  readonly value: string | true
}

/** Shallow copies of the body and of what is changed in it. */
export function changed(
  body: Record<string, unknown>,
  changes: readonly Change[],
): Record<string, unknown> {
  const copy = { ...body }
  for (const { name, inner, value } of changes) {
    copy[name] = inner === undefined ? value : { ...objectOf(copy[name]), [inner]: value }
  }
  return copy
}

function objectOf(value: unknown): object {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {}
}
