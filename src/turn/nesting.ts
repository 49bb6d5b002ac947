/**
 * Is this body a tree of JSON that may be worked on?
 *
 * Writing JSON costs V8 a look at every level above each value, so a body of some megabytes that is
 * thousands of levels deep would block a process for minutes, and one that is deeper still cannot be
 * written at all. Such a body is refused before anything else looks at it. So is what only a program
 * can hand in: an object that contains itself, which has no last level, and a BigInt.
 *
 * Cost: one visit of each array and object, strings unread; about a tenth of parsing the body. The
 * call depth is bounded by the limit. Trusts nothing.
 */
import { WarmpathError } from '../errors.js'

/** Levels of arrays and objects in a body, the body itself included. Agents send about 20. */
export const MAX_NESTING = 256

/** Throws INVALID_BODY. */
export function checkNesting(body: object): void {
  try {
    visit(body, MAX_NESTING)
  } catch (cause) {
    if (WarmpathError.is(cause)) throw cause
    throw new WarmpathError('WARMPATH_INVALID_BODY', 'the body cannot be read', { cause })
  }
}

function visit(value: object, levels: number): void {
  if (levels === 0) {
    throw new WarmpathError(
      'WARMPATH_INVALID_BODY',
      `the body is nested deeper than ${MAX_NESTING} levels`,
      { detail: { levels: MAX_NESTING } },
    )
  }
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at += 1) visitMember(value[at], levels)
  } else {
    // Inherited members are visited too, which costs nothing for parsed JSON: it has none.
    for (const key in value) visitMember((value as Record<string, unknown>)[key], levels)
  }
}

function visitMember(member: unknown, levels: number): void {
  if (typeof member === 'object' && member !== null) visit(member, levels - 1)
  else if (typeof member === 'bigint') {
    throw new WarmpathError('WARMPATH_INVALID_BODY', 'the body holds a BigInt, which JSON has not')
  }
}
