/**
 * Reads an answer on its way through, without touching its bytes.
 *
 * Streams go to the dialect's reader chunk by chunk, JSON answers are collected by reference and
 * parsed once at their end, up to `maxBytes`. There is no tee and no clone: chunks are pulled from
 * the source only when the consumer asks, so back-pressure reaches the engine. The reservation ends
 * exactly once: when the answer says it is over, at the body's end, its error, the consumer's
 * cancel, or when the returned stream is collected unread. A reader that fails costs the usage
 * figures and never the answer.
 */
import type { Logger } from '../config/index.js'
import type { Dialect, ResponseFacts, StreamReader } from '../dialects/index.js'
import type { UsageChunkFilter } from '../forward/index.js'
import type { Told } from '../trace/index.js'
import type { Reservation } from './reservation.js'

export interface ObservePlan {
  readonly dialect: Dialect
  readonly reservation: Reservation
  /** Takes out what was asked for on the client's behalf. */
  readonly filter?: UsageChunkFilter
  /** Largest JSON answer that is read; a larger one passes unread. */
  readonly maxBytes: number
  readonly logger: Logger | undefined
  /** Told what a stream has told so far, after each piece of it. */
  readonly seen: (facts: ResponseFacts) => void
}

type Source = ReadableStreamDefaultReader<Uint8Array>

const collected = new FinalizationRegistry<Watch>((watch) => watch.forgotten())

/** The same answer, whose end is the end of the reservation. */
export function observeResponse(response: Response, plan: ObservePlan): Response {
  const { reservation } = plan
  const body = response.body
  if (!response.ok || body === null) {
    if (response.ok) reservation.complete({})
    else reservation.fail()
    return response
  }
  const type = response.headers.get('content-type') ?? ''
  const isStream = type.includes('event-stream')
  const filter = isStream ? plan.filter : undefined
  const reading = isStream
    ? new StreamReading(plan.dialect.stream())
    : new JsonReading(plan.dialect, plan.maxBytes)
  const watch = new Watch(body.getReader(), reading, filter, plan)
  const stream = watchedStream(watch)
  collected.register(stream, watch, watch)
  const { status, statusText } = response
  const headers = new Headers(response.headers)
  if (filter !== undefined) headers.delete('content-length')
  return new Response(stream, { status, statusText, headers })
}

function watchedStream(watch: Watch): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      start: (controller) => watch.start(controller),
      pull: (controller) => watch.pull(controller),
      cancel: (reason) => watch.cancel(reason),
    },
    { highWaterMark: 0 },
  )
}

/** What an answer has told so far. */
interface Reading {
  push(bytes: Uint8Array): void
  facts(): ResponseFacts | undefined
  end(): ResponseFacts | undefined
}

class StreamReading implements Reading {
  readonly #reader: StreamReader

  constructor(reader: StreamReader) {
    this.#reader = reader
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

class JsonReading implements Reading {
  readonly #dialect: Dialect
  readonly #maxBytes: number
  #chunks: Uint8Array[] = []
  #length = 0

  constructor(dialect: Dialect, maxBytes: number) {
    this.#dialect = dialect
    this.#maxBytes = maxBytes
  }

  push(bytes: Uint8Array): void {
    this.#length += bytes.length
    if (this.#length <= this.#maxBytes) this.#chunks.push(bytes)
    else this.#chunks = []
  }

  /** Nothing is known before the end. */
  facts(): undefined {
    return undefined
  }

  end(): ResponseFacts | undefined {
    if (this.#length > this.#maxBytes) return undefined
    const text = Buffer.concat(this.#chunks).toString('utf8')
    this.#chunks = []
    return this.#dialect.readResponse(JSON.parse(text))
  }
}

class Watch {
  readonly #source: Source
  readonly #filter: UsageChunkFilter | undefined
  readonly #plan: ObservePlan
  #reading: Reading | undefined

  constructor(
    source: Source,
    reading: Reading,
    filter: UsageChunkFilter | undefined,
    plan: ObservePlan,
  ) {
    this.#source = source
    this.#filter = filter
    this.#plan = plan
    this.#reading = reading
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    // The controller is reached through the source's pending read or through the stream, never
    // from here: a strong reference would keep an abandoned stream from being collected.
    const weak = new WeakRef(controller)
    const stop = (reason: unknown) => {
      weak.deref()?.error(reason)
      this.#release(reason)
    }
    this.#plan.reservation.observe(stop, () => this.#told())
  }

  async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    const filter = this.#filter
    try {
      for (;;) {
        const { done, value } = await this.#source.read()
        if (done) {
          this.#finish()
          const rest = filter?.end()
          if (rest !== undefined && rest.length > 0) controller.enqueue(rest)
          controller.close()
          return
        }
        this.#read(value)
        const passed = filter === undefined ? value : filter.push(value)
        if (passed.length === 0) continue
        controller.enqueue(passed)
        return
      }
    } catch (error) {
      collected.unregister(this)
      this.#plan.reservation.fail()
      controller.error(error)
    }
  }

  /** A client that leaves after the answer's end has had all of it. */
  cancel(reason: unknown): Promise<void> {
    const facts = this.#reading?.facts()
    if (facts?.ended) this.#end(facts)
    else this.#plan.reservation.cancel()
    return this.#release(reason)
  }

  forgotten(): void {
    const { logger, reservation } = this.#plan
    logger?.warn(
      { reservation: reservation.id },
      'an answer was forgotten: read or cancel its body',
    )
    void this.cancel(undefined)
  }

  #read(bytes: Uint8Array): void {
    const { reservation } = this.#plan
    if (reservation.ended || this.#reading === undefined) return
    try {
      this.#reading.push(bytes)
      const facts = this.#reading.facts()
      if (facts !== undefined) this.#plan.seen(facts)
      if (facts?.firstToken) reservation.firstToken()
      // Clients leave a stream unread once its last event is there: do not wait for its end. Chat
      // streams say that they are over before they tell their usage.
      if (facts?.ended && (facts.usage ?? facts.error) !== undefined) this.#end(facts)
    } catch {
      this.#reading = undefined
    }
  }

  #finish(): void {
    collected.unregister(this)
    let facts: ResponseFacts | undefined
    try {
      facts = this.#reading?.end()
    } catch {
      facts = undefined
    }
    this.#end(facts)
  }

  #end(facts: ResponseFacts | undefined): void {
    const { reservation } = this.#plan
    if (facts?.error !== undefined) reservation.fail()
    else reservation.complete(facts === undefined ? {} : toldOf(facts))
  }

  /** What a stream has told so far. */
  #told(): Told | undefined {
    const facts = this.#reading?.facts()
    return facts && toldOf(facts)
  }

  #release(reason: unknown): Promise<void> {
    collected.unregister(this)
    return this.#source.cancel(reason).catch(() => undefined)
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
