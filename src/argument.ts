/**
 * Is an argument of a public call what it must be?
 *
 * For callers without types: what is wrong is said by name, and nothing has changed. Options are
 * no arguments; their checks, with paths, are in config. Nothing of a value is repeated: what stands
 * in the wrong place may be a secret.
 */
import { WarmpathError } from './errors.js'

/** Throws INVALID_ARGUMENT with the name of the argument and what it must be. */
export function refuseArgument(name: string, allowed: string): never {
  throw new WarmpathError('WARMPATH_INVALID_ARGUMENT', `${name} must be ${allowed}`, {
    detail: { field: name },
  })
}

/** Throws INVALID_ARGUMENT unless `value` is an object with no other fields than these. */
export function checkFields(value: unknown, name: string, known: readonly string[]): void {
  if (typeof value !== 'object' || value === null) refuseArgument(name, 'an object')
  const isKnown = Object.keys(value).every((field) => known.includes(field))
  if (!isKnown) refuseArgument(name, `an object with no other fields than ${known.join(', ')}`)
}

/** Throws INVALID_ARGUMENT unless `value` is a string. */
export function checkString(value: unknown, name: string): asserts value is string {
  if (!isString(value)) refuseArgument(name, 'a string')
}

export function isString(value: unknown): value is string {
  return typeof value === 'string'
}
