/** Readers of values from a command line: each says what is allowed where a value is not. */
import { InvalidArgumentError } from 'commander'
import { numbers, oneNumber } from '../replay/index.js'

type Kind = 'whole' | 'any'

/** A list of numbers, such as `4,8` or `0.5..3`. */
function list(kind: Kind, least: number, most: number): (text: string) => number[] {
  return (text) => checked(() => numbers(text, { kind, least, most }))
}

/** One number. */
function number(kind: Kind, least: number, most: number): (text: string) => number {
  return (text) => checked(() => oneNumber(text, { kind, least, most }))
}

/** An address. */
function address(text: string): string {
  if (URL.canParse(text) && /^https?:/.test(text)) return text
  throw new InvalidArgumentError('It must be an address such as http://127.0.0.1:8088.')
}

/** A JSON object. */
function object(text: string): Record<string, unknown> {
  return checked(() => {
    const value: unknown = parsed(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value }
    throw new RangeError('a JSON object')
  })
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new RangeError('a JSON object')
  }
}

/** What `read` gives; its RangeError says what is allowed. */
function checked<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw new InvalidArgumentError(`Allowed: ${(error as Error).message}.`)
  }
}

export { address, checked, list, number, object }
