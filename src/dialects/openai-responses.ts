/**
 * OpenAI Responses, as Codex and the newer SDKs speak it.
 *
 * Segments: tools, a stored prompt, instructions, then one an input item. An item's `id` and
 * `status` name it for the provider's store and are not prompt: two sessions that send the same
 * item give it different ids. An item that only *refers* to a stored one is kept by its id.
 */
import { randomUUID } from 'node:crypto'
import { Answer } from './answer.js'
import { countOf, digest, isObject, listOf, markerOf, stable, textOf } from './json.js'
import { writeContent, writeTools } from './parts.js'
import { PromptWriter } from './prompt.js'
import { sealsOf } from './seals.js'
import { checkBody, openaiErrorBody, requestFacts, sseEvent } from './shared.js'
import { streamReader } from './stream.js'
import { answeredCalls, loopSeals } from './tail.js'
import type { Dialect, Json, Reading, RequestFacts, ResponseFacts } from './types.js'

type Seen = Readonly<Pick<ResponseFacts, 'id' | 'sequence'>>

const MESSAGE_FIELDS: ReadonlySet<string> = new Set(['type', 'id', 'status', 'role', 'content'])
const ITEM_FIELDS: ReadonlySet<string> = new Set([
  ...['type', 'id', 'status', 'call_id', 'name', 'arguments', 'input', 'output'],
  ...['encrypted_content', 'result'],
])

/** Kinds of items that a model or its server made, beside those named `..._call`. */
const MADE: ReadonlySet<unknown> = new Set([
  ...['reasoning', 'compaction', 'compaction_summary', 'item_reference'],
  ...['mcp_list_tools', 'mcp_approval_request'],
])
const LIMITS = ['max_output_tokens'] as const

function read(body: Json, { sink, known = 0 }: Reading = {}): RequestFacts {
  checkBody(body)
  const w = new PromptWriter(sink)
  if (known === 0) writeAhead(w, body)
  const input =
    typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : body.input
  const items = listOf(input)
  for (let at = known; at < items.length; at += 1) {
    const item = items[at]
    if (isObject(item)) writeItem(w, item)
    else w.json('o', item)
    w.end()
  }
  const toolResults = answeredCalls(items, isMade, resultsOf)
  const state = stateOf(body, items, toolResults.length > 0)
  return requestFacts(body, LIMITS, w, { toolResults, state, usageAsked: true })
}

/** What stands before the items of a conversation. */
function writeAhead(w: PromptWriter, body: Json): void {
  writeTools(w, 'T', body.tools)
  if (isObject(body.prompt)) {
    w.json('p', body.prompt)
    w.end()
  }
  if (textOf(body.instructions) !== undefined) {
    w.piece('s', '')
    w.text(String(body.instructions))
    w.end()
  }
}

function isMessage(item: Json): boolean {
  return item.type === 'message' || (item.type === undefined && item.role !== undefined)
}

function writeItem(w: PromptWriter, item: Json): void {
  if (isMessage(item)) {
    w.piece('r', textOf(item.role) ?? '')
    w.rest(item, MESSAGE_FIELDS)
    writeContent(w, item.content)
  } else {
    w.piece('i', textOf(item.type) ?? '')
    if (item.type === 'item_reference') w.piece('d', textOf(item.id) ?? '')
    if (item.call_id !== undefined) w.piece('d', textOf(item.call_id) ?? '')
    if (item.name !== undefined) w.piece('n', textOf(item.name) ?? '')
    w.rest(item, ITEM_FIELDS)
    const seal = textOf(item.encrypted_content)
    if (seal !== undefined) w.piece('e', digest(seal))
    // The image that a model made, as base64.
    if (item.result !== undefined) w.piece('m', digest(stable(item.result)))
    for (const name of ['arguments', 'input', 'output']) {
      if (item[name] !== undefined) w.piece('f', name)
      writeContent(w, item[name])
    }
  }
  w.mark(markerOf(item))
}

function isMade(item: unknown): boolean {
  if (!isObject(item)) return false
  if (isMessage(item)) return item.role === 'assistant'
  return MADE.has(item.type) || (textOf(item.type)?.endsWith('_call') ?? false)
}

/** Outputs of functions, custom tools, computers and shells alike; and approvals, which also
 * answer what the model asked. */
function resultsOf(item: unknown): readonly unknown[] {
  if (!isObject(item)) return []
  // Instructions inside a tool loop end it no more than a result does.
  if (item.role === 'system' || item.role === 'developer') return [undefined]
  if (item.type === 'mcp_approval_response') return [item.approval_request_id]
  return textOf(item.type)?.endsWith('_output') ? [item.call_id] : []
}

function stateOf(body: Json, items: readonly unknown[], inLoop: boolean): string[] {
  const state = new Set<string>()
  const add = (kind: string, id: unknown) => {
    const name = textOf(id)
    if (name !== undefined) state.add(`${kind}:${name}`)
  }
  add('response', body.previous_response_id)
  add('conversation', isObject(body.conversation) ? body.conversation.id : body.conversation)
  for (const container of containersOf(body)) add('container', container)
  for (const item of items) {
    if (!isObject(item)) continue
    if (item.id !== undefined && isReference(item)) add('item', item.id)
    add('container', item.container_id)
    add('container', machineOf(item))
    if (textOf(item.type)?.startsWith('compaction')) for (const s of sealsOf(item)) state.add(s)
    for (const part of listOf(item.content)) if (isObject(part)) add('file', part.file_id)
  }
  const seals = inLoop ? loopSeals(items, isMade, resultsOf) : []
  for (const seal of seals) state.add(seal)
  return [...state]
}

/** Members that hold what an item says: one with none of them stands for one that is stored. */
const SAID = [
  ...['content', 'output', 'arguments', 'input', 'action', 'code', 'result', 'encrypted_content'],
  ...['queries', 'tools', 'operation', 'approve'],
]

function isReference(item: Json): boolean {
  return item.type === 'item_reference' || !SAID.some((name) => isSaid(item[name]))
}

function isSaid(value: unknown): boolean {
  const isEmpty = value === undefined || value === null || value === ''
  return !isEmpty && !(Array.isArray(value) && value.length === 0)
}

/** Machines that the provider keeps, where a tool names one. */
function containersOf(body: Json): unknown[] {
  return listOf(body.tools).flatMap((tool) => {
    if (!isObject(tool)) return []
    const { container } = tool
    return [isObject(container) ? container.id : container, tool.container_id, machineOf(tool)]
  })
}

/** Where an item or a tool of a shell runs. */
function machineOf({ environment }: Json): unknown {
  return isObject(environment) ? environment.container_id : undefined
}

function readResponse(body: unknown): ResponseFacts {
  const answer = new Answer()
  if (isObject(body)) takeResponse(answer, body)
  return answer.facts()
}

const ENDS: ReadonlySet<unknown> = new Set(['completed', 'incomplete', 'failed', 'cancelled'])

function takeResponse(answer: Answer, body: Json): void {
  answer.id ??= textOf(body.id)
  takeUsage(answer, body.usage)
  listOf(body.output).forEach((item, index) => {
    if (isObject(item)) takeItem(answer, item, String(index))
  })
  answer.failed(body)
  if (body.object === 'response.compaction') answer.ended = true
  // It is asked for by its id while it is being made.
  if (body.background === true) answer.owns('response', body.id)
  if (!ENDS.has(body.status)) return
  answer.ended = true
  const details = isObject(body.incomplete_details)
    ? textOf(body.incomplete_details.reason)
    : undefined
  answer.finishReason = details ?? String(body.status)
  if (body.status === 'failed') answer.fail(body.error ?? 'failed')
  takeStored(answer, body)
}

/** What the provider keeps of an answer that is over. `store` is on unless it was turned off. */
function takeStored(answer: Answer, body: Json): void {
  if (isObject(body.conversation)) answer.owns('conversation', body.conversation.id)
  if (body.store === false) return
  answer.owns('response', body.id)
  for (const item of listOf(body.output)) {
    if (!isObject(item)) continue
    answer.owns('item', item.id)
    answer.owns('container', item.container_id)
    answer.owns('container', machineOf(item))
  }
}

function takeItem(answer: Answer, item: Json, key: string): void {
  answer.firstToken = true
  if (item.type === 'mcp_approval_request') answer.call(key, item.id, item.name)
  // Calls that the provider runs itself have no call_id: nobody has to answer them.
  else if (textOf(item.type)?.endsWith('_call') && item.call_id !== undefined) {
    answer.call(key, item.call_id, item.name)
  }
  answer.ownsReasoning(item.encrypted_content)
}

function takeUsage(answer: Answer, usage: unknown): void {
  if (!isObject(usage)) return
  const details = isObject(usage.input_tokens_details) ? usage.input_tokens_details : {}
  answer.usage({
    promptTokens: usage.input_tokens,
    cachedTokens: details.cached_tokens,
    completionTokens: usage.output_tokens,
  })
}

function takeEvent(answer: Answer, name: string, event: Json): void {
  const type = textOf(event.type) ?? name
  answer.sequence = countOf(event.sequence_number) ?? answer.sequence
  if (isObject(event.response)) takeResponse(answer, event.response)
  answer.failed(event)
  if (type === 'error') answer.fail(event.error ?? event)
  else if (type.endsWith('.delta')) answer.firstToken = true
  else if (type === 'response.output_item.done' && isObject(event.item)) {
    takeItem(answer, event.item, String(event.output_index))
  } else if (type === 'response.output_item.added' && isObject(event.item)) {
    takeAdded(answer, event.item, String(event.output_index))
  }
}

/** An item that has only begun: a call is known by now, sealed reasoning is not yet whole. */
function takeAdded(answer: Answer, item: Json, key: string): void {
  const { encrypted_content: _, ...begun } = item
  const before = answer.firstToken
  takeItem(answer, begun, key)
  // A message or a reasoning item opens before its first token.
  answer.firstToken = before || (textOf(item.type)?.endsWith('_call') ?? false)
}

/**
 * Codex stops at `response.failed`, the SDKs at `error`; each passes over the other. They go on with
 * the stream's numbers and its id; a stream that told none was never begun and gets an id here.
 */
function errorEvent(code: string, message: string, seen: Seen = {}): string {
  const id = seen.id ?? `resp_${randomUUID().replaceAll('-', '')}`
  const next = seen.sequence === undefined ? 0 : seen.sequence + 1
  const error = { code, message }
  const response = { id, object: 'response', status: 'failed', error, output: [] }
  const failed = { type: 'response.failed', sequence_number: next, response }
  const event = { type: 'error', code, message, param: null, sequence_number: next + 1 }
  return sseEvent('response.failed', failed) + sseEvent('error', event)
}

const openaiResponses: Dialect = {
  name: 'openai-responses',
  items: 'input',
  read,
  readResponse,
  stream: () => streamReader(takeEvent),
  errorBody: openaiErrorBody,
  errorEvent,
  busyStatus: 503,
  keepAlive: ': keep-alive\n\n',
}

export { openaiResponses }
