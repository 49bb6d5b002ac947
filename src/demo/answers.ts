/**
 * What did the engine answer?
 *
 * Reads the event stream of one response in any of the three wire forms, as a client would: text,
 * tool calls, the usage counts, whether content has begun and whether the stream said that it
 * ended. It shares no code with the router's own readers, so a stream that the router bends on its
 * way is seen here.
 *
 * Trusts nothing: an event that is not what the wire form promises is skipped, an `error` event is
 * kept as the stream's error. Linear in the bytes.
 */
import type { Answer, ToolCall } from './conversation.js'
import type { ClientName } from './workload.js'

type Json = Readonly<Record<string, unknown>>

/** Token counts as the engine reported them; absent where it did not. */
interface AnswerUsage {
  /** The whole prompt, cached part included. */
  promptTokens?: number
  cachedTokens?: number
  completionTokens?: number
}

interface AnswerReader {
  /** Takes the next piece of the body, cut anywhere between characters. */
  push(chunk: string): void
  /** Whether text or a tool call has begun. */
  readonly begun: boolean
  /** Whether the stream announced its end. */
  readonly ended: boolean
  readonly error: string | undefined
  readonly usage: AnswerUsage
  answer(): Answer
}

/** What the three forms write into. */
class Draft {
  text = ''
  begun = false
  ended = false
  error: string | undefined
  readonly usage: AnswerUsage = {}
  readonly calls = new Map<string, ToolCall>()

  say(text: unknown): void {
    if (typeof text !== 'string' || text === '') return
    this.text += text
    this.begun = true
  }

  /** Opens the call at `place`, or adds to its arguments. */
  call(place: string, id: unknown, name: unknown, piece: unknown): void {
    const open = this.calls.get(place) ?? { id: '', name: '', arguments: '' }
    if (typeof id === 'string') open.id = id
    if (typeof name === 'string') open.name = name
    if (typeof piece === 'string') open.arguments += piece
    this.calls.set(place, open)
    this.begun = true
  }

  count(field: keyof AnswerUsage, value: unknown): void {
    if (typeof value === 'number' && Number.isInteger(value) && value >= 0)
      this.usage[field] = value
  }
}

function object(value: unknown): Json {
  return typeof value === 'object' && value !== null ? (value as Json) : {}
}

function list(value: unknown): Json[] {
  return Array.isArray(value) ? value.map(object) : []
}

function readChat(draft: Draft, event: Json): void {
  for (const choice of list(event.choices)) {
    const delta = object(choice.delta)
    draft.say(delta.content)
    for (const call of list(delta.tool_calls)) {
      const made = object(call.function)
      draft.call(String(call.index), call.id, made.name, made.arguments)
    }
  }
  const usage = object(event.usage)
  draft.count('promptTokens', usage.prompt_tokens)
  draft.count('completionTokens', usage.completion_tokens)
  draft.count('cachedTokens', object(usage.prompt_tokens_details).cached_tokens)
}

function readMessages(draft: Draft, event: Json): void {
  const place = String(event.index)
  switch (event.type) {
    case 'message_start':
      countMessages(draft, object(object(event.message).usage))
      break
    case 'content_block_start': {
      const block = object(event.content_block)
      if (block.type === 'tool_use') draft.call(place, block.id, block.name, undefined)
      else draft.say(block.text)
      break
    }
    case 'content_block_delta': {
      const delta = object(event.delta)
      if (delta.type === 'input_json_delta')
        draft.call(place, undefined, undefined, delta.partial_json)
      else draft.say(delta.text)
      break
    }
    case 'message_delta':
      countMessages(draft, object(event.usage))
      break
    case 'message_stop':
      draft.ended = true
  }
}

/** Anthropic counts the prompt in three disjoint parts. */
function countMessages(draft: Draft, usage: Json): void {
  draft.count('completionTokens', usage.output_tokens)
  if (typeof usage.input_tokens !== 'number') return
  const read = Number(usage.cache_read_input_tokens ?? 0)
  const written = Number(usage.cache_creation_input_tokens ?? 0)
  draft.count('promptTokens', usage.input_tokens + read + written)
  draft.count('cachedTokens', read)
}

function readResponses(draft: Draft, event: Json): void {
  const item = object(event.item)
  switch (event.type) {
    case 'response.output_text.delta':
      draft.say(event.delta)
      break
    case 'response.output_item.added':
      if (item.type === 'function_call')
        draft.call(String(event.output_index), item.call_id, item.name, item.arguments)
      break
    case 'response.function_call_arguments.delta':
      draft.call(String(event.output_index), undefined, undefined, event.delta)
      break
    case 'response.completed':
    case 'response.incomplete': {
      draft.ended = true
      const usage = object(object(event.response).usage)
      draft.count('promptTokens', usage.input_tokens)
      draft.count('completionTokens', usage.output_tokens)
      draft.count('cachedTokens', object(usage.input_tokens_details).cached_tokens)
    }
  }
}

const FORMS: Readonly<Record<ClientName, (draft: Draft, event: Json) => void>> = {
  'claude-code': readMessages,
  codex: readResponses,
  opencode: readChat,
}

function parse(data: string): Json | undefined {
  try {
    return object(JSON.parse(data))
  } catch {
    return undefined
  }
}

function errorOf(event: Json): string | undefined {
  const error = object(event.error)
  if (typeof error.message === 'string') return error.message
  return event.type === 'error' || event.type === 'response.failed'
    ? String(event.message ?? 'the stream failed')
    : undefined
}

/**
 * Splits an event stream: calls back with the data of each event, joined where it has several
 * lines. Other fields are not needed here: all three wire forms name the event in its data.
 */
function events(onData: (data: string) => void): (chunk: string) => void {
  let rest = ''
  let data: string[] = []
  return (chunk) => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const ended of lines) {
      const line = ended.endsWith('\r') ? ended.slice(0, -1) : ended
      if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5))
      else if (line === '' && data.length > 0) {
        onData(data.join('\n'))
        data = []
      }
    }
  }
}

/** A reader for one response to `client`. */
function readAnswer(client: ClientName): AnswerReader {
  const draft = new Draft()
  const read = FORMS[client]
  const push = events((data) => {
    if (data === '[DONE]') {
      draft.ended = true
      return
    }
    const event = parse(data)
    if (event === undefined) return
    draft.error ??= errorOf(event)
    read(draft, event)
  })
  return {
    push,
    get begun() {
      return draft.begun
    },
    get ended() {
      return draft.ended
    },
    get error() {
      return draft.error
    },
    usage: draft.usage,
    answer: () => ({ text: draft.text, toolCalls: [...draft.calls.values()] }),
  }
}

export { type AnswerReader, type AnswerUsage, readAnswer }
