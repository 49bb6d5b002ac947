/**
 * How are the lists of a command line read?
 *
 * `4,8` is a list, `0.5..3` a range in steps of 0.5, `1..2/0.25` one in steps of its own, and they
 * mix. Throws a RangeError whose message says what is allowed; the caller names the option.
 */

interface Allowed {
  least: number
  most: number
  kind: 'whole' | 'any'
}

const STEP = 0.5
/** More values than anybody looks at. */
const MOST_VALUES = 64

/** The numbers of a list, each once, in ascending order. */
function numbers(text: string, allowed: Allowed): number[] {
  const values = text.split(',').flatMap((part) => range(part.trim(), allowed))
  const distinct = [...new Set(values)].sort((a, b) => a - b)
  if (distinct.length > MOST_VALUES) throw new RangeError(`at most ${MOST_VALUES} values`)
  return distinct
}

function range(part: string, allowed: Allowed): number[] {
  const found = /^([\d.]+)\.\.([\d.]+)(?:\/([\d.]+))?$/.exec(part)
  if (found === null) return [number(part, allowed)]
  const [from, to] = [number(found[1] ?? '', allowed), number(found[2] ?? '', allowed)]
  const step = Number(found[3] ?? (allowed.kind === 'whole' ? 1 : STEP))
  if (!(step > 0) || to < from) throw new RangeError('a range is FROM..TO or FROM..TO/STEP')
  const count = Math.floor((to - from) / step + 1e-9)
  if (count >= MOST_VALUES) throw new RangeError(`at most ${MOST_VALUES} values`)
  // Rounded, so that 0.1 + 0.2 is 0.3 in file names and captions.
  return Array.from({ length: count + 1 }, (_, i) => Number((from + i * step).toFixed(6)))
}

function number(text: string, allowed: Allowed): number {
  const { least, most, kind } = allowed
  const value = read(text, allowed)
  if (value !== undefined) return value
  const what = kind === 'whole' ? 'whole numbers' : 'numbers'
  throw new RangeError(
    `${what} from ${least} to ${most}, such as ${kind === 'whole' ? '4,8' : '0.5..3'}`,
  )
}

/** A number where only one may be. */
function oneNumber(text: string, allowed: Allowed): number {
  const { least, most, kind } = allowed
  const value = read(text, allowed)
  if (value !== undefined) return value
  throw new RangeError(
    `one ${kind === 'whole' ? 'whole number' : 'number'} from ${least} to ${most}`,
  )
}

function read(text: string, { least, most, kind }: Allowed): number | undefined {
  const value = Number(text)
  const shaped = /^\d+(\.\d+)?$/.test(text) && (kind === 'any' || Number.isInteger(value))
  return shaped && value >= least && value <= most ? value : undefined
}

export { type Allowed, numbers, oneNumber }
