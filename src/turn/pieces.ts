/**
 * An answer whose pieces are kept until its end, up to so many bytes.
 *
 * Large pieces are kept by reference. Small ones are copied, since an answer in single bytes would cost an
 * object for each of them.
 */

/** Pieces below this are copied. */
const SMALL = 1_024
const ROOM = 16_384

export class Pieces {
  readonly #maxBytes: number
  #pieces: Uint8Array[] = []
  #length = 0
  /** What small pieces are copied to, and how much of it is full and not among the pieces yet. */
  #room: Buffer | undefined
  #from = 0
  #to = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  push(bytes: Uint8Array): void {
    this.#length += bytes.length
    if (this.#length > this.#maxBytes) this.#forget()
    else if (bytes.length >= SMALL) {
      this.#flush()
      this.#pieces.push(bytes)
    } else this.#copy(bytes)
  }

  /** All of it, once; undefined when it was more than is kept. */
  end(): Buffer | undefined {
    if (this.#length > this.#maxBytes) return undefined
    this.#flush()
    const whole = Buffer.concat(this.#pieces)
    this.#forget()
    return whole
  }

  #copy(bytes: Uint8Array): void {
    if (this.#room === undefined || this.#room.length - this.#to < bytes.length) {
      this.#flush()
      this.#room = Buffer.allocUnsafeSlow(ROOM)
      this.#from = 0
      this.#to = 0
    }
    this.#room.set(bytes, this.#to)
    this.#to += bytes.length
  }

  #flush(): void {
    if (this.#room === undefined || this.#to === this.#from) return
    this.#pieces.push(this.#room.subarray(this.#from, this.#to))
    this.#from = this.#to
  }

  #forget(): void {
    this.#pieces = []
    this.#room = undefined
    this.#from = 0
    this.#to = 0
  }
}
