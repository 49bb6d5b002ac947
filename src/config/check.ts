/**
 * Checks of single option fields.
 *
 * Every function takes the path of the field it looks at and throws CONFIG with that path, what is
 * allowed there and what was found. Nothing here knows what an option means. Values are shown
 * shortened; fields that may hold a secret pass through `secretText`, which never shows any.
 */
import { WarmpathError } from '../errors.js'

export type Fields = Record<string, unknown>

export interface NumberRange {
  readonly min: number
  readonly max: number
  readonly kind: 'integer' | 'real'
}

/** Largest count that keeps its value as a double. */
export const MAX_COUNT = Number.MAX_SAFE_INTEGER
/** Largest count of the core's smaller numbers. */
export const MAX_U32 = 0xffff_ffff
/** Ten years: longer than any setting, short enough for whole microseconds in a double. */
const MAX_SECONDS = 315_360_000

/** The path of all options together; that of one of them is its name. */
export const OPTIONS = 'options'

const SHOWN_CHARS = 60

export function refuse(path: string, allowed: string, found?: string): never {
  throw new WarmpathError(
    'WARMPATH_CONFIG',
    `${path}: ${allowed}${found ? `, got ${found}` : ''}`,
    {
      detail: { field: path },
    },
  )
}

export function shown(value: unknown): string {
  if (typeof value === 'number' || value === undefined) return String(value)
  if (typeof value === 'function') return 'a function'
  let text: string | undefined
  try {
    text = JSON.stringify(value)
  } catch {
    text = undefined
  }
  if (text === undefined) return typeof value
  return text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}…` : text
}

/**
 * A plain object whose keys are all in `known`. A misspelt option is an error, not a default, and so is one
 * that is null, as an empty line of YAML gives it.
 */
export function fields(value: unknown, path: string, known: readonly string[]): Fields {
  const object = dictionary(value, path)
  for (const key of Object.keys(object)) {
    if (!known.includes(key))
      refuse(join(path, key), `unknown field, known are ${known.join(', ')}`)
    if (object[key] === null) {
      refuse(path === OPTIONS ? key : join(path, key), 'must not be null: give it or leave it out')
    }
  }
  return object
}

/** A plain object with keys of the user's choice. */
export function dictionary(value: unknown, path: string): Fields {
  const object = anyObject(value, path)
  if (!isPlain(object)) refuse(path, 'must be a plain object, and not one of a class')
  return object
}

/** An object, of a class too. */
export function anyObject(value: unknown, path: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    refuse(path, 'must be an object', shown(value))
  }
  return value as Fields
}

/** Whether it has nothing but what it was written with, in whichever realm that was. */
function isPlain(object: object): boolean {
  const above: unknown = Object.getPrototypeOf(object)
  return above === null || Object.getPrototypeOf(above) === null
}

export function list(value: unknown, path: string): unknown[] {
  if (!Array.isArray(value)) refuse(path, 'must be an array', shown(value))
  return value
}

export function number(value: unknown, path: string, range: NumberRange): number {
  const whole = range.kind === 'integer'
  const fits =
    typeof value === 'number' &&
    value >= range.min &&
    value <= range.max &&
    (!whole || Number.isInteger(value))
  if (!fits) {
    const kind = whole ? 'a whole number' : 'a number'
    refuse(path, `must be ${kind} from ${range.min} to ${range.max}`, shown(value))
  }
  return value
}

/** A time in seconds, as whole milliseconds. */
export function milliseconds(value: unknown, path: string): number {
  return Math.round(number(value, path, { min: 0.001, max: MAX_SECONDS, kind: 'real' }) * 1000)
}

export function flag(value: unknown, path: string): boolean {
  if (typeof value !== 'boolean') refuse(path, 'must be true or false', shown(value))
  return value
}

export function oneOf<T extends string>(value: unknown, path: string, allowed: readonly T[]): T {
  return allowed.find((item) => item === value) ?? refuseOther(path, allowed, value)
}

/** For a value that is none of those that are allowed. */
export function refuseOther(path: string, allowed: readonly string[], value: unknown): never {
  const choice = allowed.length > 1 ? 'one of ' : ''
  return refuse(path, `must be ${choice}${allowed.join(', ')}`, shown(value))
}

/** A non-empty string of at most 256 characters without control characters. */
export function name(value: unknown, path: string): string {
  const fits =
    typeof value === 'string' && value.length > 0 && value.length <= 256 && !hasControl(value)
  if (!fits) {
    refuse(path, 'must be a string of 1 to 256 characters without control characters', shown(value))
  }
  return value
}

/** A header value or credential: shown nowhere, refused when it could split or break a header. */
export function secretText(value: unknown, path: string): string {
  const fits =
    typeof value === 'string' && value.trim() !== '' && !hasControl(value) && isLatin1(value)
  if (!fits) {
    refuse(path, 'must be a non-empty string of printable Latin-1 characters', typeof value)
  }
  return value.trim()
}

export function callback(value: unknown, path: string): (...args: never[]) => unknown {
  if (typeof value !== 'function') refuse(path, 'must be a function', shown(value))
  return value as (...args: never[]) => unknown
}

export function join(path: string, key: string): string {
  return path === '' ? key : `${path}.${key}`
}

function isLatin1(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) if (text.charCodeAt(at) > 0xff) return false
  return true
}

function hasControl(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at)
    if (unit < 0x20 || unit === 0x7f) return true
  }
  return false
}
