/**
 * What is sent for a turn of a workload?
 *
 * One OpenAI chat request with the whole prompt as one message, streamed, with the session's name in
 * the headers that routers read. The engine double is told how long the answer is and whether it ends
 * in a tool call; a real engine is bounded by `max_tokens` and otherwise answers what it likes.
 */
import type { Workload, WorkloadTurns } from '../../workload.js'
import { content } from './content.js'

interface RequestOptions {
  model: string
  /** Changes every text; see content.ts. */
  salt: number
  /** Members that go into every body, such as `ignore_eos`. */
  body?: Readonly<Record<string, unknown>>
  headers?: Readonly<Record<string, string>>
}

interface WireRequest {
  headers: Record<string, string>
  body: string
}

/** Prompts that are longer are not sent: a text of 8 megabytes is more than any endpoint takes. */
const MOST_TOKENS = 2_000_000
/** Tokens that the template of a chat puts around the one message, at least. */
const FRAME_TOKENS = 3
/** Tokens of an answer of the engine double that are no text: its end, and a call with `{}`. */
const END_TOKENS = 1
const CALL_TOKENS = 3

class Requests {
  readonly #workload: Workload
  readonly #turns: WorkloadTurns
  readonly #blockTokens: number
  readonly #options: RequestOptions

  constructor(workload: Workload, turns: WorkloadTurns, options: RequestOptions) {
    this.#workload = workload
    this.#turns = turns
    this.#blockTokens = workload.summary().blockTokens
    this.#options = options
  }

  /** Builds it anew each time: a prompt may have megabytes. Absent when it would have too many. */
  of(turn: number): WireRequest | undefined {
    const { model, salt, body, headers } = this.#options
    if ((this.#turns.inputTokens[turn] ?? 0) > MOST_TOKENS) return undefined
    const output = this.#turns.outputTokens[turn] ?? 1
    const text = content({
      blocks: this.#workload.blocks(turn),
      blockTokens: this.#blockTokens,
      tokens: Math.max(1, (this.#turns.inputTokens[turn] ?? 1) - FRAME_TOKENS),
      turn,
      salt,
    })
    return {
      headers: { 'content-type': 'application/json', ...headers, ...this.#names(turn) },
      body: JSON.stringify({
        model,
        messages: [{ role: 'user', content: text }],
        max_tokens: output,
        stream: true,
        stream_options: { include_usage: true },
        ...body,
      }),
    }
  }

  #names(turn: number): Record<string, string> {
    const { session, sessions, parents, next } = this.#turns
    const index = session[turn] ?? 0
    const parent = sessions[parents[index] ?? -1]
    const room = (this.#turns.outputTokens[turn] ?? 1) - END_TOKENS
    // An answer that is too short for a call has none.
    const isTool = next[turn] === 'tool' && room >= CALL_TOKENS
    const text = room - (isTool ? CALL_TOKENS : 0)
    return {
      'x-dynamo-session-id': plain(sessions[index] ?? ''),
      ...(parent !== undefined && { 'x-dynamo-parent-session-id': plain(parent) }),
      ...(next[turn] === 'end' && { 'x-dynamo-session-final': 'true' }),
      'x-double-output-tokens': String(Math.max(0, text)),
      ...(isTool && { 'x-double-tool': 'tool {}' }),
    }
  }
}

/** A name as a header may carry it. */
function plain(name: string): string {
  return encodeURIComponent(name)
}

export { MOST_TOKENS, type RequestOptions, Requests, type WireRequest }
