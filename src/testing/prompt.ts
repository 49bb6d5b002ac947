/**
 * What the double's model would see: a chat template and a tokenizer of its own.
 *
 * A conversation is rendered piece by piece, and each piece is tokenised alone, four bytes a token.
 * So a prompt that continues another one begins with the same tokens, whatever comes after, and an
 * answer that is sent back gives the tokens it was made of. Cache markers, call ids and other
 * things that steer the server are not seen by the model and are not rendered. This is independent
 * of how the router cuts prompts, on purpose: it is what the router's predictions are checked with.
 * Cost: linear in the bytes of the conversation.
 */
import { isRecord, type Json } from './json.js'

type Role = 'tools' | 'system' | 'user' | 'assistant' | 'tool'

type Part =
  | { kind: 'text'; text: string }
  | { kind: 'call'; name: string; arguments: string }
  /** Anything else, by its value. */
  | { kind: 'value'; value: unknown }

interface Message {
  role: Role
  parts: Part[]
}

/** Never the first byte of UTF-8 text, so never four bytes of a text. */
const SPECIAL = 0xff000000
const END = SPECIAL + 1
const CALL = SPECIAL + 2
const ROLE: Record<Role, number> = {
  tools: SPECIAL + 16,
  system: SPECIAL + 17,
  user: SPECIAL + 18,
  assistant: SPECIAL + 19,
  tool: SPECIAL + 20,
}
const BYTES_A_TOKEN = 4

/** The tokens of a text: its UTF-8 bytes in fours, the last ones padded. */
function tokenize(source: string): Uint32Array {
  const bytes = Buffer.byteLength(source)
  const padded = new Uint8Array(Math.ceil(bytes / BYTES_A_TOKEN) * BYTES_A_TOKEN)
  Buffer.from(padded.buffer).write(source)
  return new Uint32Array(padded.buffer)
}

class TokenList {
  #tokens = new Uint32Array(1024)
  #length = 0

  add(token: number): void {
    this.#reserve(1)
    this.#tokens[this.#length++] = token
  }

  append(tokens: Uint32Array): void {
    this.#reserve(tokens.length)
    this.#tokens.set(tokens, this.#length)
    this.#length += tokens.length
  }

  take(): Uint32Array {
    return this.#tokens.slice(0, this.#length)
  }

  #reserve(more: number): void {
    const wanted = this.#length + more
    if (wanted <= this.#tokens.length) return
    const larger = new Uint32Array(Math.max(wanted, this.#tokens.length * 2))
    larger.set(this.#tokens.subarray(0, this.#length))
    this.#tokens = larger
  }
}

/** The prompt of a conversation, up to where the assistant begins to speak. */
function renderPrompt(messages: readonly Message[]): Uint32Array {
  const tokens = new TokenList()
  for (const message of messages) {
    tokens.add(ROLE[message.role])
    for (const part of message.parts) {
      for (const piece of pieces(part)) {
        if (typeof piece === 'number') tokens.add(piece)
        else tokens.append(tokenize(piece))
      }
    }
    tokens.add(END)
  }
  tokens.add(ROLE.assistant)
  return tokens.take()
}

/** A special token, or a text that is tokenised by itself. */
function pieces(part: Part): (number | string)[] {
  switch (part.kind) {
    case 'text':
      return [part.text]
    case 'call':
      return [CALL, part.name, normalArguments(part.arguments)]
    case 'value':
      return [JSON.stringify(visible(part.value)) ?? '']
  }
}

/** Arguments by value: spacing that a client's JSON library changed does not matter. */
function normalArguments(source: string): string {
  try {
    return JSON.stringify(JSON.parse(source))
  } catch {
    return source
  }
}

/** A value without what only steers the server. */
function visible(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(visible)
  if (!isRecord(value)) return value
  const entries = Object.entries(value).filter(([key]) => key !== 'cache_control')
  return Object.fromEntries(entries.map(([key, item]) => [key, visible(item)]))
}

/** Content that is a string or a list of parts; both give the same text for the same words. */
function contentParts(content: unknown): Part[] {
  if (typeof content === 'string') return content === '' ? [] : [{ kind: 'text', text: content }]
  if (!Array.isArray(content)) return content == null ? [] : [{ kind: 'value', value: content }]
  return content.filter((part) => part !== '').map(contentPart)
}

function contentPart(part: unknown): Part {
  if (typeof part === 'string') return { kind: 'text', text: part }
  if (isRecord(part) && typeof part.text === 'string' && TEXT_TYPES.has(part.type)) {
    return { kind: 'text', text: part.text }
  }
  return { kind: 'value', value: part }
}

const TEXT_TYPES: ReadonlySet<unknown> = new Set(['text', 'input_text', 'output_text', undefined])

/** The tools as one message before all others; none if there are none. */
function toolsMessage(tools: readonly unknown[]): Message[] {
  if (tools.length === 0) return []
  return [{ role: 'tools', parts: tools.map((value) => ({ kind: 'value', value })) }]
}

/** The names of tools in any of the three dialects. */
function toolNames(tools: readonly Json[]): string[] {
  return tools.flatMap((tool) => {
    const named = isRecord(tool.function) ? tool.function.name : tool.name
    return typeof named === 'string' ? [named] : []
  })
}

/** FNV-1a over the tokens: the seed of everything that depends on the prompt. */
function hashTokens(tokens: Uint32Array): number {
  let hash = 0x811c9dc5
  for (const token of tokens) hash = Math.imul(hash ^ token, 0x01000193) ^ (hash >>> 15)
  return hash >>> 0
}

export {
  BYTES_A_TOKEN,
  CALL,
  contentParts,
  END,
  hashTokens,
  type Message,
  normalArguments,
  type Part,
  renderPrompt,
  tokenize,
  toolNames,
  toolsMessage,
}
