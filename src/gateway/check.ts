/**
 * Question: is this piece of a configuration file what it must be?
 *
 * Small checkers that a table of fields is made of. Each takes the value and the name of the field
 * as a user would write it (`timeouts.connectMs`), gives the value back with its type, or throws
 * WARMPATH_CONFIG with a message that names the field and what is allowed there.
 *
 * It does not know what the fields mean. It never repeats a string value in a message: a value in
 * the wrong place may be a credential.
 */
import { WarmpathError } from '../index.js'

type Check<T> = (value: unknown, field: string) => T

/** The table of an object's fields: key -> what its value must be. */
type Fields<T> = { readonly [K in keyof T]-?: Check<T[K]> }

/** Throws WARMPATH_CONFIG: the field, and what is allowed there. */
function refuse(field: string, allowed: string): never {
  throw new WarmpathError('WARMPATH_CONFIG', `${field} must be ${allowed}`)
}

/** A whole number in `[min, max]`; `fallback` when the field is absent. */
function whole(min: number, max: number, unit: string, fallback: number): Check<number> {
  return (value, field) => {
    if (value === undefined) return fallback
    if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) {
      return value
    }
    return refuse(field, `a whole number${unit && ` of ${unit}`} from ${min} to ${max}`)
  }
}

/** A non-empty string that `pattern` accepts; `allowed` says in words what that is. */
function text(pattern: RegExp, allowed: string, fallback: string): Check<string> {
  return (value, field) => {
    if (value === undefined) return fallback
    if (typeof value === 'string' && pattern.test(value)) return value
    return refuse(field, allowed)
  }
}

/** A list of some of these words, none by default. */
function several<T extends string>(words: readonly T[]): Check<readonly T[]> {
  const allowed = `a list of ${words.join(', ')}`
  return (value, field) => {
    if (value === undefined) return []
    if (!Array.isArray(value)) return refuse(field, allowed)
    const known = words.join(', ')
    return value.map((each, at) => {
      return words.find((word) => word === each) ?? refuse(`${field}[${at}]`, `one of ${known}`)
    })
  }
}

/** A plain object: no array, no class instance. */
function plainObject(value: unknown, field: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return refuse(field, 'an object')
  }
  const above: unknown = Object.getPrototypeOf(value)
  const isPlain = above === null || Object.getPrototypeOf(above) === null
  return isPlain ? (value as Record<string, unknown>) : refuse(field, 'a plain object')
}

/** Refuses keys that `known` does not list, since a misspelt key would silently do nothing. */
function onlyKeys(value: object, known: readonly string[], field: string): void {
  for (const key of Object.keys(value)) {
    if (!known.includes(key)) {
      const at = field === '' ? key : `${field}.${key}`
      throw new WarmpathError('WARMPATH_CONFIG', `${at} is not known; known: ${known.join(', ')}`)
    }
  }
}

/** An object of exactly these fields, each optional in the file and filled with its default. */
function section<T extends object>(fields: Fields<T>): Check<T> {
  const known = Object.keys(fields) as (keyof T & string)[]
  return (value, field) => {
    const given = value === undefined ? {} : plainObject(value, field)
    onlyKeys(given, known, field)
    const checked: Partial<T> = {}
    for (const key of known) checked[key] = fields[key](given[key], `${field}.${key}`)
    return checked as T
  }
}

export { onlyKeys, plainObject, refuse, section, several, text, whole }
