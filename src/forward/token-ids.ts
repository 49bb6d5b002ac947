/**
 * Tokens of a prompt, as the engine that answers it has made them.
 *
 * vLLM tells them on request: `prompt_token_ids` once, and `token_ids` in each choice or piece of one.
 * The router asks in the client's place; what was told is read here and taken out again: `null` stands
 * where the list was, as it does where nobody has asked. Bytes may be cut anywhere. What is no list of
 * token ids passes untouched. A key can be nowhere but outside of texts, in which quotes are escaped.
 *
 * Cost: a search for the key in each piece; a pass over the lists. Nothing is parsed.
 */

const KEY = Buffer.from('token_ids":')
const QUOTE = 0x22
/** What stands before the key where it is the prompt's. */
const PROMPT = Buffer.from('"prompt_')
const LONGEST_KEY = PROMPT.length + KEY.length
const NULL = Buffer.from('null')
const EMPTY = new Uint8Array(0)
const [SPACE, LF, CR, TAB] = [0x20, 0x0a, 0x0d, 0x09]
const [OPEN, CLOSE, COMMA, ZERO, NINE] = [0x5b, 0x5d, 0x2c, 0x30, 0x39]
const MAX_TOKEN = 0xffff_ffff
/** No prompt is longer. */
const MAX_TOKENS = 1 << 24

/** The body with its tokens asked for. */
export function askForTokens(body: Record<string, unknown>): Record<string, unknown> {
  return { ...body, return_token_ids: true }
}

export interface TokenIdsPlan {
  /** Told once, of the first list of a prompt. */
  readonly found: (tokens: Uint32Array) => void
  /** Whether the client has not asked for them. */
  readonly takesOut: boolean
}

/** A list that is being read. */
interface List {
  readonly isPrompt: boolean
  isOpen: boolean
  /** What was passed over since the key: what is passed on if it is no list of tokens. */
  readonly passed: Uint8Array[]
  tokens: Uint32Array
  count: number
  /** -1 between two numbers. */
  number: number
  /** Whether a number has to come, a comma may, or anything that a list can begin with. */
  next: 'first' | 'number' | 'comma'
}

export class TokenIds {
  readonly #plan: TokenIdsPlan
  #isFound = false
  /** The end of the last piece, which may be the beginning of a key. */
  #held: Uint8Array = EMPTY
  #list: List | undefined

  constructor(plan: TokenIdsPlan) {
    this.#plan = plan
  }

  /** What may be passed on now; may be empty. */
  push(bytes: Uint8Array): Uint8Array {
    const isFresh = this.#list === undefined && this.#held.length === 0
    if (isFresh && !mayHaveKey(bytes)) return bytes
    const whole = this.#held.length === 0 ? bytes : Buffer.concat([this.#held, bytes])
    const out: Uint8Array[] = []
    this.#read(whole, out)
    if (this.#plan.takesOut) return out.length === 1 ? (out[0] ?? EMPTY) : Buffer.concat(out)
    // The same bytes, without what is held back to be looked at once more.
    return whole.subarray(0, whole.length - this.#held.length)
  }

  /** What is left when the answer ends inside a key or a list. */
  end(): Uint8Array {
    const list = this.#list
    const rest = list !== undefined && this.#plan.takesOut ? [...list.passed] : []
    const held = this.#held
    this.#held = EMPTY
    this.#list = undefined
    return Buffer.concat([...rest, held])
  }

  #read(bytes: Uint8Array, out: Uint8Array[]): void {
    const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.#held = EMPTY
    let from = 0
    while (from < buffer.length) {
      if (this.#list !== undefined) {
        from = this.#readList(this.#list, buffer, from, out)
        continue
      }
      const key = nextKey(buffer, from)
      if (key === undefined) {
        const end = buffer.length - partialKey(buffer, from)
        if (end > from) out.push(buffer.subarray(from, end))
        this.#held = buffer.subarray(end)
        return
      }
      out.push(buffer.subarray(from, key.end))
      from = key.end
      this.#list = listOf(key.isPrompt && !this.#isFound)
    }
  }

  /** Reads on in a list. Gives where what is no part of it begins. */
  #readList(list: List, buffer: Buffer, from: number, out: Uint8Array[]): number {
    let at = from
    for (; at < buffer.length; at += 1) {
      const verdict = take(list, buffer[at] ?? 0)
      if (verdict === 'more') continue
      this.#list = undefined
      if (verdict === 'end') {
        out.push(NULL)
        if (list.isPrompt) this.#tell(list)
        return at + 1
      }
      out.push(...list.passed, buffer.subarray(from, at))
      return at
    }
    list.passed.push(buffer.subarray(from))
    return at
  }

  #tell({ tokens, count }: List): void {
    this.#isFound = true
    if (count === 0 || count > MAX_TOKENS) return
    try {
      this.#plan.found(tokens.slice(0, count))
    } catch {
      // Costs what would have been known, and never the answer.
    }
  }
}

function listOf(isPrompt: boolean): List {
  const tokens = new Uint32Array(isPrompt ? 1024 : 0)
  return { isPrompt, isOpen: false, passed: [], tokens, count: 0, number: -1, next: 'first' }
}

/** One byte of what may be a list of token ids. */
function take(list: List, byte: number): 'more' | 'end' | 'other' {
  if (byte === SPACE || byte === LF || byte === CR || byte === TAB) {
    if (list.number >= 0) close(list)
    return 'more'
  }
  if (!list.isOpen) {
    list.isOpen = byte === OPEN
    return list.isOpen ? 'more' : 'other'
  }
  if (byte >= ZERO && byte <= NINE) {
    if (list.next === 'comma') return 'other'
    list.number = Math.max(list.number, 0) * 10 + byte - ZERO
    return list.number <= MAX_TOKEN ? 'more' : 'other'
  }
  if (list.number >= 0) close(list)
  if (byte === COMMA && list.next === 'comma') {
    list.next = 'number'
    return 'more'
  }
  return byte === CLOSE && list.next !== 'number' ? 'end' : 'other'
}

/** A number has come to its end. */
function close(list: List): void {
  if (list.isPrompt && list.count < MAX_TOKENS) {
    if (list.count === list.tokens.length) {
      const larger = new Uint32Array(2 * list.tokens.length)
      larger.set(list.tokens)
      list.tokens = larger
    }
    list.tokens[list.count] = list.number
  }
  list.count += 1
  list.number = -1
  list.next = 'comma'
}

/** Whether there is a key, or the beginning of one at the end. */
function mayHaveKey(bytes: Uint8Array): boolean {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return buffer.includes(KEY) || partialKey(buffer, 0) > 0
}

/** The first key at or behind `from`, and where it ends. */
function nextKey(buffer: Buffer, from: number): { end: number; isPrompt: boolean } | undefined {
  for (let at = buffer.indexOf(KEY, from); at >= 0; at = buffer.indexOf(KEY, at + 1)) {
    const end = at + KEY.length
    if (at > from && buffer[at - 1] === QUOTE) return { end, isPrompt: false }
    const before = at - PROMPT.length
    if (before >= from && buffer.subarray(before, at).equals(PROMPT)) return { end, isPrompt: true }
  }
  return undefined
}

const KEYS = [Buffer.concat([PROMPT, KEY]), Buffer.concat([Buffer.from([QUOTE]), KEY])]

/** How many bytes at the end, behind `from`, may be the beginning of a key. */
function partialKey(buffer: Buffer, from: number): number {
  const first = Math.max(from, buffer.length - LONGEST_KEY + 1)
  for (let at = buffer.indexOf(QUOTE, first); at >= 0; at = buffer.indexOf(QUOTE, at + 1)) {
    const rest = buffer.subarray(at)
    if (KEYS.some((key) => key.subarray(0, rest.length).equals(rest))) return rest.length
  }
  return 0
}
