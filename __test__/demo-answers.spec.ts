import test from 'ava'
import { readAnswer } from '../src/demo/answers.js'

const chat = [
  { choices: [{ delta: { role: 'assistant', content: '' } }] },
  { choices: [{ delta: { content: 'I ' } }] },
  { choices: [{ delta: { content: 'look' } }] },
  {
    choices: [
      {
        delta: {
          tool_calls: [{ index: 0, id: 'c1', function: { name: 'read', arguments: '{"a"' } }],
        },
      },
    ],
  },
  { choices: [{ delta: { tool_calls: [{ index: 0, function: { arguments: ':1}' } }] } }] },
  { choices: [{ delta: {}, finish_reason: 'tool_calls' }] },
  {
    choices: [],
    usage: {
      prompt_tokens: 90,
      completion_tokens: 7,
      prompt_tokens_details: { cached_tokens: 64 },
    },
  },
]
  .map((event) => `data: ${JSON.stringify(event)}\n\n`)
  .join('')
  .concat('data: [DONE]\n\n')

const messages = [
  {
    type: 'message_start',
    message: {
      usage: {
        input_tokens: 20,
        cache_read_input_tokens: 64,
        cache_creation_input_tokens: 6,
        output_tokens: 0,
      },
    },
  },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'I look' } },
  {
    type: 'content_block_start',
    index: 1,
    content_block: { type: 'tool_use', id: 'c1', name: 'read' },
  },
  {
    type: 'content_block_delta',
    index: 1,
    delta: { type: 'input_json_delta', partial_json: '{"a":1}' },
  },
  { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 7 } },
  { type: 'message_stop' },
]
  .map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
  .join('')

const responses = [
  { type: 'response.created', response: { id: 'r' } },
  { type: 'response.output_text.delta', output_index: 0, delta: 'I look' },
  {
    type: 'response.output_item.added',
    output_index: 1,
    item: { type: 'function_call', call_id: 'c1', name: 'read', arguments: '' },
  },
  { type: 'response.function_call_arguments.delta', output_index: 1, delta: '{"a":1}' },
  {
    type: 'response.completed',
    response: {
      usage: {
        input_tokens: 90,
        output_tokens: 7,
        input_tokens_details: { cached_tokens: 64 },
      },
    },
  },
]
  .map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
  .join('')

const streams = { 'claude-code': messages, codex: responses, opencode: chat } as const

for (const client of ['claude-code', 'codex', 'opencode'] as const) {
  test(`${client}: text, tool call, usage and end, however the bytes are cut`, (t) => {
    const stream = streams[client]
    for (const size of [1, 7, stream.length]) {
      const reader = readAnswer(client)
      for (let at = 0; at < stream.length; at += size) reader.push(stream.slice(at, at + size))
      t.deepEqual(reader.answer(), {
        text: 'I look',
        toolCalls: [{ id: 'c1', name: 'read', arguments: '{"a":1}' }],
      })
      t.deepEqual(reader.usage, { promptTokens: 90, cachedTokens: 64, completionTokens: 7 })
      t.true(reader.ended)
      t.is(reader.error, undefined)
    }
  })

  test(`${client}: content has not begun before there is some`, (t) => {
    const reader = readAnswer(client)
    const first = streams[client].indexOf('I ')
    reader.push(streams[client].slice(0, first))
    t.false(reader.begun)
    reader.push(streams[client].slice(first))
    t.true(reader.begun)
  })

  test(`${client}: a cut stream has not ended, garbage is skipped, an error is kept`, (t) => {
    const reader = readAnswer(client)
    reader.push(streams[client].slice(0, streams[client].length / 2))
    t.false(reader.ended)
    reader.push('\n\ndata: {not json\n\ndata: null\n\ndata: {"choices":{},"index":7}\n\n')
    t.is(reader.error, undefined)
    reader.push('data: {"type":"error","error":{"message":"overloaded"}}\n\n')
    t.is(reader.error, 'overloaded')
  })
}

test('line ends of either kind, comments, and data over several lines', (t) => {
  const reader = readAnswer('opencode')
  reader.push(': keep-alive\r\n\r\ndata: {"choices":\r\ndata: [{"delta":{"content":"x"}}]}\r\n')
  t.false(reader.begun)
  reader.push('\r\ndata:[DONE]\n\n')
  t.is(reader.answer().text, 'x')
  t.true(reader.ended)
})
