/**
 * Usage of a streamed chat answer that the client did not ask for.
 *
 * Chat streams tell their token counts only on request. The router asks in the client's place and
 * takes the one extra chunk (`choices: []` with `usage`) out again: the only place where answer
 * bytes are not passed on as they came. Complete events pass in the same call; an incomplete one
 * waits for its end, at most `MAX_PENDING_BYTES` of it, after which everything passes untouched.
 *
 * Cost: of whole events that tell no usage, as nearly all do, one search for the word; else one scan
 * for line ends, and a parse of each event that mentions usage. Trusts nothing: what does not parse
 * passes.
 */

import type { Change } from './change.js'

/** Usage chunks are a few hundred bytes; an event that is longer is content. */
export const MAX_PENDING_BYTES = 1 << 20

const EMPTY = new Uint8Array(0)
const USAGE = Buffer.from('"usage"')
const NULL = Buffer.from(':null')
const LF = 10
const CR = 13

/** Streamed usage is asked for, other stream options are kept. */
export const ASK_FOR_USAGE: Change = {
  name: 'stream_options',
  inner: 'include_usage',
  value: true,
}

export class UsageChunkFilter {
  #pending: Uint8Array = EMPTY
  /** What the pending bytes lie in, with room for more, once they have come in several pieces. */
  #room: Buffer | undefined
  /** In the pending bytes: up to where no event ends, and where the line begins that is open there. */
  #at = 0
  #line = 0
  #gaveUp = false

  /** What may be passed on now; may be empty. */
  push(bytes: Uint8Array): Uint8Array {
    if (this.#gaveUp) return bytes
    if (this.#pending.length === 0 && endsEvent(bytes) && !tellsUsage(bytes)) return bytes
    const joined = this.#join(bytes)
    const kept: Uint8Array[] = []
    let start = 0
    let keptTo = 0
    for (let end = this.#eventEnd(joined); end > 0; end = this.#eventEnd(joined)) {
      if (isUsageChunk(joined.subarray(start, end))) {
        if (start > keptTo) kept.push(joined.subarray(keptTo, start))
        keptTo = end
      }
      start = end
    }
    if (start > keptTo) kept.push(joined.subarray(keptTo, start))
    this.#pending = joined.subarray(start)
    this.#at -= start
    this.#line -= start
    // What has been passed on is the client's, and not written to again.
    if (start > 0) this.#room = undefined
    if (this.#pending.length > MAX_PENDING_BYTES) {
      this.#gaveUp = true
      kept.push(this.end())
    }
    return kept.length === 1 ? (kept[0] ?? EMPTY) : Buffer.concat(kept)
  }

  /** What is left when the stream ends inside an event. */
  end(): Uint8Array {
    const rest = this.#pending
    this.#pending = EMPTY
    return isUsageChunk(rest) ? EMPTY : rest
  }

  /** The pending bytes and these. Copies each byte a bounded number of times, however small the pieces. */
  #join(bytes: Uint8Array): Uint8Array {
    const { length } = this.#pending
    if (length === 0) return bytes
    const all = length + bytes.length
    if (this.#room === undefined || this.#room.length < all) {
      this.#room = Buffer.allocUnsafeSlow(2 * all)
      this.#room.set(this.#pending)
    }
    this.#room.set(bytes, length)
    return this.#room.subarray(0, all)
  }

  /** Offset behind the blank line that ends the next event, or 0. Looks at no byte twice. */
  #eventEnd(bytes: Uint8Array): number {
    for (let at = this.#at; at < bytes.length; at += 1) {
      const byte = bytes[at]
      if (byte !== LF && byte !== CR) continue
      // A CR that ends the bytes may be half of a CRLF: wait for the next ones.
      if (byte === CR && at + 1 === bytes.length) {
        this.#at = at
        return 0
      }
      const next = byte === CR && bytes[at + 1] === LF ? at + 2 : at + 1
      const isBlank = at === this.#line
      this.#line = next
      at = next - 1
      if (!isBlank) continue
      this.#at = next
      return next
    }
    this.#at = bytes.length
    return 0
  }
}

/** The most common end of an event; others take the longer way. */
function endsEvent(bytes: Uint8Array): boolean {
  const { length } = bytes
  return length > 1 && bytes[length - 1] === LF && bytes[length - 2] === LF
}

/** Whether there is a usage that is not null, which some servers write into every chunk. */
function tellsUsage(bytes: Uint8Array): boolean {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let at = buffer.indexOf(USAGE)
  while (at >= 0) {
    at += USAGE.length
    if (!buffer.subarray(at, at + NULL.length).equals(NULL)) return true
    at = buffer.indexOf(USAGE, at)
  }
  return false
}

function isUsageChunk(event: Uint8Array): boolean {
  const buffer = Buffer.from(event.buffer, event.byteOffset, event.byteLength)
  if (!buffer.includes(USAGE)) return false
  const data = buffer
    .toString('utf8')
    .split(/\r\n|\r|\n/)
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice('data:'.length))
    .join('\n')
  try {
    const chunk: unknown = JSON.parse(data)
    if (typeof chunk !== 'object' || chunk === null) return false
    const { choices, usage, error } = chunk as Record<'choices' | 'usage' | 'error', unknown>
    const counted = typeof usage === 'object' && usage !== null
    const isAsked = counted && Array.isArray(choices) && choices.length === 0
    // Whoever fails tells so in the same breath.
    return isAsked && (error === undefined || error === null)
  } catch {
    return false
  }
}
