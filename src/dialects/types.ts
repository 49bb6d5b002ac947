/**
 * What the rest of Warmpath may ask of a wire API, and what it gets: the shapes that the three
 * dialects share. Types only.
 */

import type { TextSink } from './sink.js'

type DialectName = 'openai-chat' | 'openai-responses' | 'anthropic-messages'

/** A JSON object whose members have not been checked. */
type Json = Record<string, unknown>

/**
 * The prompt as text that means the same whenever the prompt does: no cache markers, strings by
 * their value, every value framed by its length so that two different prompts never read alike.
 * A later turn of a conversation begins with the segments of the earlier ones, unchanged.
 */
interface CanonicalPrompt {
  /** UTF-8. */
  bytes: Uint8Array
  /** Offsets into `bytes` where each segment ends; ascending, the last is `bytes.length`. */
  ends: readonly number[]
}

/** A cache marker of the client. */
interface Marker {
  /** How long it asks the cache to keep what is before it. Absent: it does not say. */
  ttlSeconds?: number
}

/** A position where a hosted cache may be read or written: the end of a segment. */
interface Breakpoint extends Marker {
  segment: number
}

interface RequestFacts {
  /** The model asked for, as the client wrote it. */
  model?: string
  stream: boolean
  /** Tokens, 1 to 2^31. */
  maxOutputTokens?: number
  /** What vLLM and SGLang set cached blocks apart by: `cache_salt`. */
  cacheSalt?: string
  /** Tool calls answered after the last thing that the model said; each id once, as sent. */
  toolResults: string[]
  /**
   * What of a provider's memory the request leans on: `response:<id>`, `conversation:<id>`,
   * `item:<id>` (a stored output item), `container:<id>`, `file:<id>`, and `reasoning:<digest>` for
   * signed or encrypted reasoning that the open tool loop must hand back (the newest 8 of it; an
   * encrypted compaction counts wherever it stands, since it replaces the history).
   */
  state: string[]
  /** The answer will report usage without further asking. */
  usageAsked: boolean
  /**
   * Where cache markers stand; ascending, each segment once. A marker inside a segment counts for
   * the segment before it: what is surely cached.
   */
  breakpoints: Breakpoint[]
  /** How many content blocks each segment was sent as, at least 1: hosted caches look back by these. */
  contents: number[]
  /** Segments that differ per conversation although nothing that matters to it does. */
  volatile: number[]
  prompt: CanonicalPrompt
}

/** Tokens; a field that was not reported, or not as an integer in 0 to 2^31, is absent. */
interface Usage {
  /** The whole prompt, whether read from a cache or not. */
  promptTokens?: number
  cachedTokens?: number
  completionTokens?: number
}

interface ToolCall {
  id: string
  name?: string
}

interface ResponseFacts {
  id?: string
  usage?: Usage
  /** As the provider wrote it; for Responses the status, or the reason why it is incomplete. */
  finishReason?: string
  /** Number of the last event, in streams that number theirs. */
  sequence?: number
  /** Calls that the client must answer; the first 1,024. */
  toolCalls: ToolCall[]
  /** State that this answer now owns, in the words of {@link RequestFacts.state}; the first 1,024. */
  state: string[]
  /** Some content has been generated. */
  firstToken: boolean
  /** The provider has said that the answer is over, well or badly. */
  ended: boolean
  /** The provider's code or type of an error; never its message unless there is nothing else. */
  error?: string
}

/** Reads a stream on the way. Bytes may be split anywhere; nothing in them makes it throw. */
interface StreamReader {
  push(bytes: Uint8Array | string): void
  /** The stream is over: an event whose closing blank line never came counts too. */
  end(): void
  /** What is known so far; a copy. */
  facts(): ResponseFacts
  /** The two facts that somebody may want after each piece, without the others. */
  readonly firstToken: boolean
  readonly ended: boolean
  /** Whether its last event has come; a chat stream has ended before. */
  readonly isOver: boolean
  /** Events that could not be read: no JSON object, or larger than 16 Mi characters. */
  readonly anomalies: number
}

/** How a request is read. */
interface Reading {
  /** Where the prompt is to lie, until somebody else writes there; else in memory of its own. */
  sink?: TextSink
  /**
   * So many items of the conversation are known, and so are their segments and all segments before
   * them: the prompt, its breakpoints and the like are only of what follows. Default 0: all is read.
   */
  known?: number
}

interface Dialect {
  readonly name: DialectName
  /** The member of a request that holds the items of its conversation, one segment each. */
  readonly items: 'messages' | 'input'
  /** O(body). Throws WARMPATH_INVALID_BODY only if `body` is not an object. */
  read(body: Json, how?: Reading): RequestFacts
  /** Reads a whole JSON answer, also an error; never throws. */
  readResponse(body: unknown): ResponseFacts
  stream(): StreamReader
  /** An error answer in this dialect's shape. */
  errorBody(status: number, code: string, message: string): Json
  /**
   * What to append to a broken stream so that a client sees an error and not a short answer; `seen`
   * is what the stream has told, if anything.
   */
  errorEvent(
    code: string,
    message: string,
    seen?: Readonly<Pick<ResponseFacts, 'id' | 'sequence'>>,
  ): string
  /** The status that says that all are busy. */
  readonly busyStatus: 503 | 529
  /** What a stream may be sent while its turn is held; no client takes it for content. */
  readonly keepAlive: string
}

export type {
  Breakpoint,
  CanonicalPrompt,
  Dialect,
  DialectName,
  Json,
  Marker,
  Reading,
  RequestFacts,
  ResponseFacts,
  StreamReader,
  TextSink,
  ToolCall,
  Usage,
}
