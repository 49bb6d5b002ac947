/**
 * Anthropic Messages, as the Claude API, vLLM and gateways for Claude Code speak it.
 *
 * Segments: tools, one a system block, then one a message. Claude Code puts a billing line first in
 * its system prompt that differs per conversation; its segment is reported as volatile. A message
 * may have the role `system` anywhere and is then a message like the others.
 */
import { Answer } from './answer.js'
import { countOf, isObject, listOf, markerOf, textOf } from './json.js'
import { writeContent, writeTools } from './parts.js'
import { PromptWriter } from './prompt.js'
import { checkBody, requestFacts, sseEvent } from './shared.js'
import { streamReader } from './stream.js'
import { answeredCalls, loopSeals } from './tail.js'
import type { Dialect, Json, Reading, RequestFacts, ResponseFacts, StreamReader } from './types.js'

const BILLING = 'x-anthropic-billing-header:'
const LIMITS = ['max_tokens'] as const
const MESSAGE_FIELDS: ReadonlySet<string> = new Set(['role', 'content'])

function read(body: Json, { sink, known = 0 }: Reading = {}): RequestFacts {
  checkBody(body)
  const w = new PromptWriter(sink)
  if (known === 0) {
    writeTools(w, 'T', body.tools)
    writeSystem(w, body.system)
  }
  const messages = listOf(body.messages)
  for (let at = known; at < messages.length; at += 1) {
    const message = messages[at]
    if (isObject(message)) {
      w.piece('r', textOf(message.role) ?? '')
      w.rest(message, MESSAGE_FIELDS)
      writeContent(w, message.content)
      w.mark(markerOf(message))
    } else w.json('o', message)
    w.end()
  }
  // On the body itself it stands for a marker on the last block.
  w.markLast(markerOf(body))
  const toolResults = answeredCalls(messages, isAnswer, resultsOf)
  const state = stateOf(body, toolResults.length === 0 ? [] : messages)
  return requestFacts(body, LIMITS, w, { toolResults, state, usageAsked: true })
}

function writeSystem(w: PromptWriter, system: unknown): void {
  const blocks = Array.isArray(system) ? system : [system]
  for (const block of blocks) {
    if (block === null || block === undefined || block === '') continue
    w.piece('s', '')
    writeContent(w, block)
    const text = isObject(block) ? textOf(block.text) : textOf(block)
    if (text?.startsWith(BILLING)) w.endVolatile()
    else w.end()
  }
}

function stateOf(body: Json, messages: readonly unknown[]): string[] {
  const container = isObject(body.container) ? body.container.id : body.container
  const id = textOf(container)
  const seals = loopSeals(messages, isAnswer, resultsOf)
  return id === undefined ? seals : [`container:${id}`, ...seals]
}

function isAnswer(message: unknown): boolean {
  return isObject(message) && message.role === 'assistant'
}

/** A message of the system inside a tool loop ends it no more than a result does. */
function resultsOf(message: unknown): readonly unknown[] {
  if (!isObject(message)) return []
  if (message.role === 'system') return [undefined]
  const results: unknown[] = []
  for (const block of listOf(message.content)) {
    if (isObject(block) && block.type === 'tool_result') results.push(block.tool_use_id)
  }
  return results
}

function readResponse(body: unknown): ResponseFacts {
  const answer = new Answer()
  if (isObject(body)) {
    answer.failed(body)
    if (!answer.ended) takeMessage(answer, body, new PromptUsage())
  }
  return answer.facts()
}

function takeMessage(answer: Answer, message: Json, usage: PromptUsage): void {
  answer.id ??= textOf(message.id)
  usage.take(answer, message.usage)
  takeStop(answer, message)
  listOf(message.content).forEach((block, index) => {
    if (!isObject(block)) return
    takeBlock(answer, block, index)
    answer.firstToken = true
    answer.sealDone(index)
  })
}

function takeStop(answer: Answer, message: Json): void {
  const reason = textOf(message.stop_reason)
  if (reason !== undefined) {
    answer.finishReason = reason
    answer.ended = true
  }
  if (isObject(message.container)) answer.owns('container', message.container.id)
}

function takeBlock(answer: Answer, block: Json, index: number): void {
  if (block.type === 'tool_use') answer.call(String(index), block.id, block.name)
  else if (block.type === 'thinking') answer.sealFragment(index, block.signature)
  else if (block.type === 'redacted_thinking') answer.ownsReasoning(block.data)
}

/** Usage comes in parts: the prompt is what was read, what was written and the rest together. */
class PromptUsage {
  #input: number | undefined
  #read: number | undefined
  #written: number | undefined

  take(answer: Answer, usage: unknown): void {
    if (!isObject(usage)) return
    const input = countOf(usage.input_tokens)
    const read = countOf(usage.cache_read_input_tokens)
    const written = countOf(usage.cache_creation_input_tokens)
    // Some relays repeat the prompt's counts as zeros at the end of a stream. No prompt is empty.
    if ((input ?? 0) + (read ?? 0) + (written ?? 0) > 0) {
      this.#input = input ?? this.#input
      this.#read = read ?? this.#read
      this.#written = written ?? this.#written
    }
    const total = (this.#input ?? Number.NaN) + (this.#read ?? 0) + (this.#written ?? 0)
    answer.usage({
      promptTokens: total,
      cachedTokens: this.#read,
      completionTokens: usage.output_tokens,
    })
  }
}

function stream(): StreamReader {
  const usage = new PromptUsage()
  return streamReader((answer, name, event) => {
    const index = countOf(event.index) ?? 0
    answer.failed(event)
    switch (textOf(event.type) ?? name) {
      case 'message_start':
        if (isObject(event.message)) takeMessage(answer, event.message, usage)
        break
      case 'content_block_start':
        if (!isObject(event.content_block)) break
        takeBlock(answer, event.content_block, index)
        if (event.content_block.type !== 'text') answer.firstToken = true
        break
      case 'content_block_delta':
        answer.firstToken = true
        if (isObject(event.delta)) answer.sealFragment(index, event.delta.signature)
        break
      case 'content_block_stop':
        answer.sealDone(index)
        break
      case 'message_delta':
        usage.take(answer, event.usage)
        if (isObject(event.delta)) takeStop(answer, event.delta)
        break
      case 'message_stop':
        answer.ended = true
        answer.over = true
    }
  }, 'says so')
}

const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
  529: 'overloaded_error',
}

/** What an error would have had for a status, had it come before the stream: clients repeat by its type. */
const EVENT_STATUS: Readonly<Record<string, number>> = {
  WARMPATH_HOLD_LIMIT: 529,
  WARMPATH_QUEUE_FULL: 529,
  WARMPATH_OVERLOADED: 529,
}

/** The shape has no place for a code, so that stands behind the message. */
function errorBody(status: number, code: string, message: string): Json {
  const type = TYPES[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error')
  return { type: 'error', error: { type, message: `${message} (${code})` } }
}

const anthropicMessages: Dialect = {
  name: 'anthropic-messages',
  items: 'messages',
  read,
  readResponse,
  stream,
  errorBody,
  errorEvent: (code, message) =>
    sseEvent('error', errorBody(EVENT_STATUS[code] ?? 502, code, message)),
  busyStatus: 529,
  keepAlive: 'event: ping\ndata: {"type": "ping"}\n\n',
}

export { anthropicMessages }
