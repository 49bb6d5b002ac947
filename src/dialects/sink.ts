/**
 * Text that is written piece by piece, as UTF-8 bytes.
 *
 * Short pieces are gathered as V8's rope, which costs 9 ns a piece, and encoded some kilobytes at a
 * time; a call into the encoder for each piece would cost 130 ns (Node 20). The
 * rope is encoded before it is so long that flattening it needs a page of its own from the system,
 * and long pieces go past it, so that they are copied once and not twice.
 *
 * Lone surrogates become U+FFFD, as the encoder has it. The buffer grows to what is written and is
 * given back when that was much. O(text).
 */
import { WarmpathError } from '../errors.js'

/** UTF-16 units: above it, a call costs less than the copy that it saves. */
const LONG_PIECE = 2 * 1024
/** UTF-16 units of rope that are encoded together. */
const ROPE = 16 * 1024
const FIRST_BYTES = 4 * 1024
/** Larger buffers are given back after the text that needed them. */
const KEPT_BYTES = 4 * 1024 * 1024
/** Bytes that one UTF-16 unit takes at the most. */
const MAX_UNIT_BYTES = 3
/** Pieces up to so many units get room for the most that they may take; longer ones are measured. */
const UNMEASURED = 64 * 1024

export class TextSink {
  readonly #limit: number
  #bytes = Buffer.allocUnsafeSlow(FIRST_BYTES)
  #length = 0
  #rope = ''
  /** Offsets into the rope where somebody wants to know the length in bytes. */
  readonly #marks: number[] = []
  readonly #ends: number[] = []

  /** `limit`: bytes; more is BODY_TOO_LARGE. */
  constructor(limit: number = Number.POSITIVE_INFINITY) {
    this.#limit = limit
  }

  write(text: string): void {
    if (text.length < LONG_PIECE) {
      this.#rope += text
      if (this.#rope.length >= ROPE) this.#flush()
    } else {
      this.#flush()
      this.#encode(text)
    }
  }

  /** A segment ends here. */
  end(): void {
    if (this.#rope === '') this.#ends.push(this.#length)
    else this.#marks.push(this.#rope.length)
  }

  /** What was written and the ends of its segments in bytes; valid until the next `write`. */
  finish(): { bytes: Uint8Array; ends: readonly number[] } {
    this.#flush()
    const { buffer, byteOffset } = this.#bytes
    return { bytes: new Uint8Array(buffer, byteOffset, this.#length), ends: this.#ends }
  }

  /** Forgets what was written. */
  clear(): void {
    this.#length = 0
    this.#rope = ''
    this.#marks.length = 0
    this.#ends.length = 0
    if (this.#bytes.length > KEPT_BYTES) this.#bytes = Buffer.allocUnsafeSlow(FIRST_BYTES)
  }

  #flush(): void {
    const rope = this.#rope
    if (rope === '') return
    const start = this.#length
    this.#encode(rope)
    this.#rope = ''
    if (this.#marks.length > 0) this.#place(rope, start)
  }

  /** Turns marks in a rope that was written at `start` into ends. */
  #place(rope: string, start: number): void {
    const isAscii = this.#length - start === rope.length
    let end = start
    let from = 0
    for (const mark of this.#marks) {
      end += isAscii ? mark - from : Buffer.byteLength(rope.slice(from, mark))
      from = mark
      this.#ends.push(end)
    }
    this.#marks.length = 0
  }

  #encode(text: string): void {
    const { length } = text
    const most = length > UNMEASURED ? Buffer.byteLength(text) : length * MAX_UNIT_BYTES
    if (this.#length + length > this.#limit) throw this.#tooLarge()
    if (this.#length + most > this.#bytes.length) this.#grow(most)
    this.#length += this.#bytes.write(text, this.#length)
    if (this.#length > this.#limit) throw this.#tooLarge()
  }

  #grow(more: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(this.#length + more, 2 * this.#bytes.length))
    larger.set(this.#bytes.subarray(0, this.#length))
    this.#bytes = larger
  }

  #tooLarge(): WarmpathError {
    return new WarmpathError(
      'WARMPATH_BODY_TOO_LARGE',
      `prompt text is larger than limits.bodyBytes (${this.#limit})`,
    )
  }
}
