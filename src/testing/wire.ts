/**
 * What the three wire dialects of the double have in common: a request read, a reply to write.
 *
 * A dialect only translates. It decides nothing about time, cache or content, and one that refuses
 * a body does so with a `Refusal`, which becomes an error in its own shape.
 */
import type { Delta, Finish, ToolCall } from './answer.js'
import type { Json } from './json.js'
import type { Message } from './prompt.js'

type DialectName = 'openai-chat' | 'openai-responses' | 'anthropic-messages'

/** A request as the double understands it. */
interface Ask {
  model: string | undefined
  stream: boolean
  maxOutputTokens: number | undefined
  messages: Message[]
  tools: string[]
  /** Tool calls answered since the assistant last spoke. */
  answered: string[]
  /** Whether a chat stream ends with a usage chunk. */
  includeUsage: boolean
  /** Whether an answer tells the tokens of its prompt and its own. */
  tokenIds?: boolean
  body: Json
}

/** What is known of a reply; the getters are about the moment they are asked. */
interface Reply {
  readonly id: string
  readonly model: string
  /** Seconds since 1970. */
  readonly created: number
  readonly ask: Ask
  readonly promptTokens: number
  /** The prompt. */
  readonly prompt: Uint32Array
  /** What was generated so far. */
  readonly output: Uint32Array
  readonly cachedTokens: number
  readonly outputTokens: number
  readonly finish: Finish
  readonly text: string
  readonly calls: ToolCall[]
}

/** Writes one stream. `open` comes first, `close` last, each once. */
interface StreamWriter {
  open(): string
  write(deltas: readonly Delta[]): string
  close(): string
}

interface Dialect {
  readonly name: DialectName
  /** What ids of replies and of tool calls begin with. */
  readonly replyPrefix: string
  readonly callPrefix: string
  /** `recall` gives the items of a stored response. */
  read(body: Json, recall: (id: string) => readonly unknown[] | undefined): Ask
  json(reply: Reply): Json
  stream(reply: Reply): StreamWriter
  error(status: number, message: string, code: string, param: string | null): Json
}

/** A request that is answered with an error. */
class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly code: string,
    readonly param: string | null = null,
  ) {
    super(message)
  }
}

function invalid(message: string, param: string | null = null): Refusal {
  return new Refusal(400, message, 'invalid_request_error', param)
}

/** An event of a named stream. */
function sse(event: string, data: unknown): string {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}

/** The error shape that OpenAI's APIs and vLLM share. */
function openaiError(status: number, message: string, code: string, param: string | null): Json {
  const type = status >= 500 ? 'server_error' : 'invalid_request_error'
  return { error: { message, type, param, code } }
}

export {
  type Ask,
  type Dialect,
  type DialectName,
  invalid,
  openaiError,
  Refusal,
  type Reply,
  type StreamWriter,
  sse,
}
