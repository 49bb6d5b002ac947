/**
 * Is this body one that may be worked on, or one made to cost more than it cost its sender?
 *
 * Parsing costs by the value and not by the byte: tens of megabytes of empty lists, a few kilobytes
 * when compressed, take seconds. Writing JSON costs V8 a look at every level above each value: some
 * megabytes that are thousands of levels deep take minutes, and what is deeper still cannot be
 * written at all. So the values of a large text are counted before it is parsed, and the levels of a
 * body before anything else looks at it. What only a program can hand in is refused with them: an
 * object that contains itself, which has no last level, and a BigInt.
 *
 * Cost: nothing before parsing up to `FREE_BYTES`, then about a nanosecond a byte; after it one visit
 * of each array and object, strings unread, about a tenth of parsing. Trusts nothing.
 */
import { isUint8Array } from 'node:util/types'
import { isString, refuseArgument } from '../argument.js'
import { WarmpathError } from '../errors.js'

/** Levels of arrays and objects in a body, the body itself included. Agents send about 20. */
export const MAX_NESTING = 256

/** A text of that size holds at most half as many values: it needs no count. */
const FREE_BYTES = 1024 * 1024

/** Values in a body: as many as fit into a text that needs no count. Agents send some thousands. */
export const MAX_VALUES = FREE_BYTES / 2

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const LIST = 0x5b
const ESCAPE = 0x5c
const OBJECT = 0x7b

/**
 * The JSON object in a body. Throws INVALID_BODY for anything else, and for one of more than
 * `MAX_VALUES` values or `MAX_NESTING` levels.
 */
export function parseBody(raw: Uint8Array | string): Record<string, unknown> {
  return checkBody(parseJson(raw))
}

/** The JSON in a body, whatever it is. Throws as `parseBody` does, but does not look at levels. */
export function parseJson(raw: Uint8Array | string): unknown {
  if (!isString(raw) && !isUint8Array(raw)) refuseArgument('raw', 'a string or a Uint8Array')
  countValues(raw)
  try {
    return JSON.parse(typeof raw === 'string' ? raw : utf8(raw))
  } catch (cause) {
    throw new WarmpathError('WARMPATH_INVALID_BODY', 'the body is not JSON', { cause })
  }
}

/** The same for a body that a program has parsed or made. Its values are not counted. */
export function checkBody(body: unknown): Record<string, unknown> {
  const object = checkObject(body)
  checkLevels(object)
  return object
}

/** Throws INVALID_BODY unless it is an object. What is in it is not looked at. */
export function checkObject(body: unknown): Record<string, unknown> {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new WarmpathError('WARMPATH_INVALID_BODY', 'the body must be a JSON object')
  }
  return body as Record<string, unknown>
}

/** Throws INVALID_BODY for a value of a body, `above` levels down in it, that has too many levels. */
export function checkLevels(value: object, above = 0): void {
  try {
    visit(value, MAX_NESTING - above)
  } catch (cause) {
    if (WarmpathError.is(cause)) throw cause
    throw new WarmpathError('WARMPATH_INVALID_BODY', 'the body cannot be read', { cause })
  }
}

function utf8(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')
}

/** An upper bound, by what stands outside of strings; text need not be JSON. */
function countValues(raw: Uint8Array | string): void {
  if (raw.length <= FREE_BYTES) return
  const bytes = typeof raw === 'string' ? Buffer.from(raw) : raw
  let values = 0
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at]
    if (byte === QUOTE) at = endOfString(bytes, at)
    else if (byte === COMMA || byte === COLON || byte === LIST || byte === OBJECT) values += 1
  }
  if (values > MAX_VALUES) {
    throw new WarmpathError(
      'WARMPATH_INVALID_BODY',
      `the body holds more than ${MAX_VALUES} values`,
      { detail: { values: MAX_VALUES } },
    )
  }
}

/** Where the string that begins at `start` ends; beyond the last byte when it does not. */
function endOfString(bytes: Uint8Array, start: number): number {
  let at = start + 1
  while (at < bytes.length && bytes[at] !== QUOTE) at += bytes[at] === ESCAPE ? 2 : 1
  return at
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
