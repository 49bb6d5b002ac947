/**
 * A trace has no content: a secret that is put into every place of requests and answers that holds
 * any is in no record, whatever the dialect and however the turn ends.
 */
import test from 'ava'
import fc from 'fast-check'
import { formatRecord, type TraceRecord } from '../src/index.js'
import { fleet, JSON_ANSWER, SSE, source } from './support/requests.js'
import { memory } from './support/trace.js'

const SECRET = 'SWORDFISH'
const secret = `the ${SECRET} is here`

/** Requests and answers of each API that hold the secret wherever content goes. */
const APIS = {
  chat: {
    path: '/v1/chat/completions',
    body: {
      model: 'm',
      user: secret,
      metadata: { note: secret },
      tools: [{ type: 'function', function: { name: SECRET, description: secret } }],
      messages: [
        { role: 'system', content: secret },
        { role: 'assistant', tool_calls: [call('call_0')] },
        { role: 'tool', tool_call_id: 'call_0', content: secret },
        { role: 'user', name: SECRET, content: [{ type: 'text', text: secret }] },
      ],
    },
    answer: {
      id: 'c',
      choices: [
        {
          index: 0,
          finish_reason: secret,
          message: { role: 'assistant', content: secret, tool_calls: [call('call_1')] },
        },
      ],
      usage: { prompt_tokens: 9, completion_tokens: 3 },
    },
    events: [
      { id: 'c', choices: [{ index: 0, delta: { content: secret } }] },
      {
        id: 'c',
        choices: [{ index: 0, delta: { tool_calls: [{ index: 0, ...call('call_1') }] } }],
      },
      { id: 'c', choices: [{ index: 0, delta: {}, finish_reason: secret }] },
      { id: 'c', choices: [], usage: { prompt_tokens: 9, completion_tokens: 3 } },
    ],
  },
  messages: {
    path: '/v1/messages',
    body: {
      model: 'm',
      max_tokens: 9,
      system: [{ type: 'text', text: secret }],
      tools: [{ name: 'read_file', description: secret, input_schema: { title: secret } }],
      messages: [
        { role: 'user', content: secret },
        { role: 'assistant', content: [use('toolu_0')] },
        {
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: 'toolu_0', content: secret }],
        },
      ],
    },
    answer: {
      id: 'msg',
      role: 'assistant',
      content: [{ type: 'thinking', thinking: secret, signature: secret }, use('toolu_1')],
      stop_reason: 'tool_use',
      stop_sequence: secret,
      usage: { input_tokens: 9, output_tokens: 3 },
    },
    events: [
      { type: 'message_start', message: { id: 'msg', usage: { input_tokens: 9 } } },
      { type: 'content_block_start', index: 0, content_block: use('toolu_1') },
      {
        type: 'content_block_delta',
        index: 0,
        delta: { type: 'input_json_delta', partial_json: secret },
      },
      {
        type: 'message_delta',
        delta: { stop_reason: 'tool_use', stop_sequence: secret },
        usage: {},
      },
      { type: 'error', error: { type: 'overloaded_error', message: secret } },
    ],
  },
  responses: {
    path: '/v1/responses',
    body: {
      model: 'm',
      instructions: secret,
      input: [
        { role: 'user', content: secret },
        { type: 'function_call_output', call_id: 'call_0', output: secret },
      ],
    },
    answer: {
      id: 'resp',
      status: 'incomplete',
      incomplete_details: { reason: secret },
      output: [
        { type: 'message', content: [{ type: 'output_text', text: secret }] },
        { type: 'function_call', call_id: 'call_1', name: `run ${SECRET}`, arguments: secret },
      ],
    },
    events: [
      { type: 'response.created', response: { id: 'resp' } },
      { type: 'response.output_text.delta', delta: secret },
      {
        type: 'response.failed',
        response: { id: 'resp', error: { code: secret, message: secret } },
      },
    ],
  },
}

function call(id: string) {
  return { id, type: 'function', function: { name: 'read_file', arguments: `{"a":"${secret}"}` } }
}

function use(id: string) {
  return { type: 'tool_use', id, name: 'read_file', input: { path: secret } }
}

/** The secret where no identity is: credentials, cookies, tracing, and what nobody knows. */
const HEADERS = {
  authorization: `Bearer ${SECRET}`,
  'x-api-key': SECRET,
  cookie: `a=${SECRET}`,
  'x-request-id': SECRET,
  'user-agent': SECRET,
  traceparent: SECRET,
}

const ways = fc.record({
  api: fc.constantFrom<keyof typeof APIS>('chat', 'messages', 'responses'),
  end: fc.constantFrom('json', 'stream', 'cut', 'cancel', 'refused', 'failed', 'aborted'),
  session: fc.constantFrom(undefined, 'plain'),
  receipts: fc.constantFrom<'id' | 'full'>('id', 'full'),
  key: fc.constantFrom(undefined, `${SECRET} of a deployment`),
})

type Way = typeof ways extends fc.Arbitrary<infer T> ? T : never

async function recordsOf({ api, end, session, receipts, key }: Way): Promise<TraceRecord[]> {
  const { records, sink } = memory()
  using turns = fleet({ trace: { sink, receipts, ...(key === undefined ? {} : { key }) } })
  const { path, body, answer, events } = APIS[api]
  const gone = new AbortController()
  const stream = end !== 'json'
  const headers = session === undefined ? HEADERS : { ...HEADERS, 'x-session-id': session }
  const turn = await turns.scheduler.submit({
    path: `${path}?note=${SECRET}`,
    headers,
    body: { ...body, stream },
    signal: gone.signal,
  })
  const sent = events.map((event) => `data: ${JSON.stringify(event)}\n\n`)
  const half = sent.slice(0, 2)
  const pass = (chunks: string[], last: 'close' | Error = 'close') =>
    turn.observe(new Response(source(chunks, last).body, SSE))
  if (end === 'json') await turn.observe(Response.json(answer, JSON_ANSWER)).text()
  if (end === 'stream') await pass(sent).text()
  if (end === 'cut')
    await pass(half, new Error(secret))
      .text()
      .catch(() => {})
  if (end === 'cancel') await readOne(pass(half))
  if (end === 'refused') turn.observe(Response.json({ error: secret }, { status: 400 }))
  if (end === 'failed') turn.fail(new Error(secret))
  if (end === 'aborted') {
    const reading = readOne(pass(half), 'leave open')
    await reading.catch(() => {})
    gone.abort(new Error(secret))
  }
  await turns.scheduler.flush()
  return records
}

async function readOne({ body }: Response, then: 'cancel' | 'leave open' = 'cancel') {
  const reader = body?.getReader()
  await reader?.read()
  if (then === 'cancel') await reader?.cancel(secret)
}

test('no record holds anything of a prompt, an answer, a tool argument, a header or a key', async (t) => {
  await fc.assert(
    fc.asyncProperty(ways, async (way) => {
      const records = await recordsOf(way)
      const text = records.map(formatRecord).join('\n')
      return records.length === 1 && !text.includes(SECRET)
    }),
    { numRuns: 120 },
  )
  t.pass()
})

test('and the same turns, told wrongly, would be caught', async (t) => {
  const way = { end: 'json', session: SECRET, receipts: 'id', key: undefined } as const
  const [plain] = await recordsOf({ ...way, api: 'chat' } as never)
  t.true(formatRecord(plain as TraceRecord).includes(SECRET))
  const [hidden] = await recordsOf({ ...way, api: 'chat', key: 'sixteen characters' } as never)
  t.false(formatRecord(hidden as TraceRecord).includes(SECRET))
})
