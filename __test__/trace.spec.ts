/** What a trace says of turns: served by a gateway, and one by one. */
import { join } from 'node:path'
import test from 'ava'
import { formatRecord, type TraceRecord } from '../src/index.js'
import { chat, fleet, JSON_ANSWER, SSE, settled, source } from './support/requests.js'
import { keyed, lines, memory } from './support/trace.js'
import { type Line, parse, served } from './support/trace-run.js'
import { API } from './support/wire-apis.js'

const FIXTURE = join(__dirname, 'fixtures/traces/own-gateway.jsonl')

/** Every key of a value, with its path; what a list holds counts once. */
function shape(value: unknown, path = ''): string[] {
  if (Array.isArray(value)) return [...new Set(value.flatMap((item) => shape(item, `${path}[]`)))]
  if (typeof value !== 'object' || value === null) return [path]
  return Object.entries(value).flatMap(([key, item]) => shape(item, `${path}.${key}`))
}

const byName = (records: Line[], name: string) =>
  records.filter(({ event }) => event.agent_context?.session_id === name)

const hashes = ({ event }: Line) => event.request.replay.input_sequence_hashes

test('a tool loop, a child, an answer left, a worker that fails, nobody in particular', async (t) => {
  const records = await served(t)
  t.deepEqual(
    records.map(({ event: { agent_context: who, warmpath, request } }) => [
      who?.session_id,
      warmpath.turn,
      warmpath.phase,
      request.finish_reason_metadata.finish_reason,
    ]),
    [
      ['main', 0, 'acting', 'tool_calls'],
      ['main', 1, 'acting', 'tool_calls'],
      ['main', 2, 'reasoning', 'stop'],
      ['child', 0, 'reasoning', 'stop'],
      ['left', 0, undefined, 'cancelled'],
      ['failed', 0, undefined, 'error'],
      [undefined, 0, 'reasoning', 'length'],
    ],
  )
  const [first, second, third] = byName(records, 'main')
  const [child] = byName(records, 'child')
  if (!first || !second || !third || !child) return t.fail()
  t.deepEqual(first.event.warmpath.tools, ['read_file'])
  t.regex(first.event.request.finish_reason_metadata.tool_calls?.[0]?.id ?? '', /^chatcmpl-tool-/)
  t.deepEqual(child.event.agent_context, {
    session_id: 'child',
    parent_session_id: 'main',
    session_final: true,
  })
  t.is(child.event.warmpath.parent, 'main')
  // A turn begins with the blocks of the one before; a child with the system prompt.
  const whole = Math.floor(first.event.request.replay.input_length / 64) - 1
  t.true(whole > 8)
  t.deepEqual(hashes(second).slice(0, whole), hashes(first).slice(0, whole))
  t.deepEqual(hashes(third).slice(0, whole), hashes(first).slice(0, whole))
  t.deepEqual(hashes(child).slice(0, 8), hashes(first).slice(0, 8))
  t.notDeepEqual(hashes(child).slice(0, whole), hashes(first).slice(0, whole))
  t.true((second.event.warmpath.reported_cached_tokens ?? 0) > 500)
  t.true(second.event.warmpath.predicted_cached_tokens > 500)
  t.true((second.event.request.kv_hit_rate ?? 0) > 0.5)
})

test('figures and times agree with each other', async (t) => {
  const records = await served(t)
  const ids = new Set(records.map(({ event }) => event.request.request_id))
  t.is(ids.size, records.length)
  for (const { timestamp, event } of records) {
    const { request, warmpath } = event
    const { received, held, first_token: firstToken = received, end } = warmpath.timings
    t.true(timestamp > 0 && held >= 0 && received + held <= end)
    t.true(received <= firstToken && firstToken <= end)
    t.is(event.event_time_unix_ms, Math.floor(end))
    t.is(request.request_received_ms, Math.floor(received))
    t.true(Math.abs(request.total_time_ms - (end - received)) < 0.01)
    const { input_length: tokens, input_sequence_hashes: blocks } = request.replay
    t.true(blocks.length > 0 && blocks.length <= Math.ceil(tokens / 64))
    t.is(request.input_tokens ?? tokens, tokens)
    t.is(request.cached_tokens, warmpath.reported_cached_tokens)
  }
  const [stream] = byName(records, 'main').slice(-1)
  t.true((stream?.event.request.ttft_ms ?? 0) > 0)
  t.true((stream?.event.request.avg_itl_ms ?? 0) > 0)
})

test('the committed sample has every field that is written, and no other', async (t) => {
  const sample = lines(FIXTURE).map(parse)
  t.deepEqual([...new Set(shape(sample))].sort(), [...new Set(shape(await served(t)))].sort())
})

test('a line is JSON with all 64 bits of each hash', (t) => {
  const hashes = BigUint64Array.of(0n, 1n, 2n ** 64n - 1n, 0x93f5_f579_9a93_2462n)
  const record = {
    timestamp: 1.5,
    event: {
      schema: 'dynamo.request.trace.v1',
      request: {
        request_id: '"input_sequence_hashes":[]',
        replay: { trace_block_size: 64, input_length: 9, input_sequence_hashes: hashes },
      },
    },
  } as unknown as TraceRecord
  const line = formatRecord(record)
  t.false(line.includes('\n'))
  t.deepEqual(parse(line).event.request.replay.input_sequence_hashes, [...hashes].map(String))
  t.is(parse(line).event.request.request_id, '"input_sequence_hashes":[]')
  const none = { ...record.event.request.replay, input_sequence_hashes: new BigUint64Array(0) }
  const empty = { ...record.event, request: { ...record.event.request, replay: none } }
  t.deepEqual(blocksOf(formatRecord({ ...record, event: empty })), [])
})

const blocksOf = (line: string) => parse(line).event.request.replay.input_sequence_hashes

test('tokens and hashes that the caller brings have their own blocks', async (t) => {
  const { records, sink } = memory()
  using turns = fleet({ trace: { sink } })
  const tokens = Uint32Array.from({ length: 150 }, (_, at) => at)
  const ends = async (request: object) => {
    const turn = await turns.scheduler.submit({ path: '/v1/chat/completions', ...request })
    turn.complete({ promptTokens: 150, completionTokens: 1 })
  }
  await ends({ tokens })
  await ends({ tokens: tokens.subarray(0, 130) })
  await ends({ hashes: BigUint64Array.of(1n, 2n, 3n) })
  await turns.scheduler.flush()
  const blocks = records.map(({ event }) => [...event.request.replay.input_sequence_hashes])
  // Whole blocks of 64 tokens only: the rest of the prompt has no name.
  t.deepEqual(
    blocks.map((list) => list.length),
    [2, 2, 3],
  )
  t.deepEqual(blocks[0], blocks[1])
})

test('a prompt that is reported as empty, or as absurdly long, is neither', async (t) => {
  const { records, sink } = memory()
  using turns = fleet({ trace: { sink } })
  for (const promptTokens of [0, 2 ** 31]) {
    const turn = await turns.scheduler.submit(chat('s', 'word '.repeat(100)))
    turn.complete({ promptTokens, completionTokens: 1 })
  }
  await turns.scheduler.flush()
  const [empty, long] = records.map(({ event }) => event.request)
  t.is(empty?.input_tokens, undefined)
  t.true((empty?.replay.input_length ?? 0) > 50)
  t.true((empty?.replay.input_sequence_hashes.length ?? 0) > 0)
  t.true((long?.replay.input_sequence_hashes.buffer.byteLength ?? 0) < 1000)
})

test('a turn that was never sent has no record; one that moved has its last place', async (t) => {
  const { records, sink } = memory()
  using turns = fleet({ trace: { sink } })
  const dropped = await turns.scheduler.submit(chat('dropped'))
  dropped[Symbol.dispose]()
  const moved = await turns.scheduler.submit(chat('moved'))
  const { worker } = moved
  t.true(moved.next())
  moved.complete(undefined, { toolCalls: ['call_1'] })
  await turns.scheduler.flush()
  t.is(records.length, 1)
  const { request, warmpath } = (records[0] as TraceRecord).event
  t.not(moved.worker, worker)
  t.is(request.worker.decode_worker_id, moved.worker === 'a' ? 0 : 1)
  t.is(warmpath.receipt_id, moved.receiptId)
  t.is(warmpath.phase, 'acting')
  t.deepEqual(request.finish_reason_metadata.tool_calls, [
    { choice_index: 0, tool_call_index: 0, id: 'call_1' },
  ])
})

test('a held turn says how long; one that is refused has no record', async (t) => {
  const { records, sink } = memory()
  const workers = [{ id: 'a', url: 'http://a', capacityTokens: 2000 }]
  using turns = fleet({ workers, admission: { policy: 'thunderagent' }, trace: { sink } })
  const large = (session: string) => chat(session, session.padEnd(3400, 'x'))
  const first = await turns.scheduler.submit(large('one'))
  const second = await turns.scheduler.submit(large('two'))
  const gone = new AbortController()
  const held = turns.scheduler.submit(large('three'))
  const left = turns.scheduler.submit({ ...large('four'), signal: gone.signal })
  await settled()
  gone.abort()
  await t.throwsAsync(left)
  turns.pass(2500)
  first.complete(undefined, { finished: true })
  second.complete(undefined, { finished: true })
  const third = await held
  third.complete()
  await turns.scheduler.flush()
  const times = records.map(({ event }) => [event.warmpath.session, event.warmpath.timings.held])
  t.deepEqual(times, [
    ['one', 0],
    ['two', 0],
    ['three', 2500],
  ])
})

test('an answer that breaks off is an error; what it had told by then is kept', async (t) => {
  const { records, sink } = memory()
  using turns = fleet({ trace: { sink } })
  const { path, request, events } = API['anthropic-messages']
  const headers = { 'x-session-id': 's' }
  const turn = await turns.scheduler.submit({ path, headers, body: { ...request, stream: true } })
  const { body } = source(events.slice(0, 2), new Error('reset'))
  await t.throwsAsync(turn.observe(new Response(body, SSE)).text())
  const next = await turns.scheduler.submit(chat('s'))
  await next.observe(new Response('{"choices":[]}', JSON_ANSWER)).text()
  await turns.scheduler.flush()
  const [broken, whole] = records.map(({ event }) => event)
  t.is(broken?.request.finish_reason_metadata.finish_reason, 'error')
  t.is(broken?.request.input_tokens, 5)
  t.is(broken?.warmpath.timings.first_token, broken?.warmpath.timings.received)
  t.is(whole?.warmpath.turn, 1)
  t.deepEqual(whole?.request.finish_reason_metadata, {})
})

test('keys: the same sessions and blocks under other names, as the published function has them', async (t) => {
  const key = Uint8Array.from({ length: 16 }, (_, at) => at)
  t.is(keyed(0x0706_0504_0302_0100n, key), 0x93f5_f579_9a93_2462n)
  const [plain, hidden, hex] = [memory(), memory(), memory()]
  const headers = {
    authorization: 'Bearer secret',
    'x-session-id': 's',
    'x-parent-session-id': 'p',
  }
  for (const [{ sink }, given] of [
    [plain, {}],
    [hidden, { key }],
    [hex, { key: '000102030405060708090a0B0C0D0E0F' }],
  ] as const) {
    using turns = fleet({ trace: { sink, receipts: 'full', ...given } })
    for (const text of ['one '.repeat(400), 'two'.repeat(900)]) {
      const turn = await turns.scheduler.submit({ ...chat('s', text), headers })
      turn.complete()
    }
    await turns.scheduler.flush()
  }
  const blocks = ({ records }: typeof plain) =>
    records.map(({ event }) => [...event.request.replay.input_sequence_hashes])
  t.true(blocks(plain).every((list) => list.length > 3))
  t.deepEqual(
    blocks(hidden),
    blocks(plain).map((list) => list.map((hash) => keyed(hash, key))),
  )
  t.deepEqual(blocks(hex), blocks(hidden))
  const names = ({ records }: typeof plain) =>
    records.map(({ event }) => ({ ...event.warmpath, sent: event.agent_context }))
  const [seen] = names(plain)
  t.regex(seen?.session ?? '', /^[0-9a-f]{16}\/s$/)
  t.deepEqual(seen?.sent, { session_id: 's', parent_session_id: 'p' })
  const [first, second] = names(hidden)
  t.regex(first?.session ?? '', /^[0-9a-f]{32}$/)
  t.is(first?.session, second?.session)
  t.deepEqual(first?.sent, { session_id: first?.session, parent_session_id: first?.parent })
  t.not(first?.parent, first?.session)
  t.like(first?.receipt, { session: first?.session })
  t.like(seen?.receipt, { session: 's' })
})
