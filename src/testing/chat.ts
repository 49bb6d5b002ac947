/** POST /v1/chat/completions, in the shapes of vLLM. */
import type { Delta } from './answer.js'
import { count, isRecord, type Json, records, text } from './json.js'
import { contentParts, type Message, type Part, toolNames, toolsMessage } from './prompt.js'
import {
  type Ask,
  type Dialect,
  invalid,
  openaiError,
  type Reply,
  type StreamWriter,
} from './wire.js'

const ROLES: Record<string, Message['role']> = {
  system: 'system',
  developer: 'system',
  user: 'user',
  assistant: 'assistant',
  tool: 'tool',
  function: 'tool',
}

const chat: Dialect = {
  name: 'openai-chat',
  replyPrefix: 'chatcmpl-',
  callPrefix: 'chatcmpl-tool-',
  read,
  json,
  stream: (reply) => new ChatStream(reply),
  error: openaiError,
}

function read(body: Json): Ask {
  const messages = records(body.messages)
  if (messages.length === 0)
    throw invalid('messages must be a list with at least one message', 'messages')
  const tools = records(body.tools)
  const options = isRecord(body.stream_options) ? body.stream_options : {}
  const spoke = messages.findLastIndex((m) => m.role === 'assistant')
  return {
    model: text(body.model),
    stream: body.stream === true,
    maxOutputTokens: count(body.max_completion_tokens) ?? count(body.max_tokens),
    messages: [...toolsMessage(tools), ...messages.map(readMessage)],
    tools: toolNames(tools),
    answered: messages
      .slice(spoke + 1)
      .filter((m) => m.role === 'tool')
      .flatMap((m) => text(m.tool_call_id) ?? []),
    includeUsage: options.include_usage === true,
    tokenIds: body.return_token_ids === true,
    body,
  }
}

function readMessage(message: Json): Message {
  const role = ROLES[text(message.role) ?? '']
  if (role === undefined) throw invalid(`unknown role ${JSON.stringify(message.role)}`, 'messages')
  const calls = records(message.tool_calls).map((call): Part => {
    const called = isRecord(call.function) ? call.function : {}
    return { kind: 'call', name: text(called.name) ?? '', arguments: text(called.arguments) ?? '' }
  })
  return { role, parts: [...contentParts(message.content), ...calls] }
}

const FINISH = { stop: 'stop', length: 'length', tool: 'tool_calls' }

function usage(reply: Reply): Json {
  return {
    prompt_tokens: reply.promptTokens,
    total_tokens: reply.promptTokens + reply.outputTokens,
    completion_tokens: reply.outputTokens,
    prompt_tokens_details: { cached_tokens: reply.cachedTokens, created_cache_tokens: 0 },
    completion_tokens_details: null,
  }
}

function json(reply: Reply): Json {
  const calls = reply.calls.map(({ id, name, arguments: args }) => ({
    id,
    type: 'function',
    function: { name, arguments: args },
  }))
  const message = {
    role: 'assistant',
    content: reply.text === '' && calls.length > 0 ? null : reply.text,
    refusal: null,
    ...(calls.length > 0 && { tool_calls: calls }),
  }
  return {
    id: reply.id,
    object: 'chat.completion',
    created: reply.created,
    model: reply.model,
    choices: [
      {
        index: 0,
        message,
        logprobs: null,
        finish_reason: FINISH[reply.finish],
        stop_reason: null,
        token_ids: reply.ask.tokenIds ? [...reply.output] : null,
      },
    ],
    usage: usage(reply),
    prompt_token_ids: reply.ask.tokenIds ? [...reply.prompt] : null,
  }
}

class ChatStream implements StreamWriter {
  readonly #reply: Reply
  /** Tokens told so far. */
  #told = 0

  constructor(reply: Reply) {
    this.#reply = reply
  }

  open(): string {
    const { ask, prompt } = this.#reply
    const choices = [
      {
        index: 0,
        delta: { role: 'assistant', content: '' },
        logprobs: null,
        finish_reason: null,
      },
    ]
    return this.#chunk({ choices, prompt_token_ids: ask.tokenIds ? [...prompt] : null })
  }

  write(deltas: readonly Delta[]): string {
    const content = deltas.map((d) => (d.kind === 'text' ? d.text : '')).join('')
    const calls = new Map<number, Json>()
    for (const delta of deltas) {
      if (delta.kind === 'call') {
        const { id, name } = delta.call
        calls.set(delta.index, {
          id,
          type: 'function',
          index: delta.index,
          function: { name, arguments: '' },
        })
      } else if (delta.kind === 'arguments') {
        const call = calls.get(delta.index) ?? { index: delta.index, function: { arguments: '' } }
        const called = isRecord(call.function) ? call.function : {}
        calls.set(delta.index, {
          ...call,
          function: { ...called, arguments: `${text(called.arguments) ?? ''}${delta.text}` },
        })
      }
    }
    let chunks = content === '' ? '' : this.#choice({ content })
    if (calls.size > 0) chunks += this.#choice({ tool_calls: [...calls.values()] })
    return chunks
  }

  close(): string {
    const last = this.#choice({}, FINISH[this.#reply.finish])
    const counted = this.#reply.ask.includeUsage
      ? this.#chunk({ choices: [], usage: usage(this.#reply) })
      : ''
    return `${last}${counted}data: [DONE]\n\n`
  }

  #choice(delta: Json, finish: string | null = null): string {
    const { ask, output } = this.#reply
    const ids = ask.tokenIds ? [...output.subarray(this.#told)] : null
    this.#told = output.length
    const choice = { index: 0, delta, logprobs: null, finish_reason: finish, token_ids: ids }
    return this.#chunk({ choices: [choice] })
  }

  #chunk(rest: Json): string {
    const { id, created, model } = this.#reply
    const chunk = { id, object: 'chat.completion.chunk', created, model, ...rest }
    return `data: ${JSON.stringify(chunk)}\n\n`
  }
}

export { chat }
