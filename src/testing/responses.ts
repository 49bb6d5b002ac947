/** POST /v1/responses, in the shapes of the OpenAI API; stored responses can be continued. */
import type { Delta, ToolCall } from './answer.js'
import { count, isRecord, type Json, records, text } from './json.js'
import { contentParts, type Message, type Part, toolNames, toolsMessage } from './prompt.js'
import {
  type Ask,
  type Dialect,
  invalid,
  openaiError,
  Refusal,
  type Reply,
  type StreamWriter,
  sse,
} from './wire.js'

const responses: Dialect = {
  name: 'openai-responses',
  replyPrefix: 'resp_',
  callPrefix: 'call_',
  read,
  json: (reply) => envelope(reply, outputItems(reply)),
  stream: (reply) => new ResponseStream(reply),
  error: openaiError,
}

function read(body: Json, recall: (id: string) => readonly unknown[] | undefined): Ask {
  const fresh = inputItems(body)
  if (fresh.length === 0) throw invalid('input must be a text or a list of items', 'input')
  const previous = text(body.previous_response_id)
  const earlier = previous === undefined ? [] : recall(previous)
  if (earlier === undefined) {
    const message = `Previous response with id '${previous}' not found.`
    throw new Refusal(400, message, 'previous_response_not_found', 'previous_response_id')
  }
  const tools = records(body.tools)
  const instructions = contentParts(body.instructions)
  const spoke = fresh.findLastIndex(isAssistant)
  return {
    model: text(body.model),
    stream: body.stream === true,
    maxOutputTokens: count(body.max_output_tokens),
    messages: [
      ...toolsMessage(tools),
      ...(instructions.length > 0 ? [{ role: 'system' as const, parts: instructions }] : []),
      ...readItems([...records(earlier), ...fresh]),
    ],
    tools: toolNames(tools),
    answered: fresh
      .slice(spoke + 1)
      .filter((item) => OUTPUTS.has(text(item.type) ?? ''))
      .flatMap((item) => text(item.call_id) ?? []),
    includeUsage: true,
    body,
  }
}

/** The items of a request's own input. */
function inputItems(body: Json): Json[] {
  if (typeof body.input === 'string')
    return [{ type: 'message', role: 'user', content: body.input }]
  return records(body.input)
}

const OUTPUTS: ReadonlySet<string> = new Set(['function_call_output', 'custom_tool_call_output'])
const SPOKEN: ReadonlySet<unknown> = new Set(['function_call', 'custom_tool_call', 'reasoning'])
const ROLES: Record<string, Message['role']> = {
  system: 'system',
  developer: 'system',
  user: 'user',
  assistant: 'assistant',
}

function isAssistant(item: Json): boolean {
  return item.role === 'assistant' || SPOKEN.has(item.type)
}

/** What the assistant said in several items in a row is one message. */
function readItems(items: readonly Json[]): Message[] {
  const result: Message[] = []
  for (const item of items) {
    const message = readItem(item)
    const open = result.at(-1)
    if (message.role === 'assistant' && open?.role === 'assistant')
      open.parts.push(...message.parts)
    else result.push(message)
  }
  return result
}

function readItem(item: Json): Message {
  const type = text(item.type) ?? 'message'
  if (OUTPUTS.has(type)) return { role: 'tool', parts: contentParts(item.output) }
  if (type === 'function_call' || type === 'custom_tool_call') {
    const args = text(item.arguments) ?? text(item.input) ?? ''
    const call: Part = { kind: 'call', name: text(item.name) ?? '', arguments: args }
    return { role: 'assistant', parts: [call] }
  }
  if (type !== 'message') {
    const { id: _, ...seen } = item
    const role = isAssistant(item) ? 'assistant' : 'user'
    return { role, parts: [{ kind: 'value', value: seen }] }
  }
  const role = ROLES[text(item.role) ?? '']
  if (role === undefined) throw invalid(`unknown role ${JSON.stringify(item.role)}`, 'input')
  return { role, parts: contentParts(item.content) }
}

function usage(reply: Reply): Json {
  return {
    input_tokens: reply.promptTokens,
    input_tokens_details: { cached_tokens: reply.cachedTokens },
    output_tokens: reply.outputTokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: reply.promptTokens + reply.outputTokens,
  }
}

function envelope(reply: Reply, output: Json[], status?: 'in_progress'): Json {
  const { body } = reply.ask
  const cut = status === undefined && reply.finish === 'length'
  return {
    id: reply.id,
    object: 'response',
    created_at: reply.created,
    status: status ?? (cut ? 'incomplete' : 'completed'),
    error: null,
    incomplete_details: cut ? { reason: 'max_output_tokens' } : null,
    instructions: body.instructions ?? null,
    max_output_tokens: reply.ask.maxOutputTokens ?? null,
    model: reply.model,
    output,
    parallel_tool_calls: true,
    previous_response_id: body.previous_response_id ?? null,
    store: body.store !== false,
    tool_choice: body.tool_choice ?? 'auto',
    tools: records(body.tools),
    metadata: isRecord(body.metadata) ? body.metadata : {},
    usage: status === undefined ? usage(reply) : null,
  }
}

function messageItem(reply: Reply, said: string, status: string): Json {
  const content = status === 'in_progress' ? [] : [textPart(said)]
  return { id: `msg_${reply.id}`, type: 'message', role: 'assistant', status, content }
}

function textPart(said: string): Json {
  return { type: 'output_text', text: said, annotations: [], logprobs: [] }
}

function callItem(call: ToolCall, args: string, status: string): Json {
  const { id, name, namespace } = call
  return {
    id: `fc_${id}`,
    type: 'function_call',
    call_id: id,
    name,
    ...(namespace !== undefined && { namespace }),
    arguments: args,
    status,
  }
}

function outputItems(reply: Reply): Json[] {
  const said = reply.text === '' ? [] : [messageItem(reply, reply.text, 'completed')]
  return [...said, ...reply.calls.map((call) => callItem(call, call.arguments, 'completed'))]
}

/** The item that a stream is in the middle of. */
type Open = { kind: 'text'; text: string } | { kind: 'call'; call: ToolCall; arguments: string }

class ResponseStream implements StreamWriter {
  readonly #reply: Reply
  #sequence = 0
  #index = -1
  #open: Open | undefined

  constructor(reply: Reply) {
    this.#reply = reply
  }

  open(): string {
    const response = envelope(this.#reply, [], 'in_progress')
    return (
      this.#event('response.created', { response }) +
      this.#event('response.in_progress', { response })
    )
  }

  write(deltas: readonly Delta[]): string {
    return deltas.map((delta) => this.#one(delta)).join('')
  }

  close(): string {
    const ended = this.#endItem()
    const response = envelope(this.#reply, outputItems(this.#reply))
    return ended + this.#event(`response.${response.status}`, { response })
  }

  #one(delta: Delta): string {
    const output_index = this.#index
    if (delta.kind === 'call') {
      return this.#begin(
        { kind: 'call', call: delta.call, arguments: '' },
        callItem(delta.call, '', 'in_progress'),
      )
    }
    if (delta.kind === 'text') {
      const started = this.#open?.kind === 'text' ? '' : this.#beginText()
      if (this.#open?.kind === 'text') this.#open.text += delta.text
      return (
        started +
        this.#event('response.output_text.delta', {
          ...this.#place(),
          delta: delta.text,
          logprobs: [],
        })
      )
    }
    if (this.#open?.kind !== 'call') return ''
    this.#open.arguments += delta.text
    const item_id = `fc_${this.#open.call.id}`
    return this.#event('response.function_call_arguments.delta', {
      item_id,
      output_index,
      delta: delta.text,
    })
  }

  #beginText(): string {
    const item = messageItem(this.#reply, '', 'in_progress')
    const begun = this.#begin({ kind: 'text', text: '' }, item)
    return (
      begun + this.#event('response.content_part.added', { ...this.#place(), part: textPart('') })
    )
  }

  #begin(open: Open, item: Json): string {
    const ended = this.#endItem()
    this.#open = open
    this.#index += 1
    return ended + this.#event('response.output_item.added', { output_index: this.#index, item })
  }

  #endItem(): string {
    const open = this.#open
    if (open === undefined) return ''
    this.#open = undefined
    const output_index = this.#index
    if (open.kind === 'call') {
      const item = callItem(open.call, open.arguments, 'completed')
      const done = {
        item_id: item.id,
        output_index,
        name: open.call.name,
        arguments: open.arguments,
      }
      return (
        this.#event('response.function_call_arguments.done', done) +
        this.#event('response.output_item.done', { output_index, item })
      )
    }
    const item = messageItem(this.#reply, open.text, 'completed')
    return (
      this.#event('response.output_text.done', {
        ...this.#place(),
        text: open.text,
        logprobs: [],
      }) +
      this.#event('response.content_part.done', { ...this.#place(), part: textPart(open.text) }) +
      this.#event('response.output_item.done', { output_index, item })
    )
  }

  #place(): Json {
    return { item_id: `msg_${this.#reply.id}`, output_index: this.#index, content_index: 0 }
  }

  #event(type: string, data: Json): string {
    return sse(type, { type, sequence_number: this.#sequence++, ...data })
  }
}

export { inputItems, responses }
