/**
 * Packs a turn into the arrays that cross to the core in one call.
 *
 * `head` holds counts and lengths, `ids` the ids as UTF-8; the layout is the core's and is stated at
 * `HEAD`. The prompt is taken where it lies. The arrays are reused from turn to turn and grow
 * to what a turn needs; after a large one they shrink back, so that it is not paid for ever.
 *
 * Trusts that segment ends ascend and the last one is the text's length.
 */
import { WarmpathError } from '../errors.js'

export const PromptKind = { text: 0, tokens: 1, hashes: 2, recalled: 3 } as const

/** Where a prompt's tokens are from, or why it is known by its text; by the core's numbers. */
export const ORIGINS = [
  ...(['given', 'tokenizer', 'engine', 'late', 'resting', 'refused', 'failed'] as const),
  ...(['unsupported', 'media', 'models', 'disagreement', 'answers'] as const),
] as const
export type Origin = (typeof ORIGINS)[number]
const ORIGIN_SHIFT = 8

/** Everything the core is told about a turn. */
export interface TurnFrame {
  readonly final: boolean
  readonly stream: boolean
  readonly kind: (typeof PromptKind)[keyof typeof PromptKind]
  readonly maxOutputTokens: number
  readonly tenant: string
  readonly session: string
  readonly parent: string
  /** What kind of work it is; empty: of no kind of its own. */
  readonly route: string
  /** What the client has its cached blocks set apart by; empty: nothing. */
  readonly cacheSalt: string
  /** Whether the task is another one than before. */
  readonly drift: boolean
  /** Its class where turns wait. */
  readonly priority: number
  /** Whether all provider state that it leans on can be taken out of it. */
  readonly canStrip: boolean
  readonly origin: Origin
  /** What its model has to take. */
  readonly needs: { readonly images: boolean; readonly tools: boolean }
  /** Index of the target that the caller would take. */
  readonly base: number | undefined
  /** Target indices in order of preference. */
  readonly targets: readonly number[]
  readonly toolResults: readonly string[]
  readonly state: readonly string[]
  readonly prompt: SegmentedText
  /** In place of text, for a prompt of that kind. */
  readonly exact: Uint32Array | BigUint64Array | undefined
  /** What the body was recalled as, for a prompt of that kind. */
  readonly ticket: number | undefined
}

export interface SegmentedText {
  /** UTF-8. */
  readonly bytes: Uint8Array
  /** Where each segment ends. */
  readonly ends: readonly number[]
  readonly volatile: readonly number[]
  readonly breakpoints: readonly { readonly segment: number; readonly ttlSeconds?: number }[]
  /** Content blocks that each segment was sent as. */
  readonly contents: readonly number[]
}

export const NO_TEXT: SegmentedText = {
  bytes: new Uint8Array(0),
  ends: [],
  volatile: [],
  breakpoints: [],
  contents: [],
}

/** Position of each fixed field of `head`; variable parts follow at `size`. */
const HEAD = {
  flags: 0,
  kind: 1,
  maxOutputTokens: 2,
  /** Of a prompt of hashes; of a recalled one its ticket. */
  promptTokens: 3,
  tenantBytes: 4,
  sessionBytes: 5,
  parentBytes: 6,
  pinnedWorker: 7,
  targets: 8,
  toolResults: 9,
  state: 10,
  segments: 11,
  /** Its index + 1; 0: the first of the targets that is up. */
  base: 12,
  routeBytes: 13,
  saltBytes: 14,
  /** As a signed number. */
  priority: 15,
  size: 16,
} as const
/** Flags of a segment: two bits, content blocks beyond the first, minutes of its breakpoint. */
const VOLATILE = 1
const BREAKPOINT = 2
const CONTENTS_SHIFT = 2
const MAX_CONTENTS = 0x3fff
const MINUTES_SHIFT = 16
const MAX_MINUTES = 0xffff
const MAX_U32 = 0xffff_ffff
const FIRST_BYTES = 4 * 1024
const FIRST_WORDS = 1024
/** Larger arrays are given back after the turn that needed them. */
const KEPT_BYTES = 4 * 1024 * 1024
const KEPT_WORDS = 64 * 1024

const encoder = new TextEncoder()

export class FrameWriter {
  readonly #maxBytes: number
  #head = new Uint32Array(FIRST_WORDS)
  #bytes = new Uint8Array(FIRST_BYTES)
  #words = 0
  #length = 0
  #prompt = NO_TEXT.bytes

  /** `maxBytes`: largest text and ids together; more is BODY_TOO_LARGE. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Valid until the next `write`. */
  get head(): Uint32Array {
    return this.#head.subarray(0, this.#words)
  }

  /** Valid until the next `write`. */
  get ids(): Uint8Array {
    return this.#bytes.subarray(0, this.#length)
  }

  /** The prompt, where it was handed in; tokens and hashes as the bytes that they are. */
  get prompt(): Uint8Array {
    return this.#prompt
  }

  /** The byte length of each segment of the text; a copy. */
  segmentBytes(): Uint32Array {
    const count = this.#head[HEAD.segments] ?? 0
    const first = this.#words - 2 * count
    return new Uint32Array(count).map((_, at) => this.#head[first + 2 * at] ?? 0)
  }

  /** Tenant and session alone, back to back. Valid until the next `write` or `names`. */
  names(tenant: string, session: string): { bytes: Uint8Array; tenantBytes: number } {
    this.#reset(0)
    const tenantBytes = this.#append(tenant)
    this.#append(session)
    return { bytes: this.ids, tenantBytes }
  }

  write(frame: TurnFrame): void {
    const { targets, toolResults, state, prompt } = frame
    const segments = prompt.ends.length
    const words = HEAD.size + targets.length + toolResults.length + state.length + 2 * segments
    this.#reset(words)
    const head = this.#head
    head[HEAD.flags] = flagsOf(frame)
    head[HEAD.kind] = frame.kind
    head[HEAD.maxOutputTokens] = Math.min(frame.maxOutputTokens, MAX_U32)
    head[HEAD.promptTokens] = frame.ticket ?? 0
    head[HEAD.tenantBytes] = this.#append(frame.tenant)
    head[HEAD.sessionBytes] = this.#append(frame.session)
    head[HEAD.parentBytes] = this.#append(frame.parent)
    head[HEAD.routeBytes] = this.#append(frame.route)
    head[HEAD.saltBytes] = this.#append(frame.cacheSalt)
    head[HEAD.base] = frame.base === undefined ? 0 : frame.base + 1
    head[HEAD.pinnedWorker] = 0
    head[HEAD.priority] = frame.priority
    head[HEAD.targets] = targets.length
    head[HEAD.toolResults] = toolResults.length
    head[HEAD.state] = state.length
    head[HEAD.segments] = segments
    let at: number = HEAD.size
    for (const target of targets) head[at++] = target
    for (const id of toolResults) head[at++] = this.#append(id)
    for (const id of state) head[at++] = this.#append(id)
    this.#segments(prompt, at)
    if (frame.exact !== undefined) this.#prompt = bytesOf(frame.exact)
    for (const index of prompt.volatile) mark(head, at, index, segments, VOLATILE)
    for (const { segment, ttlSeconds } of prompt.breakpoints) {
      mark(head, at, segment, segments, BREAKPOINT | (minutes(ttlSeconds) << MINUTES_SHIFT))
    }
  }

  #segments({ bytes, ends, contents }: SegmentedText, at: number): void {
    if (this.#length + bytes.length > this.#maxBytes) throw this.#tooLarge()
    const head = this.#head
    let from = 0
    for (let index = 0; index < ends.length; index += 1) {
      const end = ends[index] ?? from
      head[at + 2 * index] = end - from
      head[at + 2 * index + 1] = further(contents[index]) << CONTENTS_SHIFT
      from = end
    }
    this.#prompt = bytes
  }

  #append(text: string): number {
    if (text === '') return 0
    const start = this.#length
    let { read, written } = encoder.encodeInto(text, this.#bytes.subarray(start))
    if (read < text.length) {
      this.#grow(start + Buffer.byteLength(text))
      ;({ read, written } = encoder.encodeInto(text, this.#bytes.subarray(start)))
    }
    this.#length = start + written
    if (this.#length > this.#maxBytes) throw this.#tooLarge()
    return written
  }

  #grow(needed: number): void {
    if (needed > this.#maxBytes) throw this.#tooLarge()
    const larger = new Uint8Array(
      Math.min(this.#maxBytes, Math.max(needed, 2 * this.#bytes.length)),
    )
    larger.set(this.#bytes.subarray(0, this.#length))
    this.#bytes = larger
  }

  #reset(words: number): void {
    if (this.#bytes.length > KEPT_BYTES) this.#bytes = new Uint8Array(FIRST_BYTES)
    if (this.#head.length > KEPT_WORDS) this.#head = new Uint32Array(FIRST_WORDS)
    if (this.#head.length < words) this.#head = new Uint32Array(2 * words)
    this.#words = words
    this.#length = 0
  }

  #tooLarge(): WarmpathError {
    return new WarmpathError(
      'WARMPATH_BODY_TOO_LARGE',
      `prompt text is larger than limits.bodyBytes (${this.#maxBytes})`,
    )
  }
}

interface PackedIds {
  readonly lengths: Uint32Array
  readonly bytes: Uint8Array
}

const NO_IDS: PackedIds = { lengths: new Uint32Array(2), bytes: new Uint8Array(0) }

/** Ids of two kinds as [count of each kind, byte length of each id] and their bytes. */
export function packIds(calls: readonly string[], state: readonly string[]): PackedIds {
  if (calls.length === 0 && state.length === 0) return NO_IDS
  const encoded = [...calls, ...state].map((id) => encoder.encode(id))
  return {
    lengths: Uint32Array.of(calls.length, state.length, ...encoded.map((id) => id.length)),
    bytes: new Uint8Array(Buffer.concat(encoded)),
  }
}

function flagsOf({ final, stream, drift, canStrip, needs, origin }: TurnFrame): number {
  let flags = origin === 'given' ? 0 : ORIGINS.indexOf(origin) << ORIGIN_SHIFT
  if (final) flags |= 1
  if (stream) flags |= 2
  if (drift) flags |= 4
  if (canStrip) flags |= 8
  if (needs.images) flags |= 16
  if (needs.tools) flags |= 32
  return flags
}

function bytesOf({ buffer, byteOffset, byteLength }: Uint32Array | BigUint64Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength)
}

/** Content blocks beyond the first, as far as there is room. */
function further(contents = 1): number {
  return Math.min(Math.max(contents - 1, 0), MAX_CONTENTS)
}

/** Whole minutes, at least one; none where no lifetime was asked for. */
function minutes(seconds: number | undefined): number {
  if (seconds === undefined) return 0
  return Math.min(Math.max(Math.floor(seconds / 60), 1), MAX_MINUTES)
}

function mark(head: Uint32Array, at: number, index: number, segments: number, flag: number): void {
  if (index < 0 || index >= segments) return
  const word = at + 2 * index + 1
  head[word] = (head[word] ?? 0) | flag
}
