/**
 * OpenAI Chat Completions, as OpenAI, vLLM, SGLang and most hosted providers speak it.
 *
 * Segments: settings that a chat template renders (if sent), tools, then one a message. Settings
 * that steer sampling, the format of the output or the effort are not prompt and not here, though
 * some hosted caches also key on them.
 */
import { Answer } from './answer.js'
import { isObject, listOf, markerOf, textOf } from './json.js'
import { writeContent, writeTools } from './parts.js'
import { PromptWriter } from './prompt.js'
import { sealsOf } from './seals.js'
import { checkBody, openaiErrorBody, requestFacts, sseEvent } from './shared.js'
import { streamReader } from './stream.js'
import { answeredCalls, loopSeals } from './tail.js'
import type { Dialect, Json, Reading, RequestFacts, ResponseFacts } from './types.js'

const RENDERED = ['chat_template', 'chat_template_kwargs', 'documents', 'functions'] as const
const LIMITS = ['max_completion_tokens', 'max_tokens'] as const
const MESSAGE_FIELDS: ReadonlySet<string> = new Set(['role', 'content', 'tool_calls'])
const CALL_FIELDS: ReadonlySet<string> = new Set(['id', 'type', 'index', 'function'])

function read(body: Json, { sink, known = 0 }: Reading = {}): RequestFacts {
  checkBody(body)
  const w = new PromptWriter(sink)
  if (known === 0) {
    writeSettings(w, body)
    writeTools(w, 'T', body.tools)
  }
  const messages = listOf(body.messages)
  for (let at = known; at < messages.length; at += 1) {
    const message = messages[at]
    if (isObject(message)) writeMessage(w, message)
    else w.json('o', message)
    w.end()
  }
  const toolResults = answeredCalls(messages, isAnswer, resultOf)
  const options = body.stream_options
  return requestFacts(body, LIMITS, w, {
    toolResults,
    state: toolResults.length === 0 ? [] : loopSeals(messages, isAnswer, resultOf),
    usageAsked: body.stream !== true || (isObject(options) && options.include_usage === true),
  })
}

function writeSettings(w: PromptWriter, body: Json): void {
  const sent = RENDERED.filter((name) => body[name] !== undefined && body[name] !== null)
  for (const name of sent) {
    w.piece('f', name)
    w.json('j', body[name])
  }
  if (sent.length > 0) w.end()
}

function writeMessage(w: PromptWriter, message: Json): void {
  w.piece('r', textOf(message.role) ?? '')
  w.rest(message, MESSAGE_FIELDS)
  writeContent(w, message.content)
  for (const call of listOf(message.tool_calls)) writeCall(w, call)
  w.mark(markerOf(message))
}

function writeCall(w: PromptWriter, call: unknown): void {
  w.part()
  if (!isObject(call)) {
    w.json('o', call)
    return
  }
  w.piece('u', textOf(call.type) ?? 'function')
  w.piece('d', textOf(call.id) ?? '')
  const { name, arguments: args, ...more } = isObject(call.function) ? call.function : {}
  w.piece('n', textOf(name) ?? '')
  if (typeof args === 'string') w.text(args)
  else if (args !== undefined) w.json('j', args)
  w.rest(more, CALL_FIELDS)
  w.rest(call, CALL_FIELDS)
  w.piece('z', '')
}

function isAnswer(message: unknown): boolean {
  return isObject(message) && message.role === 'assistant'
}

/** Instructions inside a tool loop end it no more than a result does. */
function resultOf(message: unknown): readonly unknown[] {
  if (!isObject(message)) return []
  if (message.role === 'system' || message.role === 'developer') return [undefined]
  return message.role === 'tool' ? [message.tool_call_id] : []
}

function readResponse(body: unknown): ResponseFacts {
  const answer = new Answer()
  if (isObject(body)) take(answer, body)
  return answer.facts()
}

/** A whole answer or one chunk of it: `message` and `delta` have the same members. */
function take(answer: Answer, body: Json): void {
  answer.id ??= textOf(body.id)
  answer.failed(body)
  takeUsage(answer, body.usage)
  if (isObject(body.x_groq)) takeUsage(answer, body.x_groq.usage)
  listOf(body.choices).forEach((choice, place) => {
    if (isObject(choice)) takeChoice(answer, choice, place)
  })
}

function takeChoice(answer: Answer, choice: Json, place: number): void {
  takeUsage(answer, choice.usage)
  const reason = textOf(choice.finish_reason)
  if (reason !== undefined) {
    answer.finishReason ??= reason
    answer.ended = true
  }
  const message = isObject(choice.delta) ? choice.delta : choice.message
  if (!isObject(message)) return
  if (isContent(message)) answer.firstToken = true
  for (const seal of sealsOf(message)) answer.owns('reasoning', seal.slice('reasoning:'.length))
  const index = choice.index ?? place
  listOf(message.tool_calls).forEach((call, i) => {
    if (!isObject(call)) return
    // Servers that leave the index out send whole calls, so the id tells them apart.
    const key = typeof call.index === 'number' ? call.index : (textOf(call.id) ?? i)
    answer.call(
      `${index}/${key}`,
      call.id,
      isObject(call.function) ? call.function.name : call.name,
    )
  })
}

function isContent(message: Json): boolean {
  const texts = [message.content, message.reasoning_content, message.reasoning, message.refusal]
  if (texts.some((v) => textOf(v) !== undefined || listOf(v).length > 0)) return true
  return listOf(message.tool_calls).length > 0 || isObject(message.function_call)
}

/** Totals include what was cached; the cached part has another name at some providers. */
function takeUsage(answer: Answer, usage: unknown): void {
  if (!isObject(usage)) return
  const details = isObject(usage.prompt_tokens_details) ? usage.prompt_tokens_details : {}
  answer.usage({
    promptTokens: usage.prompt_tokens,
    cachedTokens: details.cached_tokens ?? usage.prompt_cache_hit_tokens ?? usage.cached_tokens,
    completionTokens: usage.completion_tokens,
  })
}

const openaiChat: Dialect = {
  name: 'openai-chat',
  items: 'messages',
  read,
  readResponse,
  stream: () => streamReader((answer, _, event) => take(answer, event), 'says so'),
  errorBody: openaiErrorBody,
  errorEvent: (code, message) =>
    `${sseEvent(undefined, openaiErrorBody(502, code, message))}data: [DONE]\n\n`,
  busyStatus: 503,
  keepAlive: ': keep-alive\n\n',
}

export { openaiChat }
