/**
 * Server-sent events out of bytes that are split anywhere.
 *
 * Own code and not eventsource-parser, because three things are needed that it does not do: to skip
 * one oversized event and go on with the next, to see an event that ends in a lone CR at once, and
 * to hand out the last event of a stream that was cut before its blank line.
 *
 * O(bytes), at most one event in memory. Trusts nothing: invalid UTF-8 becomes U+FFFD.
 */
import { StringDecoder } from 'node:string_decoder'

/** Largest event, in UTF-16 units. */
const MAX_EVENT = 16 * 1024 * 1024

type OnEvent = (name: string, data: string) => void

class SseSplitter {
  /** Events that were larger than the limit and left out. */
  skipped = 0
  readonly #onEvent: OnEvent
  readonly #limit: number
  readonly #decoder = new StringDecoder('utf8')
  #atStart = true
  #afterCr = false
  #skipping = false
  /** The open line; only its being non-empty matters while an event is skipped. */
  #line = ''
  #name = ''
  #data: string | undefined

  constructor(onEvent: OnEvent, limit: number = MAX_EVENT) {
    this.#onEvent = onEvent
    this.#limit = limit
  }

  push(bytes: Uint8Array | string): void {
    const text = typeof bytes === 'string' ? bytes : this.#decoder.write(viewOf(bytes))
    if (text !== '') this.#split(text)
  }

  end(): void {
    const rest = this.#decoder.end()
    if (rest !== '') this.#split(rest)
    if (this.#line !== '') this.#endLine('')
    this.#dispatch()
  }

  #split(text: string): void {
    let start = this.#skipLead(text)
    let lf = text.indexOf('\n', start)
    let cr = text.indexOf('\r', start)
    while (lf !== -1 || cr !== -1) {
      const end = cr === -1 || (lf !== -1 && lf < cr) ? lf : cr
      this.#endLine(text.slice(start, end))
      start = end + 1
      if (end === cr) {
        if (lf === start) start++
        else this.#afterCr = start === text.length
        cr = text.indexOf('\r', start)
      }
      if (lf !== -1 && lf < start) lf = text.indexOf('\n', start)
    }
    if (start < text.length) this.#keep(text.slice(start))
  }

  /** How much of a chunk belongs to what came before: a byte order mark, the LF of a CR LF. */
  #skipLead(text: string): number {
    const lead = (this.#atStart && text[0] === '\ufeff') || (this.#afterCr && text[0] === '\n')
    this.#atStart = false
    this.#afterCr = false
    return lead ? 1 : 0
  }

  #keep(part: string): void {
    if (!this.#skipping && this.#size() + part.length > this.#limit) this.#skip()
    this.#line = this.#skipping ? '.' : this.#line + part
  }

  #endLine(part: string): void {
    if (part !== '') this.#keep(part)
    const line = this.#line
    this.#line = ''
    if (line === '') this.#dispatch()
    else if (!this.#skipping) this.#field(line)
  }

  #field(line: string): void {
    const colon = line.indexOf(':')
    if (colon === 0) return
    const name = colon === -1 ? line : line.slice(0, colon)
    const from = line[colon + 1] === ' ' ? colon + 2 : colon + 1
    const value = colon === -1 ? '' : line.slice(from)
    if (name === 'data') this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`
    else if (name === 'event') this.#name = value
  }

  #dispatch(): void {
    const { name, data } = { name: this.#name, data: this.#data }
    this.#name = ''
    this.#data = undefined
    this.#skipping = false
    if (data !== undefined) this.#onEvent(name, data)
  }

  #skip(): void {
    this.skipped++
    this.#skipping = true
    this.#name = ''
    this.#data = undefined
  }

  #size(): number {
    return this.#line.length + (this.#data?.length ?? 0)
  }
}

/** The same memory as a Buffer, which is what the decoder takes without a copy. */
function viewOf(bytes: Uint8Array): Buffer {
  if (Buffer.isBuffer(bytes)) return bytes
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

export { SseSplitter }
