/** Requests, answers and schedulers that several specs need. */
import { Scheduler, type SchedulerOptions, type TurnRequest } from '../../src/index.js'

export const CHAT = '/v1/chat/completions'

export function chat(session: string, text = 'hello', extra: object = {}): TurnRequest {
  return {
    path: CHAT,
    headers: { 'x-session-id': session },
    body: { model: 'm', messages: [{ role: 'user', content: text }], ...extra },
  }
}

export const SSE = { headers: { 'content-type': 'text/event-stream' } }
export const JSON_ANSWER = { headers: { 'content-type': 'application/json' } }

export const USAGE_CHUNK =
  'data: {"id":"c","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\n'
export const CHAT_STREAM = [
  'data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"Grüße"}}]}\n\n',
  'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
  USAGE_CHUNK,
  'data: [DONE]\n\n',
]

/** A body that gives one chunk a pull; records how it ends. */
export function source(chunks: readonly string[], end: 'close' | Error = 'close') {
  const log: unknown[] = []
  let at = 0
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const chunk = chunks[at++]
        if (chunk !== undefined) controller.enqueue(new TextEncoder().encode(chunk))
        else if (end === 'close') controller.close()
        else controller.error(end)
      },
      cancel(reason) {
        log.push(reason)
      },
    },
    { highWaterMark: 0 },
  )
  return { body, cancelled: log, pulled: () => at }
}

export interface Fleet extends Disposable {
  readonly scheduler: Scheduler
  /** Moves the clock and runs what is due. */
  pass(ms: number): void
  /** What is held or running. */
  left(): number
}

/** A scheduler with a clock of its own. */
export function fleet(options: Partial<SchedulerOptions> = {}): Fleet {
  let now = 1_700_000_000_000
  const scheduler = new Scheduler({
    workers: [
      { id: 'a', url: 'http://a' },
      { id: 'b', url: 'http://b' },
    ],
    clock: () => now,
    ...options,
  })
  return {
    scheduler,
    pass(ms) {
      now += ms
      scheduler.poll()
    },
    left: () => scheduler.status().reservations,
    [Symbol.dispose]: () => scheduler.close(),
  }
}

/** One worker that is full with two turns of `crowdedTurn`; further sessions are held. */
export function crowded(options: Partial<SchedulerOptions> = {}): Fleet {
  return fleet({
    workers: [{ id: 'a', url: 'http://a', capacityTokens: 2000 }],
    admission: { policy: 'thunderagent' },
    ...options,
  })
}

/** About 850 tokens. */
export function crowdedTurn(session: string, extra: Partial<TurnRequest> = {}): TurnRequest {
  return { ...chat(session, session.padEnd(3400, 'x')), ...extra }
}

/** Lets promises that are due settle. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
