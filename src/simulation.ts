/**
 * The typed face of the native engine model.
 *
 * It answers when each token of each request would appear on an engine of a given size. The clock
 * is the caller's: milliseconds from 0 that only move forward. It trusts nothing: a refused option
 * or argument is thrown with the code `WARMPATH_INVALID_ARGUMENT`.
 */
import { addon, type EngineHandle } from './native.js'

/** The engine to model. What is left out is a mid-size vLLM deployment. */
interface EngineModelOptions {
  /** Tokens a cache block, 1 to 65,536. Default 64. */
  blockSize?: number
  /** Cache blocks, 1 to 16,777,216. Default 16,384. */
  numGpuBlocks?: number
  /** Requests that may run at once. Default 256. */
  maxNumSeqs?: number
  /** Tokens a pass may compute. Default 8,192. */
  maxNumBatchedTokens?: number
  /** Whether prompts are split over passes. Default true. */
  chunkedPrefill?: boolean
  /** Whether blocks are reused by later prompts. Default true. */
  prefixCaching?: boolean
  /** Which running request gives way when the cache is full. Default 'newest'. */
  preemption?: 'newest' | 'oldest'
  /** How long a pass takes. Default: the published polynomial. */
  timing?: { type: 'polynomial' } | { type: 'fixed'; prefillMs: number; decodeMs: number }
  /** Divides every cost; above 0. Default 1. */
  speedupRatio?: number
  /** Divides the decode cost once more; above 0. Default 1. */
  decodeSpeedupRatio?: number
}

/** How a request left the engine. */
type EngineEnd = 'complete' | 'cacheFull' | 'rejected' | 'cancelled'

/** Something that happened at `at` (ms) to the request `id`. */
type EngineModelEvent =
  | { kind: 'admitted'; id: number; at: number; cachedTokens: number }
  | { kind: 'token'; id: number; at: number; produced: number }
  | { kind: 'preempted'; id: number; at: number }
  | { kind: 'ended'; id: number; at: number; produced: number; end: EngineEnd }

/** Counts since the engine was made; running, waiting and blocks are as of now. */
interface EngineModelStatus {
  blockSize: number
  numGpuBlocks: number
  running: number
  waiting: number
  usedBlocks: number
  findableBlocks: number
  /** Prompt tokens looked up in the cache, and those of them that were found. */
  queryTokens: number
  hitTokens: number
  /** Prompt tokens computed, and tokens made. */
  promptTokens: number
  outputTokens: number
  preemptions: number
  ended: number
  passes: number
  busyMs: number
  nowMs: number
}

const EVENT_WIDTH = 5
const EVENTS_A_CALL = 256
const ENDS: readonly EngineEnd[] = ['complete', 'cacheFull', 'rejected', 'cancelled']

/** One modelled engine. */
class EngineModel {
  readonly #handle: EngineHandle
  readonly #events = new Float64Array(EVENT_WIDTH * EVENTS_A_CALL)

  constructor(options: EngineModelOptions = {}) {
    this.#handle = addon.engineOpen(JSON.stringify(options))
  }

  /** Lets a request arrive whose answer will be exactly `output`; neither part may be empty. */
  submit(nowMs: number, id: number, prompt: Uint32Array, output: Uint32Array): void {
    addon.engineSubmit(this.#handle, nowMs, id, prompt, output)
  }

  /** Moves the clock to `nowMs` and gives what happened, in order. */
  advance(nowMs: number, visit: (event: EngineModelEvent) => void): void {
    for (;;) {
      const count = addon.engineAdvance(this.#handle, nowMs, this.#events)
      const batch = this.#events.slice(0, count * EVENT_WIDTH)
      for (let i = 0; i < batch.length; i += EVENT_WIDTH) visit(decode(batch, i))
      if (count < EVENTS_A_CALL) return
    }
  }

  /** When something happens next (ms), if nothing is submitted before. */
  next(): number | undefined {
    const at = addon.engineNext(this.#handle)
    return at < 0 ? undefined : at
  }

  /** Gives a request up; false if it is not in the engine. It ends with the pass under way. */
  cancel(id: number): boolean {
    return addon.engineCancel(this.#handle, id)
  }

  status(): EngineModelStatus {
    return JSON.parse(addon.engineStatus(this.#handle)) as EngineModelStatus
  }
}

function decode(numbers: Float64Array, from: number): EngineModelEvent {
  const [kind = 0, id = 0, at = 0, value = 0, end = 0] = numbers.subarray(from, from + EVENT_WIDTH)
  switch (kind) {
    case 0:
      return { kind: 'admitted', id, at, cachedTokens: value }
    case 3:
      return { kind: 'preempted', id, at }
    case 4:
      return { kind: 'ended', id, at, produced: value, end: ENDS[end] ?? 'rejected' }
    default:
      return { kind: 'token', id, at, produced: value }
  }
}

export {
  type EngineEnd,
  EngineModel,
  type EngineModelEvent,
  type EngineModelOptions,
  type EngineModelStatus,
}
