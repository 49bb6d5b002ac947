/**
 * Reads an answer on its way through, without touching its bytes.
 *
 * There is no tee and no clone: chunks are pulled from the source only when the consumer asks, so
 * back-pressure reaches the engine. What they say is watch.ts's business. The reservation ends with
 * the body: at its end, its error, the consumer's cancel, or when the returned stream is collected
 * unread.
 */
import type { Logger } from '../config/index.js'
import type { Reservation } from './reservation.js'
import { AnswerWatch, rewritesAnswer, type WatchPlan } from './watch.js'

export interface ObservePlan
  extends Pick<WatchPlan, 'dialect' | 'reservation' | 'maxBytes' | 'filter' | 'tokenIds'> {
  readonly logger: Logger | undefined
  /** Told of the watch that begins. */
  readonly begun: (watch: AnswerWatch) => void
}

type Source = ReadableStreamDefaultReader<Uint8Array>
type Controller = ReadableStreamDefaultController<Uint8Array>

const collected = new FinalizationRegistry<Passage>((passage) => passage.forgotten())

/** The same answer, whose end is the end of the reservation. */
export function observeResponse(response: Response, plan: ObservePlan): Response {
  const { reservation } = plan
  const body = response.body
  if (!response.ok || body === null) {
    if (response.ok) reservation.complete({})
    else reservation.fail()
    return response
  }
  const isStream = isEventStream(response.headers.get('content-type'))
  const passage = new Passage(body.getReader(), isStream, plan)
  const stream = passedStream(passage)
  collected.register(stream, passage, passage)
  const { status, statusText } = response
  const headers = new Headers(response.headers)
  if (rewritesAnswer({ ...plan, isStream })) headers.delete('content-length')
  return new Response(stream, { status, statusText, headers })
}

export function isEventStream(contentType: string | null | undefined): boolean {
  return contentType?.includes('event-stream') ?? false
}

function passedStream(passage: Passage): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      start: (controller) => passage.start(controller),
      pull: (controller) => passage.pull(controller),
      cancel: (reason) => passage.cancel(reason),
    },
    { highWaterMark: 0 },
  )
}

/** One body between its source and its consumer. */
class Passage {
  readonly #source: Source
  readonly #isStream: boolean
  readonly #plan: ObservePlan
  readonly #reservation: Reservation
  #watch: AnswerWatch | undefined

  constructor(source: Source, isStream: boolean, plan: ObservePlan) {
    this.#source = source
    this.#isStream = isStream
    this.#plan = plan
    this.#reservation = plan.reservation
  }

  start(controller: Controller): void {
    // The controller is reached through the source's pending read or through the stream, never
    // from here: a strong reference would keep an abandoned stream from being collected.
    const weak = new WeakRef(controller)
    const stop = (reason: unknown) => {
      weak.deref()?.error(reason)
      this.#release(reason)
    }
    this.#watch = new AnswerWatch({ ...this.#plan, isStream: this.#isStream, stop })
    this.#plan.begun(this.#watch)
  }

  async pull(controller: Controller): Promise<void> {
    try {
      for (;;) {
        const { done, value } = await this.#source.read()
        if (done) {
          this.#finish(controller)
          return
        }
        const passed = this.#watch?.push(value) ?? value
        if (passed.length === 0) continue
        controller.enqueue(passed)
        return
      }
    } catch (error) {
      collected.unregister(this)
      this.#watch?.fail()
      controller.error(error)
    }
  }

  cancel(reason: unknown): Promise<void> {
    this.#watch?.cancel()
    return this.#release(reason)
  }

  forgotten(): void {
    this.#plan.logger?.warn(
      { reservation: this.#reservation.id },
      'an answer was forgotten: read or cancel its body',
    )
    void this.cancel(undefined)
  }

  #finish(controller: Controller): void {
    collected.unregister(this)
    const rest = this.#watch?.end()
    if (rest !== undefined && rest.length > 0) controller.enqueue(rest)
    controller.close()
  }

  #release(reason: unknown): Promise<void> {
    collected.unregister(this)
    return this.#source.cancel(reason).catch(() => undefined)
  }
}
