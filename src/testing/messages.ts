/** POST /v1/messages, in the shapes of the Anthropic API. */
import type { Delta } from './answer.js'
import { count, type Json, list, records, text } from './json.js'
import { contentParts, type Message, type Part, toolNames, toolsMessage } from './prompt.js'
import { type Ask, type Dialect, invalid, type Reply, type StreamWriter, sse } from './wire.js'

const messages: Dialect = {
  name: 'anthropic-messages',
  replyPrefix: 'msg_',
  callPrefix: 'toolu_',
  read(body) {
    if (count(body.max_tokens) === undefined)
      throw invalid('max_tokens: Field required', 'max_tokens')
    return readMessages(body)
  },
  json,
  stream: (reply) => new MessageStream(reply),
  error,
}

/** A body as `count_tokens` takes it: without a limit. */
function readMessages(body: Json): Ask {
  const turns = records(body.messages)
  if (turns.length === 0) throw invalid('messages: at least one message is required', 'messages')
  const tools = records(body.tools)
  const system = contentParts(body.system)
  const spoke = turns.findLastIndex((m) => m.role === 'assistant')
  return {
    model: text(body.model),
    stream: body.stream === true,
    maxOutputTokens: count(body.max_tokens),
    messages: [
      ...toolsMessage(tools),
      ...(system.length > 0 ? [{ role: 'system' as const, parts: system }] : []),
      ...turns.flatMap(readTurn),
    ],
    tools: toolNames(tools),
    answered: turns
      .slice(spoke + 1)
      .flatMap((m) => records(m.content))
      .filter((block) => block.type === 'tool_result')
      .flatMap((block) => text(block.tool_use_id) ?? []),
    includeUsage: true,
    body,
  }
}

/** A user turn may carry tool results, which the model sees as messages of their own. */
function readTurn(turn: Json): Message[] {
  const role = turn.role
  if (role !== 'user' && role !== 'assistant' && role !== 'system') {
    throw invalid(`messages: unknown role ${JSON.stringify(role)}`, 'messages')
  }
  if (typeof turn.content === 'string') return [{ role, parts: contentParts(turn.content) }]
  const result: Message[] = []
  for (const block of list(turn.content)) {
    const [of, parts] = readBlock(role, block)
    const open = result.at(-1)
    if (open?.role === of && of !== 'tool') open.parts.push(...parts)
    else result.push({ role: of, parts })
  }
  return result
}

function readBlock(
  role: 'user' | 'assistant' | 'system',
  block: unknown,
): [Message['role'], Part[]] {
  const [record] = records([block])
  if (record?.type === 'tool_result') return ['tool', contentParts(record.content)]
  if (record?.type === 'tool_use') {
    const args = JSON.stringify(record.input ?? {})
    return [role, [{ kind: 'call', name: text(record.name) ?? '', arguments: args }]]
  }
  return [role, contentParts([block])]
}

const STOP = { stop: 'end_turn', length: 'max_tokens', tool: 'tool_use' }

function usage(reply: Reply): Json {
  return {
    input_tokens: reply.promptTokens - reply.cachedTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: reply.cachedTokens,
    output_tokens: reply.outputTokens,
  }
}

function envelope(reply: Reply, content: Json[], stopReason: string | null): Json {
  return {
    id: reply.id,
    type: 'message',
    role: 'assistant',
    model: reply.model,
    content,
    stop_reason: stopReason,
    stop_sequence: null,
    usage: usage(reply),
  }
}

function json(reply: Reply): Json {
  const said = reply.text === '' ? [] : [{ type: 'text', text: reply.text }]
  const calls = reply.calls.map(({ id, name, arguments: args }) => ({
    type: 'tool_use',
    id,
    name,
    input: input(args),
  }))
  return envelope(reply, [...said, ...calls], STOP[reply.finish])
}

/** Arguments that a limit cut off are no JSON any more. */
function input(source: string): unknown {
  try {
    return JSON.parse(source)
  } catch {
    return {}
  }
}

class MessageStream implements StreamWriter {
  readonly #reply: Reply
  #block = -1
  #open: 'text' | 'tool' | undefined

  constructor(reply: Reply) {
    this.#reply = reply
  }

  open(): string {
    return sse('message_start', { type: 'message_start', message: envelope(this.#reply, [], null) })
  }

  write(deltas: readonly Delta[]): string {
    return deltas.map((delta) => this.#one(delta)).join('')
  }

  close(): string {
    const delta = { stop_reason: STOP[this.#reply.finish], stop_sequence: null }
    return (
      this.#endBlock() +
      sse('message_delta', { type: 'message_delta', delta, usage: usage(this.#reply) }) +
      sse('message_stop', { type: 'message_stop' })
    )
  }

  #one(delta: Delta): string {
    switch (delta.kind) {
      case 'text': {
        const started = this.#open === 'text' ? '' : this.#begin('text', { type: 'text', text: '' })
        return started + this.#delta({ type: 'text_delta', text: delta.text })
      }
      case 'call': {
        const { id, name } = delta.call
        return this.#begin('tool', { type: 'tool_use', id, name, input: {} })
      }
      case 'arguments':
        return this.#delta({ type: 'input_json_delta', partial_json: delta.text })
    }
  }

  #begin(kind: 'text' | 'tool', block: Json): string {
    const ended = this.#endBlock()
    this.#open = kind
    this.#block += 1
    const start = { type: 'content_block_start', index: this.#block, content_block: block }
    return ended + sse('content_block_start', start)
  }

  #delta(delta: Json): string {
    return sse('content_block_delta', { type: 'content_block_delta', index: this.#block, delta })
  }

  #endBlock(): string {
    if (this.#open === undefined) return ''
    this.#open = undefined
    return sse('content_block_stop', { type: 'content_block_stop', index: this.#block })
  }
}

const ERROR_TYPES: Record<number, string> = {
  400: 'invalid_request_error',
  404: 'not_found_error',
  413: 'request_too_large',
  503: 'overloaded_error',
}

function error(status: number, message: string): Json {
  const type = ERROR_TYPES[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error')
  return { type: 'error', error: { type, message } }
}

export { messages, readMessages }
