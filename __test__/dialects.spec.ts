import test from 'ava'
import { type Dialect, type DialectName, dialectOf, type Json } from '../src/dialects/index.js'
import { anthropic, chat, responses } from './support/dialects.js'

test('paths', (t) => {
  const cases: [string, DialectName | undefined][] = [
    ['/v1/chat/completions', 'openai-chat'],
    ['/chat/completions?x=1', 'openai-chat'],
    ['/openai/deployments/gpt/chat/completions?api-version=1', 'openai-chat'],
    ['http://host:1/v1/chat/completions/', 'openai-chat'],
    ['/v1/responses', 'openai-responses'],
    ['/backend-api/codex/responses#x', 'openai-responses'],
    ['/v1/responses/compact', 'openai-responses'],
    ['/v1/responses/resp_1', undefined],
    ['/v1/responses/resp_1/cancel', undefined],
    ['/v1/messages?beta=true', 'anthropic-messages'],
    ['/anthropic/messages', 'anthropic-messages'],
    ['/messages', 'anthropic-messages'],
    ['/v1/messages/count_tokens', undefined],
    ['/v1/messages/batches', undefined],
    ['/v1/threads/t/messages', undefined],
    ['/v1/models', undefined],
    ['/v1/completions', undefined],
    ['/v1/notresponses', undefined],
    ['', undefined],
  ]
  for (const [path, name] of cases) t.is(dialectOf(path)?.name, name, path)
})

test('settings', (t) => {
  const read = (dialect: Dialect, body: Json) => {
    const { model, stream, maxOutputTokens, usageAsked } = dialect.read(body)
    return [model, stream, maxOutputTokens, usageAsked]
  }
  const nothing = [undefined, false, undefined]
  t.deepEqual(read(chat, {}), [...nothing, true])
  t.deepEqual(read(responses, {}), [...nothing, true])
  t.deepEqual(read(anthropic, {}), [...nothing, true])
  t.deepEqual(read(chat, { model: 'm', stream: true, max_tokens: 5 }), ['m', true, 5, false])
  t.deepEqual(read(chat, { max_tokens: 5, max_completion_tokens: 7 })[2], 7)
  t.deepEqual(read(responses, { max_output_tokens: 9 })[2], 9)
  t.deepEqual(read(anthropic, { max_tokens: 9 })[2], 9)
  for (const max_tokens of [0, -1, 1.5, '9', null, 2 ** 40, Number.NaN]) {
    t.is(read(anthropic, { max_tokens })[2], undefined)
  }
  const stream = true
  t.true(chat.read({ stream, stream_options: { include_usage: true } }).usageAsked)
  t.false(chat.read({ stream, stream_options: { include_usage: false } }).usageAsked)
  t.deepEqual(read(chat, { model: 7, stream: 'true' }), [...nothing, true])
})

const user = { role: 'user', content: 'go' }
const call = (id: string) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } })
const calls = (...ids: string[]) => ({
  role: 'assistant',
  content: null,
  tool_calls: ids.map(call),
})
const tool = (tool_call_id: unknown) => ({ role: 'tool', tool_call_id, content: 'x' })

test('chat: open tool results are those after the last answer', (t) => {
  const open = (...messages: unknown[]) => chat.read({ messages }).toolResults
  t.deepEqual(open(user), [])
  t.deepEqual(open(user, calls('a'), tool('a')), ['a'])
  t.deepEqual(open(user, calls('a', 'b'), tool('b'), tool('a'), tool('b')), ['b', 'a'])
  t.deepEqual(open(user, calls('a'), tool('a'), calls('b'), tool('b')), ['b'])
  t.deepEqual(open(user, calls('a'), tool('a'), user), ['a'])
  t.deepEqual(open(user, calls('a'), tool('a'), { role: 'assistant', content: 'done' }, user), [])
  t.deepEqual(open(tool('a')), ['a'])
  t.deepEqual(open(user, calls('a'), tool(7), tool(undefined), tool('')), [])
})

const use = (id: string, ...more: unknown[]) => ({
  role: 'assistant',
  content: [...more, { type: 'tool_use', id, name: 'f', input: {} }],
})
const result = (...ids: string[]) => ({
  role: 'user',
  content: ids.map((tool_use_id) => ({ type: 'tool_result', tool_use_id, content: 'x' })),
})

test('anthropic: open tool results are those after the last answer', (t) => {
  const open = (...messages: unknown[]) => anthropic.read({ messages }).toolResults
  t.deepEqual(open(user), [])
  t.deepEqual(open(user, use('a'), result('a')), ['a'])
  t.deepEqual(open(user, use('a'), result('b', 'a', 'b')), ['b', 'a'])
  t.deepEqual(open(user, use('a'), result('a'), { role: 'system', content: 's' }), ['a'])
  t.deepEqual(open(user, use('a'), result('a'), { role: 'assistant', content: 'so' }), [])
  t.deepEqual(open(user, use('a'), result('a'), use('b'), result('b')), ['b'])
})

const item = (type: string, call_id: string) => ({ type, call_id, name: 'f', output: 'x' })

test('responses: open tool results, whatever the kind of tool', (t) => {
  const open = (...input: unknown[]) => responses.read({ input }).toolResults
  const kinds = [
    'function_call',
    'custom_tool_call',
    'computer_call',
    'local_shell_call',
    'shell_call',
    'apply_patch_call',
  ]
  for (const kind of kinds) {
    t.deepEqual(open(user, item(kind, 'a'), item(`${kind}_output`, 'a')), ['a'], kind)
    t.deepEqual(open(item(`${kind}_output`, 'a')), ['a'])
    t.deepEqual(open(item(`${kind}_output`, 'a'), item(kind, 'b'), item(`${kind}_output`, 'b')), [
      'b',
    ])
  }
  const [one, two] = [item('function_call_output', 'a'), item('function_call_output', 'b')]
  t.deepEqual(open(user, item('function_call', 'a'), item('function_call', 'b'), two, one, two), [
    'b',
    'a',
  ])
  t.deepEqual(open(item('function_call', 'a'), one, { role: 'assistant', content: 'x' }, user), [])
  t.deepEqual(open({ type: 'mcp_approval_response', approval_request_id: 'm', approve: true }), [
    'm',
  ])
  t.deepEqual(open({ type: 'reasoning' }, one, { type: 'web_search_call', id: 'w' }), [])
  t.deepEqual(responses.read({ input: 'text' }).toolResults, [])
})

test('state: signed thinking only while its tool loop is open', (t) => {
  const thinking = (signature: string) => ({ type: 'thinking', thinking: 'hm', signature })
  const state = (...messages: unknown[]) => anthropic.read({ messages }).state
  const owned = (signature: string) =>
    anthropic.readResponse({ content: [thinking(signature)] }).state
  const [s1, s2] = [owned('one'), owned('two')]
  t.regex(s1[0] ?? '', /^reasoning:[0-9a-f]{32}$/)
  t.deepEqual(state(user, use('a', thinking('one')), result('a')), s1)
  t.deepEqual(
    state(user, use('a', thinking('one')), result('a'), use('b', thinking('two')), result('b')),
    [...s1, ...s2],
  )
  t.deepEqual(
    state(user, use('a', thinking('one')), user, use('b', thinking('two')), result('b')),
    s2,
  )
  const note = { role: 'system', content: 's' }
  t.deepEqual(
    state(user, use('a', thinking('one')), result('a'), note, use('b'), result('b'), note),
    s1,
  )
  t.deepEqual(state(user, use('a', thinking('one')), user), [])
  const redacted = { type: 'redacted_thinking', data: 'one' }
  t.deepEqual(state(user, use('a', redacted), result('a')), s1)
  t.deepEqual(state(user, use('a', thinking('')), result('a')), [])
  t.deepEqual(anthropic.read({ container: 'c1', messages: [] }).state, ['container:c1'])
  t.deepEqual(anthropic.read({ container: { id: 'c1', skills: [] } }).state, ['container:c1'])
  const long = Array.from({ length: 50 }, (_, i) => [
    use(`${i}`, thinking(`t${i}`)),
    result(`${i}`),
  ])
  t.deepEqual(
    state(user, ...long.flat()),
    [42, 43, 44, 45, 46, 47, 48, 49].flatMap((i) => owned(`t${i}`)),
  )
})

test('state: stored and encrypted items of Responses', (t) => {
  const state = (body: Json) => responses.read(body).state
  t.deepEqual(state({ previous_response_id: 'resp_1', input: 'x' }), ['response:resp_1'])
  t.deepEqual(state({ conversation: 'conv_1' }), ['conversation:conv_1'])
  t.deepEqual(state({ conversation: { id: 'conv_1' } }), ['conversation:conv_1'])
  t.deepEqual(state({ input: [{ type: 'item_reference', id: 'rs_1' }] }), ['item:rs_1'])
  const file = { role: 'user', content: [{ type: 'input_file', file_id: 'file-1' }] }
  t.deepEqual(state({ input: [file] }), ['file:file-1'])
  const reasoning = { type: 'reasoning', id: 'rs_1', encrypted_content: 'secret' }
  const owned = responses.readResponse({ output: [reasoning], store: false }).state
  t.regex(owned[0] ?? '', /^reasoning:[0-9a-f]{32}$/)
  const loop = [user, reasoning, item('function_call', 'a')]
  t.deepEqual(state({ input: [...loop, item('function_call_output', 'a')] }), owned)
  t.deepEqual(state({ input: [...loop, item('function_call_output', 'a'), user] }), owned)
  t.deepEqual(state({ input: [...loop, user] }), [])
  t.deepEqual(state({ input: [user, reasoning, { role: 'assistant', content: 'x' }, user] }), [])
  t.deepEqual(state({ input: [{ type: 'compaction', encrypted_content: 'secret' }, user] }), owned)
})

test('state: reasoning that other providers seal in chat messages', (t) => {
  const details = {
    ...calls('a'),
    reasoning_details: [{ type: 'reasoning.encrypted', data: 'one' }],
  }
  const google = {
    role: 'assistant',
    tool_calls: [{ ...call('a'), extra_content: { google: { thought_signature: 'one' } } }],
  }
  for (const message of [details, google]) {
    const owned = chat.readResponse({ choices: [{ message }] }).state
    t.is(owned.length, 1)
    t.deepEqual(chat.read({ messages: [user, message, tool('a')] }).state, owned)
    t.deepEqual(chat.read({ messages: [user, message, user] }).state, [])
  }
})

test('errors in the shape of the dialect', (t) => {
  t.deepEqual(chat.errorBody(503, 'WARMPATH_NO_WORKER', 'none'), {
    error: { message: 'none', type: 'server_error', param: null, code: 'WARMPATH_NO_WORKER' },
  })
  t.deepEqual(responses.errorBody(400, 'WARMPATH_INVALID_BODY', 'bad'), {
    error: {
      message: 'bad',
      type: 'invalid_request_error',
      param: null,
      code: 'WARMPATH_INVALID_BODY',
    },
  })
  t.deepEqual(anthropic.errorBody(503, 'WARMPATH_NO_WORKER', 'none'), {
    type: 'error',
    error: { type: 'overloaded_error', message: 'none (WARMPATH_NO_WORKER)' },
  })
  const types = [400, 401, 403, 404, 409, 413, 429, 500, 502, 504].map(
    (status) => (anthropic.errorBody(status, 'C', 'm') as { error: { type: string } }).error.type,
  )
  t.deepEqual(types, [
    'invalid_request_error',
    'authentication_error',
    'permission_error',
    'not_found_error',
    'invalid_request_error',
    'request_too_large',
    'rate_limit_error',
    'api_error',
    'api_error',
    'timeout_error',
  ])
})

test('errors of a Responses stream that told nothing are its first events, with an id of their own', (t) => {
  const told = () =>
    [...responses.errorEvent('CODE', 'm').matchAll(/^data: (.*)$/gm)].map(([, data]) =>
      JSON.parse(data ?? ''),
    )
  const [failed, error] = told()
  t.regex(failed.response.id, /^resp_[0-9a-f]{32}$/)
  t.deepEqual([failed.sequence_number, error.sequence_number], [0, 1])
  t.not(told()[0].response.id, failed.response.id)
})

test('an error event is seen as an error, also behind half an event; a keep-alive as nothing', (t) => {
  for (const dialect of [chat, responses, anthropic]) {
    for (const before of ['', 'data: {"half', 'event: x\n', 'data: {"a":1}\n']) {
      const reader = dialect.stream()
      reader.push(dialect.keepAlive)
      t.deepEqual(reader.facts(), { toolCalls: [], state: [], firstToken: false, ended: false })
      reader.push(before + dialect.errorEvent('WARMPATH_UPSTREAM', 'broken'))
      const { error, ended } = reader.facts()
      t.true(ended)
      t.is(error, dialect === anthropic ? 'api_error' : 'WARMPATH_UPSTREAM')
      t.true(reader.anomalies <= 1)
    }
  }
})
