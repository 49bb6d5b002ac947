/**
 * Builds canonical text: pieces, each framed by its kind and length, gathered into segments.
 *
 * The frame stands *behind* its value (value, U+001F, kind, length, newline). So texts that begin
 * alike give canonical text that begins alike, which is what a prefix cache sees, while a whole
 * segment, read from its end, has one meaning only. Kinds have no digits.
 *
 * Cost: a piece is one concatenation, and a native scan for lone surrogates where it has characters
 * above U+00FF. The text is left as V8's rope: its first reader, the hash, has to copy it anyway,
 * and flattening 0.4 MB with such characters here as well cost more than parsing the body.
 */
import { toUSVString } from 'node:util'
import { MARKERS, stable } from './json.js'
import type { Breakpoint, Json, Marker, RequestFacts } from './types.js'

class PromptWriter {
  #text = ''
  readonly #ends: number[] = []
  readonly #breakpoints: Breakpoint[] = []
  readonly #contents: number[] = []
  readonly #volatile: number[] = []
  /** The markers of the open segment, with their offsets. */
  #marks: [offset: number, marker: Marker][] = []
  /** Content blocks of the open segment so far. */
  #parts = 0

  /** Writes a value under a kind of one or more letters. */
  piece(kind: string, value: string): void {
    this.#frame(kind, toUSVString(value))
  }

  /** A run of text; an empty one is as good as none. */
  text(value: string): void {
    if (value !== '') this.piece('t', value)
  }

  /** Any value, by its JSON. */
  json(kind: string, value: unknown): void {
    // JSON text has escapes for lone surrogates and needs no scan.
    this.#frame(kind, stable(value))
  }

  /** The members of `object` that are not in `known` and say something, in the order sent. */
  rest(object: Json, known: ReadonlySet<string>): void {
    for (const name of Object.keys(object)) {
      if (known.has(name) || !saysMore(name, object[name])) continue
      this.piece('f', name)
      this.json('j', object[name])
    }
  }

  /** What is written next is a content block of its own. */
  part(): void {
    this.#parts += 1
  }

  /** If there is a cache marker, it stands behind what was written last. */
  mark(marker: Marker | undefined): void {
    if (marker !== undefined) this.#marks.push([this.#text.length, marker])
  }

  /** Closes the open segment. */
  end(): void {
    for (const [offset, marker] of this.#marks) {
      const atEnd = offset === this.#text.length
      this.#breakAfter(atEnd ? this.#ends.length : this.#ends.length - 1, marker)
    }
    this.#marks = []
    this.#ends.push(this.#text.length)
    this.#contents.push(Math.max(1, this.#parts))
    this.#parts = 0
  }

  /** Closes the open segment, which is of no meaning to the conversation. */
  endVolatile(): void {
    this.#volatile.push(this.#ends.length)
    this.end()
  }

  /** If there is a cache marker, it stands behind the last closed segment. */
  markLast(marker: Marker | undefined): void {
    if (marker !== undefined) this.#breakAfter(this.#ends.length - 1, marker)
  }

  finish(): Pick<RequestFacts, 'prompt' | 'breakpoints' | 'contents' | 'volatile'> {
    const prompt = { text: this.#text, ends: this.#ends }
    const [breakpoints, contents] = [this.#breakpoints, this.#contents]
    return { prompt, breakpoints, contents, volatile: this.#volatile }
  }

  #frame(kind: string, value: string): void {
    this.#text += `${value}\u001f${kind}${value.length}\n`
  }

  /** The first marker of a segment counts. */
  #breakAfter(segment: number, marker: Marker): void {
    const last = this.#breakpoints.at(-1)?.segment ?? -1
    if (segment > last) this.#breakpoints.push({ segment, ...marker })
  }
}

/** Whether `rest` would write something. */
function hasRest(object: Json, known: ReadonlySet<string>): boolean {
  return Object.keys(object).some((name) => !known.has(name) && saysMore(name, object[name]))
}

/** Null and the empty list say as much as an absent member, and cache markers say nothing. */
function saysMore(name: string, value: unknown): boolean {
  if (value === null || value === undefined || MARKERS.includes(name as never)) return false
  return !Array.isArray(value) || value.length > 0
}

export { hasRest, PromptWriter }
