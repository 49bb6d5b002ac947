/**
 * Builds canonical text: pieces, each framed by its kind and length, gathered into segments.
 *
 * The frame stands *behind* its value (value, U+001F, kind, length, newline). So texts that begin
 * alike give canonical text that begins alike, which is what a prefix cache sees, while a whole
 * segment, read from its end, has one meaning only. Kinds have no digits.
 *
 * Cost: a piece is two short concatenations; its text is copied into the sink once.
 */
import { isMarker, stable } from './json.js'
import { TextSink } from './sink.js'
import type { Breakpoint, Json, Marker, RequestFacts } from './types.js'

class PromptWriter {
  readonly #sink: TextSink
  /** UTF-16 units so far. */
  #units = 0
  #segments = 0
  readonly #breakpoints: Breakpoint[] = []
  readonly #contents: number[] = []
  readonly #volatile: number[] = []
  /** The markers of the open segment, with their offsets. */
  readonly #marks: [offset: number, marker: Marker][] = []
  /** Content blocks of the open segment so far. */
  #parts = 0

  /** Into a sink of the caller's, which then holds the text; else into one of its own. */
  constructor(sink: TextSink = new TextSink()) {
    sink.clear()
    this.#sink = sink
  }

  /** Writes a value under a kind of one or more letters. */
  piece(kind: string, value: string): void {
    const frame = frameOf(kind, value.length)
    this.#sink.write(value)
    this.#sink.write(frame)
    this.#units += value.length + frame.length
  }

  /** A run of text; an empty one is as good as none. */
  text(value: string): void {
    if (value !== '') this.piece('t', value)
  }

  /** Any value, by its JSON. */
  json(kind: string, value: unknown): void {
    this.piece(kind, stable(value))
  }

  /** The members of `object` that are not in `known` and say something, in the order sent. */
  rest(object: Json, known: ReadonlySet<string>): void {
    for (const name in object) {
      if (known.has(name) || !Object.hasOwn(object, name) || !saysMore(name, object[name])) continue
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
    if (marker !== undefined) this.#marks.push([this.#units, marker])
  }

  /** Closes the open segment. */
  end(): void {
    for (const [offset, marker] of this.#marks) {
      const atEnd = offset === this.#units
      this.#breakAfter(atEnd ? this.#segments : this.#segments - 1, marker)
    }
    this.#marks.length = 0
    this.#sink.end()
    this.#segments += 1
    this.#contents.push(Math.max(1, this.#parts))
    this.#parts = 0
  }

  /** Closes the open segment, which is of no meaning to the conversation. */
  endVolatile(): void {
    this.#volatile.push(this.#segments)
    this.end()
  }

  /** If there is a cache marker, it stands behind the last closed segment. */
  markLast(marker: Marker | undefined): void {
    if (marker !== undefined) this.#breakAfter(this.#segments - 1, marker)
  }

  finish(): Pick<RequestFacts, 'prompt' | 'breakpoints' | 'contents' | 'volatile'> {
    return {
      prompt: this.#sink.finish(),
      breakpoints: this.#breakpoints,
      contents: this.#contents,
      volatile: this.#volatile,
    }
  }

  /** The first marker of a segment counts. */
  #breakAfter(segment: number, marker: Marker): void {
    const last = this.#breakpoints.at(-1)?.segment ?? -1
    if (segment > last) this.#breakpoints.push({ segment, ...marker })
  }
}

/** Frames of values of fewer units are kept ready. */
const KEPT_FRAMES = 1024
const frames = new Map<string, string[]>()

/** What stands behind a value of so many UTF-16 units. */
function frameOf(kind: string, units: number): string {
  let kept = frames.get(kind)
  if (kept === undefined) {
    kept = new Array<string>(KEPT_FRAMES)
    frames.set(kind, kept)
  }
  const known = kept[units]
  if (known !== undefined) return known
  const frame = `\u001f${kind}${units}\n`
  if (units < KEPT_FRAMES) kept[units] = frame
  return frame
}

/** Whether `rest` would write something. */
function hasRest(object: Json, known: ReadonlySet<string>): boolean {
  for (const name in object) {
    if (!known.has(name) && Object.hasOwn(object, name) && saysMore(name, object[name])) return true
  }
  return false
}

/** Null and the empty list say as much as an absent member, and cache markers say nothing. */
function saysMore(name: string, value: unknown): boolean {
  if (value === null || value === undefined || isMarker(name)) return false
  return !Array.isArray(value) || value.length > 0
}

export { hasRest, PromptWriter }
