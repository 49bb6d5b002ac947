/**
 * What does an answer say while somebody else passes it on?
 *
 * An AnswerWatch is told each piece and says what may be passed on: the same bytes, but for what was
 * asked for on the client's behalf. Streams go to the dialect's reader piece by piece, JSON answers
 * are collected and parsed once at their end, up to `maxBytes`. The reservation ends
 * exactly once: when the answer says that it is over, at its end, when it breaks or is given up, or
 * when the watch is collected. A reader that fails costs the usage figures and never the answer.
 *
 * It knows no streams and no back-pressure; observe.ts is a web stream around it.
 */
import type { Dialect, ResponseFacts, StreamReader } from '../dialects/index.js'
import { TokenIds, type TokenIdsPlan, type UsageChunkFilter } from '../forward/index.js'
import type { Told } from '../trace/index.js'
import { Pieces } from './pieces.js'
import type { Reservation } from './reservation.js'

export interface WatchPlan {
  readonly dialect: Dialect
  readonly reservation: Reservation
  /** The answer is a stream of events. */
  readonly isStream: boolean
  /** Takes out of a stream what was asked for on the client's behalf. */
  readonly filter: UsageChunkFilter | undefined
  /** Reads the prompt's tokens in the answer, and takes them out where the client has not asked. */
  readonly tokenIds: TokenIdsPlan | undefined
  /** Largest JSON answer that is read; a larger one passes unread. */
  readonly maxBytes: number
  /** Breaks the answer off when the turn's signal aborts. */
  readonly stop: (reason: unknown) => void
}

const NOTHING = new Uint8Array(0)

/** An answer on its way through. */
export class AnswerWatch {
  readonly #reservation: Reservation
  readonly #filter: UsageChunkFilter | undefined
  readonly #tokenIds: TokenIds | undefined
  /** Whether what is passed on may have another length than what came. */
  readonly rewrites: boolean
  readonly #stream: StreamReader | undefined
  #reading: Reading | undefined

  constructor(plan: WatchPlan) {
    const { dialect, reservation, isStream, filter, tokenIds, maxBytes, stop } = plan
    this.#reservation = reservation
    this.#filter = isStream ? filter : undefined
    this.#tokenIds = tokenIds && new TokenIds(tokenIds)
    this.rewrites = rewritesAnswer(plan)
    this.#stream = isStream ? dialect.stream() : undefined
    this.#reading = this.#stream
      ? new StreamReading(this.#stream)
      : new JsonReading(dialect, maxBytes)
    const reading = this.#reading
    reservation.observe(stop, () => {
      const facts = reading.facts()
      return facts && toldOf(facts)
    })
  }

  /** What a stream has told so far. */
  facts(): ResponseFacts | undefined {
    return this.#stream?.facts()
  }

  /** Whether a stream has told its end: what breaks after that has broken nothing. */
  get isOver(): boolean {
    return this.#stream?.isOver ?? false
  }

  /** Takes the next piece. Gives what of the answer may be passed on now, which may be nothing. */
  push(piece: Uint8Array): Uint8Array {
    const bare = this.#tokenIds === undefined ? piece : this.#tokenIds.push(piece)
    if (bare.length === 0) return NOTHING
    this.#read(bare)
    return this.#filter === undefined ? bare : this.#filter.push(bare)
  }

  /** The answer has come to its end. Gives what is left to be passed on. */
  end(): Uint8Array {
    let facts: ResponseFacts | undefined
    try {
      facts = this.#reading?.end()
    } catch {
      facts = undefined
    }
    this.#end(facts)
    return this.#filter?.end() ?? NOTHING
  }

  /** The answer broke off. */
  fail(): void {
    this.#reservation.fail()
  }

  /** Nobody wants the rest. A client that leaves after the answer's end has had all of it. */
  cancel(): void {
    const facts = this.#reading?.facts()
    if (facts?.ended) this.#end(facts)
    else this.#reservation.cancel()
  }

  #read(piece: Uint8Array): void {
    const reading = this.#reading
    const { ended } = this.#reservation
    // A chat stream goes on after its usage, which has ended the reservation.
    if (reading === undefined || (ended && (this.#stream?.isOver ?? true))) return
    try {
      reading.push(piece)
      if (ended) return
      if (reading.firstToken) this.#reservation.firstToken()
      if (reading.ended) this.#endEarly(reading.facts())
    } catch {
      this.#reading = undefined
    }
  }

  /**
   * Clients leave a stream unread once its last event is there: its end is not waited for. Chat
   * streams say that they are over before they tell their usage.
   */
  #endEarly(facts: ResponseFacts | undefined): void {
    if (facts !== undefined && (facts.usage ?? facts.error) !== undefined) this.#end(facts)
  }

  #end(facts: ResponseFacts | undefined): void {
    if (facts?.error !== undefined) this.#reservation.fail()
    else this.#reservation.complete(facts === undefined ? {} : toldOf(facts))
  }
}

/** Whether an answer that is watched so may be passed on with another length than it came with. */
export function rewritesAnswer({ isStream, filter, tokenIds }: Rewriting): boolean {
  return tokenIds?.takesOut === true || (isStream && filter !== undefined)
}

type Rewriting = Pick<WatchPlan, 'isStream' | 'filter' | 'tokenIds'>

/** An answer that is being read; asking for its facts costs more than pushing a piece. */
interface Reading {
  readonly firstToken: boolean
  readonly ended: boolean
  push(bytes: Uint8Array): void
  facts(): ResponseFacts | undefined
  end(): ResponseFacts | undefined
}

class StreamReading implements Reading {
  readonly #reader: StreamReader

  constructor(reader: StreamReader) {
    this.#reader = reader
  }

  get firstToken(): boolean {
    return this.#reader.firstToken
  }

  get ended(): boolean {
    return this.#reader.ended
  }

  push(bytes: Uint8Array): void {
    this.#reader.push(bytes)
  }

  facts(): ResponseFacts {
    return this.#reader.facts()
  }

  end(): ResponseFacts {
    this.#reader.end()
    return this.#reader.facts()
  }
}

/** Nothing is known before the end. */
class JsonReading implements Reading {
  readonly firstToken = false
  readonly ended = false
  readonly #dialect: Dialect
  readonly #pieces: Pieces

  constructor(dialect: Dialect, maxBytes: number) {
    this.#dialect = dialect
    this.#pieces = new Pieces(maxBytes)
  }

  push(bytes: Uint8Array): void {
    this.#pieces.push(bytes)
  }

  facts(): undefined {
    return undefined
  }

  end(): ResponseFacts | undefined {
    const whole = this.#pieces.end()
    return whole && this.#dialect.readResponse(JSON.parse(whole.toString('utf8')))
  }
}

/** Ends of an answer after which the client comes back, even where no call with an id was seen. */
const OPEN_REASONS: ReadonlySet<string> = new Set([
  'tool_use',
  'tool_calls',
  'function_call',
  'pause_turn',
])

function toldOf({ usage, toolCalls, ended, finishReason, state }: ResponseFacts): Told {
  const isKnown = toolCalls.length > 0 || ended || finishReason !== undefined
  const isOpen = finishReason !== undefined && OPEN_REASONS.has(finishReason)
  return {
    ...(usage === undefined ? {} : { usage }),
    ...(isKnown ? { finished: toolCalls.length === 0 && !isOpen } : {}),
    ...(finishReason === undefined ? {} : { finishReason }),
    toolCalls: toolCalls.map((call) => call.id),
    calls: toolCalls,
    state,
  }
}
