/**
 * Tokens of a prompt, as the engine that answers it has made them.
 *
 * vLLM tells them on request: `prompt_token_ids` beside `choices`, and `token_ids` in each choice or piece
 * of one. The router asks in the client's place; what was told is read here and taken out again: `null`
 * stands where the list was, as it does where nobody has asked. The same names anywhere else are of other
 * people, and pass untouched, as all does that is no list. Bytes may be cut anywhere.
 *
 * Nothing is held back: names are passed on, and `null` with the first byte of a list, whose other bytes
 * are dropped as they come. What is kept is the place in the JSON and the prompt's numbers, up to a bound.
 *
 * Cost: one pass over the bytes, until there is nothing to look for any more. Nothing is parsed.
 */
import type { Change } from './change.js'

const NULL = Buffer.from('null')
const EVENT_END = Buffer.from('\n\n')
const EMPTY = new Uint8Array(0)
const [QUOTE, BACKSLASH, COLON, COMMA] = [0x22, 0x5c, 0x3a, 0x2c]
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d]
const [SPACE, LF, CR, TAB, ZERO, NINE] = [0x20, 0x0a, 0x0d, 0x09, 0x30, 0x39]
/** What the lines of an event begin with (`data`, `event`, `id`, `retry`), and no value of JSON does. */
const FIELDS = Buffer.from('deir')
const MAX_TOKEN = 0xffff_ffff
const FIRST_ROOM = 1024

type Name = 'choices' | 'prompt_token_ids' | 'token_ids'
const NAMES = (['choices', 'prompt_token_ids', 'token_ids'] as const).map((name) => ({
  name,
  bytes: Buffer.from(name),
}))
const LONGEST_NAME = Math.max(...NAMES.map(({ bytes }) => bytes.length))

/** The tokens of the prompt and of the answer are asked for. */
export const ASK_FOR_TOKENS: Change = { name: 'return_token_ids', value: true }

export interface TokenIdsPlan {
  /** Told once, of the first list of a prompt. */
  readonly found: (tokens: Uint32Array) => void
  /** Of a longer list nothing is kept: it is of no prompt that was sent. */
  readonly most: number
  /** Whether the client has not asked for them. */
  readonly takesOut: boolean
}

export class TokenIds {
  readonly #plan: TokenIdsPlan
  #isFound = false
  /** Lists and objects that are open. */
  #depth = 0
  /** What the outermost began with, and the third one. */
  #first = 0
  #third = 0
  /** Whether the second one is the list of choices. */
  #inChoices = false
  #isText = false
  #isEscaped = false
  #isLineStart = false
  /** The text that may become a name, one byte longer than any when it is none. */
  readonly #text = Buffer.alloc(LONGEST_NAME + 1)
  #textLength = 0
  /** Of the value that comes. */
  #name: Name | undefined
  /** Being read, and how deep it is in. */
  #list: Numbers | undefined
  #listDepth = 0

  constructor(plan: TokenIdsPlan) {
    this.#plan = plan
  }

  /** What of the piece may be passed on; may be empty. */
  push(bytes: Uint8Array): Uint8Array {
    const { takesOut } = this.#plan
    if (!takesOut && this.#isFound) return bytes
    const out = new Passed(bytes, this.#list !== undefined)
    for (let at = 0; at < bytes.length; at += 1) {
      if (this.#isText) at = this.#readText(bytes, at, out)
      else if (this.#list !== undefined && this.#depth === this.#listDepth + 1) {
        const end = this.#list.read(bytes, at)
        if (end > at) this.#isLineStart = false
        at = end
        if (at < bytes.length) this.#readMark(bytes[at] ?? 0, at, out)
      } else this.#readMark(bytes[at] ?? 0, at, out)
    }
    return takesOut ? out.whole() : bytes
  }

  /** A byte outside of texts, and of the numbers of a list. */
  #readMark(byte: number, at: number, out: Passed): void {
    const isLineStart = this.#isLineStart
    this.#isLineStart = false
    if (byte === QUOTE) {
      this.#list?.spoil()
      this.#isText = true
      this.#textLength = 0
    } else if (byte === COLON) this.#name = this.#isPlace ? this.#nameOfText() : undefined
    else if (byte === COMMA) this.#textLength = 0
    else if (byte === OPEN_LIST || byte === OPEN_OBJECT) this.#open(byte, at, out)
    else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) this.#close(byte, at, out)
    else if (byte === LF || byte === CR) {
      this.#isLineStart = true
      return
    } else if (isLineStart && FIELDS.includes(byte)) this.#restart(at, out, EVENT_END)
    if (byte !== SPACE && byte !== TAB && byte !== COLON) this.#name = undefined
  }

  /** Reads on in a text. Gives the last byte that belongs to it. */
  #readText(bytes: Uint8Array, from: number, out: Passed): number {
    let isEscaped = this.#isEscaped
    let at = from
    let byte = 0
    for (; at < bytes.length; at += 1) {
      byte = bytes[at] ?? 0
      if (byte === LF || byte === CR) break
      if (isEscaped) isEscaped = false
      else if (byte === QUOTE) break
      else if (byte === BACKSLASH) isEscaped = true
    }
    this.#isEscaped = isEscaped
    if (this.#isPlace) this.#remember(bytes, from, at)
    if (at === bytes.length) return at
    this.#isText = false
    // No text goes on in another line: this is no JSON, and what follows may be.
    if (byte !== QUOTE) this.#restart(at, out, EMPTY)
    return at
  }

  #remember(bytes: Uint8Array, from: number, to: number): void {
    const room = this.#text.length - this.#textLength
    const end = Math.min(to, from + room)
    for (let at = from; at < end; at += 1) this.#text[this.#textLength++] = bytes[at] ?? 0
  }

  /** Whether a name here may be one of ours: in the answer itself, or in one of its choices. */
  get #isPlace(): boolean {
    if (this.#list !== undefined || this.#first !== OPEN_OBJECT) return false
    if (this.#depth === 1) return true
    return this.#depth === 3 && this.#inChoices && this.#third === OPEN_OBJECT
  }

  #nameOfText(): Name | undefined {
    const length = this.#textLength
    this.#textLength = 0
    const known = NAMES.find(
      ({ bytes }) => bytes.length === length && bytes.compare(this.#text, 0, length) === 0,
    )
    return known?.name
  }

  #open(byte: number, at: number, out: Passed): void {
    const name = this.#name
    this.#list?.spoil()
    if (byte === OPEN_LIST && name !== undefined) {
      if (name === 'choices') this.#inChoices = this.#depth === 1
      else if (name === 'prompt_token_ids' || this.#depth === 3) {
        const keeps = name === 'prompt_token_ids' && !this.#isFound
        this.#list = new Numbers(keeps ? this.#plan.most : undefined)
        this.#listDepth = this.#depth
        out.drop(at)
      }
    }
    this.#depth += 1
    if (this.#depth === 1) this.#first = byte
    if (this.#depth === 3) this.#third = byte
  }

  #close(byte: number, at: number, out: Passed): void {
    this.#textLength = 0
    if (this.#depth > 0) this.#depth -= 1
    if (this.#depth <= 1) this.#inChoices = false
    const list = this.#list
    if (list === undefined || this.#depth > this.#listDepth) return
    this.#list = undefined
    out.resume(at + 1)
    if (byte === CLOSE_LIST) this.#tell(list)
  }

  /** What was open has broken off. Inside a list that was taken out, `end` stands for how it did. */
  #restart(at: number, out: Passed, end: Uint8Array): void {
    if (this.#list !== undefined) out.resume(at, end)
    this.#list = undefined
    this.#depth = 0
    this.#inChoices = false
    this.#isEscaped = false
    this.#name = undefined
  }

  #tell(list: Numbers): void {
    const tokens = list.end()
    if (tokens === undefined) return
    this.#isFound = true
    if (tokens.length === 0) return
    try {
      this.#plan.found(tokens)
    } catch {
      // Costs what would have been known, and never the answer.
    }
  }
}

/** What of a piece is passed on. */
class Passed {
  readonly #bytes: Uint8Array
  readonly #parts: Uint8Array[] = []
  /** Where what is passed on begins; undefined while nothing is. */
  #from: number | undefined

  constructor(bytes: Uint8Array, isDropped: boolean) {
    this.#bytes = bytes
    this.#from = isDropped ? undefined : 0
  }

  /** A list begins at `at`. */
  drop(at: number): void {
    if (this.#from !== undefined && at > this.#from) {
      this.#parts.push(this.#bytes.subarray(this.#from, at))
    }
    this.#parts.push(NULL)
    this.#from = undefined
  }

  resume(at: number, after: Uint8Array = EMPTY): void {
    if (after.length > 0) this.#parts.push(after)
    this.#from = at
  }

  whole(): Uint8Array {
    const rest = this.#from === undefined ? EMPTY : this.#bytes.subarray(this.#from)
    if (this.#parts.length === 0) return this.#from === 0 ? this.#bytes : rest
    return Buffer.concat([...this.#parts, rest])
  }
}

/** A list that may be one of tokens; those of a prompt are kept. */
class Numbers {
  readonly #most: number
  #keeps: boolean
  #tokens: Uint32Array
  #count = 0
  /** -1 between two numbers. */
  #number = -1
  /** Whether a number has to come, a comma may, or anything that a list can begin with. */
  #next: 'first' | 'number' | 'comma' = 'first'

  /** Keeps so many at most; undefined: none. */
  constructor(most: number | undefined) {
    this.#most = most ?? 0
    this.#keeps = most !== undefined
    this.#tokens = new Uint32Array(Math.min(this.#most, FIRST_ROOM))
  }

  /** Reads numbers and commas. Gives the first byte that is neither. */
  read(bytes: Uint8Array, from: number): number {
    for (let at = from; at < bytes.length; at += 1) {
      const byte = bytes[at] ?? 0
      if (byte >= ZERO && byte <= NINE) {
        if (this.#next === 'comma') this.spoil()
        this.#number = Math.max(this.#number, 0) * 10 + byte - ZERO
        if (this.#number > MAX_TOKEN) this.spoil()
      } else {
        if (this.#number >= 0) this.#endNumber()
        if (byte === COMMA) {
          if (this.#next !== 'comma') this.spoil()
          this.#next = 'number'
        } else if (byte === LF || byte === CR || byte === CLOSE_LIST) return at
        else if (byte !== SPACE && byte !== TAB) {
          this.spoil()
          return at
        }
      }
    }
    return bytes.length
  }

  /** It is no list of tokens, or of too many: nothing of it is kept. */
  spoil(): void {
    this.#keeps = false
    this.#tokens = EMPTY_TOKENS
    this.#number = Math.min(this.#number, 0)
  }

  /** Undefined where it is none of a prompt. */
  end(): Uint32Array | undefined {
    if (!this.#keeps || this.#next === 'number') return undefined
    return this.#tokens.slice(0, this.#count)
  }

  #endNumber(): void {
    if (this.#count === this.#most) this.spoil()
    if (this.#keeps) {
      if (this.#count === this.#tokens.length) {
        const larger = new Uint32Array(Math.min(this.#most, 2 * this.#tokens.length))
        larger.set(this.#tokens)
        this.#tokens = larger
      }
      this.#tokens[this.#count] = this.#number
      this.#count += 1
    }
    this.#number = -1
    this.#next = 'comma'
  }
}

const EMPTY_TOKENS = new Uint32Array(0)
