/**
 * Is what a caller passes of the type that the library says?
 *
 * A table of fields for `TurnRequest`, and a check of answers. Both throw INVALID_ARGUMENT with the
 * name of the field and what is allowed there, and run before anything is reserved. What the values
 * mean is looked at elsewhere. Cost: a type test a field, whatever its size.
 *
 * Array types are asked of node:util, which also knows arrays of other realms. A signal counts by
 * what is used of it.
 */
import { types } from 'node:util'
import { isString, refuseArgument } from '../argument.js'
import { MOST_PRIORITY } from '../config/index.js'
import { WarmpathError } from '../errors.js'
import type { TurnRequest } from './request.js'

type Allowed = readonly [fits: (value: unknown) => boolean, allowed: string]

const STRING: Allowed = [isString, 'a string']
const ANY: Allowed = [() => true, 'anything']

/** Every field; what is left out of a request is not looked at. */
const FIELDS: Readonly<Record<keyof TurnRequest, Allowed>> = {
  path: STRING,
  method: STRING,
  headers: [isHeaders, 'a collection of headers'],
  // What a body must be is a matter of the client: see INVALID_BODY.
  body: ANY,
  raw: [(value) => isString(value) || types.isUint8Array(value), 'a string or a Uint8Array'],
  tokens: [(value) => types.isUint32Array(value) && isThere(value), 'a Uint32Array'],
  hashes: [(value) => types.isBigUint64Array(value) && isThere(value), 'a BigUint64Array'],
  signal: [isSignal, 'an AbortSignal'],
  onHold: [(value) => typeof value === 'function', 'a function'],
  model: STRING,
  session: STRING,
  parent: STRING,
  base: STRING,
  route: STRING,
  drift: [(value) => typeof value === 'boolean', 'true or false'],
  priority: [isPriority, `a whole number from -${MOST_PRIORITY} to ${MOST_PRIORITY}`],
}
const NAMES = Object.keys(FIELDS) as (keyof TurnRequest)[]
const KNOWN: ReadonlySet<string> = new Set(NAMES)

/** Throws INVALID_ARGUMENT unless every field that is given is known and has its type. */
export function checkRequest(request: unknown): asserts request is TurnRequest {
  if (!isObject(request)) refuseArgument('the request', 'an object')
  for (const name of NAMES) {
    const value = request[name]
    const [fits, allowed] = FIELDS[name]
    if ((value !== undefined || name === 'path') && !fits(value)) refuseArgument(name, allowed)
  }
  for (const name in request) if (!KNOWN.has(name)) refuseField(name)
  if (request.tokens !== undefined && request.hashes !== undefined) {
    refuseArgument('hashes', 'left out where tokens are given')
  }
}

/** Throws INVALID_ARGUMENT unless `value` is a collection of headers. */
export function checkHeaders(value: unknown): void {
  const [fits, allowed] = FIELDS.headers
  if (!fits(value)) refuseArgument('headers', allowed)
}

/** A misspelt field would silently do nothing. */
function refuseField(name: string): never {
  const known = `known are ${NAMES.join(', ')}`
  throw new WarmpathError('WARMPATH_INVALID_ARGUMENT', `${name}: unknown field, ${known}`, {
    detail: { field: name },
  })
}

/** Throws INVALID_ARGUMENT unless `value` can be read like a Response of any implementation. */
export function checkResponse(value: unknown): asserts value is Response {
  if (!isObject(value) || typeof value.status !== 'number' || !isObject(value.headers)) {
    refuseArgument('the answer', 'a Response')
  }
}

/** Throws INVALID_ARGUMENT unless `value` has the status and the content type of an answer. */
export function checkAnswer(
  value: unknown,
): asserts value is { status: number; contentType?: string } {
  const fits =
    isObject(value) &&
    typeof value.status === 'number' &&
    (value.contentType === undefined || isString(value.contentType))
  if (!fits) refuseArgument('the answer', '{ status, contentType }')
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

/** Whether nobody has taken the memory of an array elsewhere. */
function isThere({ buffer }: NodeJS.TypedArray): boolean {
  try {
    new Uint8Array(buffer)
    return true
  } catch {
    return false
  }
}

/**
 * Any collection of headers: what an object has under names, or an array of names and values in turn or in
 * pairs. A value that is no string is no header.
 */
function isHeaders(value: unknown): boolean {
  if (!Array.isArray(value)) return isObject(value) && !ArrayBuffer.isView(value)
  return typeof value[0] === 'string' ? isFlat(value) : value.every(isPair)
}

function isFlat(list: readonly unknown[]): boolean {
  return list.length % 2 === 0 && list.every((each, at) => at % 2 === 1 || isString(each))
}

function isPair(value: unknown): boolean {
  return Array.isArray(value) && value.length === 2 && isString(value[0])
}

function isPriority(value: unknown): boolean {
  return Number.isInteger(value) && Math.abs(value as number) <= MOST_PRIORITY
}

function isSignal(value: unknown): boolean {
  return (
    isObject(value) &&
    typeof value.aborted === 'boolean' &&
    typeof value.addEventListener === 'function' &&
    typeof value.removeEventListener === 'function'
  )
}
