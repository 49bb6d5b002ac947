import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import test from 'ava'
import type { Dialect, ResponseFacts } from '../src/dialects/index.js'
import { anthropic, chat, responses } from './support/dialects.js'

const EMPTY: ResponseFacts = { toolCalls: [], state: [], firstToken: false, ended: false }
const DONE: ResponseFacts = { ...EMPTY, firstToken: true, ended: true }

const recorded = (name: string): unknown =>
  JSON.parse(
    gunzipSync(
      readFileSync(join(__dirname, `fixtures/engine-captures/vllm-0.32.0-http-${name}.json.gz`)),
    ).toString(),
  )

/** The facts after these events. */
function streamed(dialect: Dialect, ...events: (object | string)[]): ResponseFacts {
  const reader = dialect.stream()
  for (const event of events) {
    reader.push(`data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`)
  }
  return reader.facts()
}

test('recorded answers', (t) => {
  const cases: [Dialect, string, ResponseFacts][] = [
    [
      chat,
      '02-repeat',
      {
        ...DONE,
        id: 'chatcmpl-a978a52f6af392d0',
        finishReason: 'length',
        usage: { promptTokens: 302, cachedTokens: 288, completionTokens: 40 },
      },
    ],
    [
      chat,
      '11-tools-named',
      {
        ...DONE,
        id: 'chatcmpl-8a492343e83c7570',
        finishReason: 'stop',
        toolCalls: [{ id: 'chatcmpl-tool-a2d57192e91ab4e2', name: 'ls' }],
        usage: { promptTokens: 385, cachedTokens: 384, completionTokens: 32 },
      },
    ],
    [
      chat,
      '13-tool-result-turn',
      {
        ...DONE,
        id: 'chatcmpl-acf10860e98ad444',
        finishReason: 'length',
        usage: { promptTokens: 618, cachedTokens: 384, completionTokens: 40 },
      },
    ],
    [
      responses,
      '20-responses',
      {
        ...DONE,
        id: 'resp_b3cda5854ab4956b',
        finishReason: 'max_output_tokens',
        state: ['response:resp_b3cda5854ab4956b', 'item:msg_9b6e77b0b0df7982'],
        usage: { promptTokens: 13, cachedTokens: 0, completionTokens: 8 },
      },
    ],
    [
      anthropic,
      '21-anthropic',
      {
        ...DONE,
        id: 'chatcmpl-8b3f37f3400374c2',
        finishReason: 'max_tokens',
        usage: { promptTokens: 302, cachedTokens: 288, completionTokens: 8 },
      },
    ],
  ]
  for (const [dialect, name, facts] of cases)
    t.deepEqual(dialect.readResponse(recorded(name)), facts)
})

test('chat: usage comes last or all the time; a good field is never lost', (t) => {
  const usage = (value: unknown) => ({ choices: [], usage: value })
  const good = {
    prompt_tokens: 10,
    completion_tokens: 2,
    prompt_tokens_details: { cached_tokens: 4 },
  }
  const full = { promptTokens: 10, cachedTokens: 4, completionTokens: 2 }
  t.is(streamed(chat, { choices: [] }).usage, undefined)
  t.is(streamed(chat, usage(null), usage({})).usage, undefined)
  t.deepEqual(streamed(chat, usage(good)).usage, full)
  t.deepEqual(streamed(chat, usage(good), usage(null), usage({})).usage, full)
  t.deepEqual(streamed(chat, usage(good), usage({ completion_tokens: 3 })).usage, {
    ...full,
    completionTokens: 3,
  })
  for (const bad of [-1, 1.5, 2 ** 40, '7', null, {}, true]) {
    t.deepEqual(streamed(chat, usage(good), usage({ prompt_tokens: bad })).usage, full)
    t.is(streamed(chat, usage({ prompt_tokens: bad, completion_tokens: bad })).usage, undefined)
  }
  t.is(chat.readResponse({ usage: { prompt_tokens: Number.NaN } }).usage, undefined)
  t.deepEqual(chat.readResponse(usage({ prompt_tokens: 5, prompt_tokens_details: null })).usage, {
    promptTokens: 5,
  })
  t.deepEqual(chat.readResponse(usage({ prompt_tokens: 5, cached_tokens: 6 })).usage, {
    promptTokens: 5,
  })
  const deepseek = { prompt_tokens: 9, prompt_cache_hit_tokens: 8, prompt_cache_miss_tokens: 1 }
  t.deepEqual(chat.readResponse(usage(deepseek)).usage, { promptTokens: 9, cachedTokens: 8 })
  t.is(streamed(chat, { x_groq: { usage: { prompt_tokens: 3 } } }).usage?.promptTokens, 3)
  t.is(streamed(chat, { choices: [{ usage: { prompt_tokens: 3 } }] }).usage?.promptTokens, 3)
})

test('chat: first token, fragments of calls, end', (t) => {
  const delta = (value: unknown, more: object = {}) => ({
    choices: [{ index: 0, delta: value, ...more }],
  })
  t.false(streamed(chat, delta({ role: 'assistant', content: '' })).firstToken)
  t.false(streamed(chat, delta({ content: null, tool_calls: [] })).firstToken)
  for (const d of [
    { content: 'a' },
    { reasoning_content: 'a' },
    { reasoning: 'a' },
    { refusal: 'a' },
    { tool_calls: [{}] },
  ]) {
    t.true(streamed(chat, delta(d)).firstToken)
  }
  const fragment = (index: number | undefined, id?: string, name?: string) =>
    delta({ tool_calls: [{ index, id, function: { name, arguments: '{' } }] })
  t.deepEqual(
    streamed(
      chat,
      fragment(0, 'a', 'f'),
      fragment(1, 'b'),
      fragment(0),
      fragment(1, undefined, 'g'),
      fragment(0, '', ''),
    ).toolCalls,
    [
      { id: 'a', name: 'f' },
      { id: 'b', name: 'g' },
    ],
  )
  t.deepEqual(
    streamed(chat, fragment(undefined, 'a', 'f'), fragment(undefined, 'b', 'f')).toolCalls,
    [
      { id: 'a', name: 'f' },
      { id: 'b', name: 'f' },
    ],
  )
  t.deepEqual(streamed(chat, fragment(0, undefined, 'f')).toolCalls, [])
  t.false(streamed(chat, delta({ content: 'a' })).ended)
  const stop = streamed(chat, delta({}, { finish_reason: 'tool_calls' }))
  t.deepEqual([stop.ended, stop.finishReason], [true, 'tool_calls'])
  t.true(streamed(chat, '[DONE]').ended)
})

test('a flood of calls and state is cut', (t) => {
  const tool_calls = Array.from({ length: 5000 }, (_, i) => ({ index: i, id: `c${i}` }))
  t.is(chat.readResponse({ choices: [{ message: { tool_calls } }] }).toolCalls.length, 1024)
  const output = Array.from({ length: 5000 }, (_, i) => ({ type: 'message', id: `m${i}` }))
  t.is(responses.readResponse({ status: 'completed', output }).state.length, 1024)
  t.deepEqual(
    chat.readResponse({ choices: [{ message: { tool_calls: [{ id: 'x'.repeat(5000) }] } }] })
      .toolCalls,
    [],
  )
})

const start = (usage: object) => ({
  type: 'message_start',
  message: { id: 'msg_1', type: 'message', content: [], stop_reason: null, usage },
})
const block = (index: number, content_block: object) => ({
  type: 'content_block_start',
  index,
  content_block,
})
const delta = (index: number, value: object) => ({
  type: 'content_block_delta',
  index,
  delta: value,
})
const stop = (index: number) => ({ type: 'content_block_stop', index })
const end = (usage: object | undefined, stop_reason = 'end_turn') => ({
  type: 'message_delta',
  delta: { stop_reason, stop_sequence: null },
  usage,
})

test('anthropic: a stream with thinking, text and calls', (t) => {
  const events = [
    start({
      input_tokens: 3,
      cache_creation_input_tokens: 20,
      cache_read_input_tokens: 100,
      output_tokens: 1,
    }),
    { type: 'ping' },
    block(0, { type: 'thinking', thinking: '', signature: '' }),
    delta(0, { type: 'thinking_delta', thinking: 'hm' }),
    delta(0, { type: 'signature_delta', signature: 'o' }),
    delta(0, { type: 'signature_delta', signature: 'ne' }),
    stop(0),
    block(1, { type: 'text', text: '' }),
    delta(1, { type: 'text_delta', text: 'a' }),
    stop(1),
    block(2, { type: 'tool_use', id: 'toolu_1', name: 'f', input: {} }),
    delta(2, { type: 'input_json_delta', partial_json: '{}' }),
    stop(2),
    block(3, { type: 'server_tool_use', id: 'srv_1', name: 'web_search' }),
    stop(3),
    end({ output_tokens: 30 }, 'tool_use'),
    { type: 'message_stop' },
  ]
  const whole = anthropic.readResponse({
    id: 'msg_1',
    stop_reason: 'tool_use',
    content: [
      { type: 'thinking', thinking: 'hm', signature: 'one' },
      { type: 'text', text: 'a' },
      { type: 'tool_use', id: 'toolu_1', name: 'f', input: {} },
      { type: 'server_tool_use', id: 'srv_1', name: 'web_search' },
    ],
    usage: {
      input_tokens: 3,
      cache_creation_input_tokens: 20,
      cache_read_input_tokens: 100,
      output_tokens: 30,
    },
  })
  t.deepEqual(streamed(anthropic, ...events), whole)
  t.deepEqual(whole, {
    ...DONE,
    id: 'msg_1',
    finishReason: 'tool_use',
    toolCalls: [{ id: 'toolu_1', name: 'f' }],
    state: whole.state,
    usage: { promptTokens: 123, cachedTokens: 100, completionTokens: 30 },
  })
  t.is(whole.state.length, 1)
  // What is known on the way.
  t.deepEqual(streamed(anthropic, ...events.slice(0, 2)), {
    ...EMPTY,
    id: 'msg_1',
    usage: { promptTokens: 123, cachedTokens: 100, completionTokens: 1 },
  })
  t.deepEqual(streamed(anthropic, ...events.slice(0, 5)).state, [])
  t.true(streamed(anthropic, ...events.slice(0, 3)).firstToken)
  t.false(streamed(anthropic, ...events.slice(0, 16)).toolCalls.length === 0)
})

test('anthropic: usage in parts, repeated, or as zeros', (t) => {
  const usage = (...parts: object[]) =>
    streamed(anthropic, start(parts[0] ?? {}), ...parts.slice(1).map((p) => end(p))).usage
  t.deepEqual(usage({ input_tokens: 5, output_tokens: 1 }), {
    promptTokens: 5,
    completionTokens: 1,
  })
  t.deepEqual(
    usage({ input_tokens: 0 }, { input_tokens: 5, cache_read_input_tokens: 2, output_tokens: 3 }),
    {
      promptTokens: 7,
      cachedTokens: 2,
      completionTokens: 3,
    },
  )
  t.deepEqual(
    usage({ input_tokens: 5, cache_read_input_tokens: 2 }, { input_tokens: 0, output_tokens: 3 }),
    {
      promptTokens: 7,
      cachedTokens: 2,
      completionTokens: 3,
    },
  )
  t.deepEqual(
    usage(
      { input_tokens: 5, cache_read_input_tokens: 2 },
      { input_tokens: null, cache_read_input_tokens: null },
    ),
    {
      promptTokens: 7,
      cachedTokens: 2,
    },
  )
  t.is(usage({ input_tokens: -5, output_tokens: 'x' }), undefined)
  t.deepEqual(usage({ cache_read_input_tokens: 2, output_tokens: 1 }), {
    cachedTokens: 2,
    completionTokens: 1,
  })
})

test('anthropic: the event field names the type where the data do not', (t) => {
  const reader = anthropic.stream()
  reader.push('event: content_block_delta\ndata: {"delta":{"text":"a"}}\n\n')
  t.true(reader.facts().firstToken)
})

test('responses: a stream that ends in each way', (t) => {
  const output = [
    { type: 'reasoning', id: 'rs_1', encrypted_content: 'secret' },
    { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'f', arguments: '{}' },
    { type: 'custom_tool_call', id: 'ct_1', call_id: 'call_2', name: 'g', input: '' },
    { type: 'web_search_call', id: 'ws_1', status: 'completed' },
    { type: 'mcp_approval_request', id: 'mcpr_1', name: 'h' },
  ]
  const usage = { input_tokens: 50, input_tokens_details: { cached_tokens: 40 }, output_tokens: 6 }
  const response = {
    id: 'resp_1',
    object: 'response',
    status: 'in_progress',
    output: [],
    store: false,
  }
  const begun = [
    { type: 'response.created', response },
    { type: 'response.in_progress', response },
  ]
  const items = output.flatMap((item, output_index) => [
    { type: 'response.output_item.added', output_index, item: { ...item, status: 'in_progress' } },
    { type: 'response.output_item.done', output_index, item },
  ])
  const done = { ...response, status: 'completed', output, usage }
  const events = [...begun, ...items, { type: 'response.completed', response: done }]
  const facts = streamed(responses, ...events)
  t.deepEqual(facts, responses.readResponse(done))
  t.deepEqual(facts, {
    ...DONE,
    id: 'resp_1',
    finishReason: 'completed',
    toolCalls: [
      { id: 'call_1', name: 'f' },
      { id: 'call_2', name: 'g' },
      { id: 'mcpr_1', name: 'h' },
    ],
    state: facts.state,
    usage: { promptTokens: 50, cachedTokens: 40, completionTokens: 6 },
  })
  t.is(facts.state.length, 1)
  t.regex(facts.state[0] ?? '', /^reasoning:/)
  // A server may leave the output out of the last event.
  t.deepEqual(
    streamed(responses, ...begun, ...items, {
      type: 'response.completed',
      response: { ...done, output: [] },
    }),
    facts,
  )
  t.deepEqual(streamed(responses, ...begun), { ...EMPTY, id: 'resp_1' })
  const late = streamed(responses, ...begun, { type: 'response.output_text.delta', delta: 'a' })
  t.deepEqual([late.firstToken, late.ended], [true, false])

  const ends = (type: string, more: object) => {
    const { ended, finishReason, error } = streamed(responses, ...begun, {
      type,
      response: { ...response, ...more },
    })
    return [ended, finishReason, error]
  }
  t.deepEqual(
    ends('response.incomplete', {
      status: 'incomplete',
      incomplete_details: { reason: 'content_filter' },
    }),
    [true, 'content_filter', undefined],
  )
  t.deepEqual(
    ends('response.failed', { status: 'failed', error: { code: 'server_error', message: 'm' } }),
    [true, 'failed', 'server_error'],
  )
  t.deepEqual(ends('response.failed', { status: 'failed', error: null }), [
    true,
    'failed',
    'failed',
  ])
  t.deepEqual(ends('response.cancelled', { status: 'cancelled' }), [true, 'cancelled', undefined])
})

test('responses: an answer is owned where it is stored', (t) => {
  const state = (more: object) =>
    responses.readResponse({ id: 'resp_1', status: 'completed', output: [], ...more }).state
  t.deepEqual(state({}), ['response:resp_1'])
  t.deepEqual(state({ store: true }), ['response:resp_1'])
  t.deepEqual(state({ store: null }), ['response:resp_1'])
  t.deepEqual(state({ store: false }), [])
  t.deepEqual(state({ store: false, conversation: { id: 'conv_1' } }), ['conversation:conv_1'])
  t.deepEqual(state({ status: 'in_progress' }), [])
  const compact = {
    object: 'response.compaction',
    id: 'resp_2',
    output: [{ type: 'compaction', encrypted_content: 'x' }],
  }
  const { ended, state: owned } = responses.readResponse(compact)
  t.deepEqual([ended, owned.length], [true, 1])
})

test('errors of every shape', (t) => {
  const cases: [Dialect, unknown, string][] = [
    [chat, { error: { message: 'm', type: 'server_error', code: 'overloaded' } }, 'overloaded'],
    [chat, { error: { message: 'm', type: 'server_error', code: null } }, 'server_error'],
    [chat, { error: { message: 'only a message' } }, 'only a message'],
    [chat, { error: { code: 400, message: 'm' } }, '400'],
    [chat, { error: 'text' }, 'text'],
    [chat, { error: {} }, 'error'],
    [chat, { object: 'error', message: 'm', type: 'BadRequestError', code: 400 }, '400'],
    [chat, { detail: 'Not Found' }, 'Not Found'],
    [responses, { error: { code: 'invalid_encrypted_content' } }, 'invalid_encrypted_content'],
    [
      anthropic,
      { type: 'error', error: { type: 'overloaded_error', message: 'm' } },
      'overloaded_error',
    ],
  ]
  // Engines answer in their own shape whatever the API: these hold for all three.
  const everywhere = cases.flatMap(([, body, error]) =>
    [chat, responses, anthropic].map((dialect) => [dialect, body, error] as const),
  )
  for (const [dialect, body, error] of everywhere) {
    t.deepEqual(dialect.readResponse(body), { ...EMPTY, ended: true, error })
    t.deepEqual(streamed(dialect, body as object), { ...EMPTY, ended: true, error })
  }
  t.deepEqual(streamed(responses, { type: 'error', code: 'rate_limit', message: 'm' }), {
    ...EMPTY,
    ended: true,
    error: 'rate_limit',
  })
  t.is(chat.readResponse({ error: 'x'.repeat(10_000) }).error?.length, 200)
  for (const none of [null, undefined, false])
    t.is(chat.readResponse({ error: none }).error, undefined)
})

test('what is no object has no facts', (t) => {
  for (const dialect of [chat, responses, anthropic]) {
    for (const body of [null, undefined, 7, 'text', [], [{}], {}]) {
      t.deepEqual(dialect.readResponse(body), EMPTY)
    }
  }
})

test('facts are a copy', (t) => {
  const reader = chat.stream()
  reader.push(
    'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a"}]}}],"usage":{"prompt_tokens":1}}\n\n',
  )
  const facts = reader.facts()
  facts.toolCalls.pop()
  facts.state.push('x')
  if (facts.usage !== undefined) facts.usage.promptTokens = 9
  t.deepEqual(reader.facts(), {
    ...EMPTY,
    firstToken: true,
    toolCalls: [{ id: 'a' }],
    usage: { promptTokens: 1 },
  })
})
