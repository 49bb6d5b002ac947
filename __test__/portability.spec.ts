/**
 * What a switch would break, in all three dialects: listed before it breaks, and taken out of what is
 * sent where the options say so.
 */
import test, { type ExecutionContext } from 'ava'
import { type Break, Scheduler, type SchedulerOptions, type TurnRequest } from '../src/index.js'

const WORKERS = ['a', 'b', 'c'].map((id) => ({ id, url: `http://${id}` }))
type Json = Record<string, unknown>

function open(t: ExecutionContext, more: Partial<SchedulerOptions> = {}): Scheduler {
  const scheduler = new Scheduler({
    workers: WORKERS,
    targets: {
      one: { workers: ['a'], model: 'm1', provider: 'p1', credential: 'key-1' },
      two: { workers: ['b'], model: 'm2', provider: 'p2', credential: 'key-2' },
      // The same model of the same provider on another account.
      twin: { workers: ['c'], model: 'm1', provider: 'p1', credential: 'key-3' },
    },
    aliases: { auto: ['one', 'two', 'twin'] },
    ...more,
  })
  t.teardown(() => scheduler.close())
  return scheduler
}

const SEALED = 'c2VhbGVk'

interface Case {
  readonly path: string
  /** A turn that answers a call made with sealed reasoning before it. */
  readonly body: Json
  /** The same after all that is sealed has been taken out. */
  readonly bare: Json
  readonly at: string
  readonly answer: Json
}

const chatCall = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }
const chatUser = { role: 'user', content: 'Go.' }
const chatTool = { role: 'tool', tool_call_id: 'call_1', content: 'done' }
const signed = { reasoning_details: [{ type: 'reasoning.encrypted', data: SEALED }] }
const chatAsking = { role: 'assistant', content: null, tool_calls: [chatCall] }

const toolUse = { type: 'tool_use', id: 'call_1', name: 'f', input: {} }
const thinking = { type: 'thinking', thinking: 'Hm.', signature: SEALED }
const toolResult = {
  role: 'user',
  content: [{ type: 'tool_result', tool_use_id: 'call_1', content: 'done' }],
}

const reasoning = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: SEALED }
const functionCall = { type: 'function_call', call_id: 'call_1', name: 'f', arguments: '{}' }
const output = { type: 'function_call_output', call_id: 'call_1', output: 'done' }

const CASES: Record<string, Case> = {
  chat: {
    path: '/v1/chat/completions',
    body: { messages: [chatUser, { ...chatAsking, ...signed }, chatTool] },
    bare: { messages: [chatUser, chatAsking, chatTool] },
    at: 'messages[1].reasoning_details',
    answer: {
      id: 'x',
      choices: [{ index: 0, message: { ...chatAsking, ...signed }, finish_reason: 'tool_calls' }],
    },
  },
  messages: {
    path: '/v1/messages',
    body: {
      max_tokens: 2_000,
      thinking: { type: 'enabled', budget_tokens: 1_024 },
      messages: [chatUser, { role: 'assistant', content: [thinking, toolUse] }, toolResult],
    },
    // Where thinking is on, a loop must begin with the thinking that is gone.
    bare: {
      max_tokens: 2_000,
      messages: [chatUser, { role: 'assistant', content: [toolUse] }, toolResult],
    },
    at: 'messages[1].content[0]',
    answer: { id: 'x', type: 'message', content: [thinking, toolUse], stop_reason: 'tool_use' },
  },
  responses: {
    path: '/v1/responses',
    body: { store: false, input: [chatUser, reasoning, functionCall, output] },
    bare: { store: false, input: [chatUser, functionCall, output] },
    at: 'input[1]',
    answer: { id: 'x', status: 'completed', store: false, output: [reasoning, functionCall] },
  },
}

const asked = ({ path, body }: Case): TurnRequest => ({
  path,
  session: 's',
  body: { model: 'auto', ...body },
})

/** Lets the first target answer, so that what it made is known to be its own. */
async function learn(scheduler: Scheduler, { path, answer }: Case): Promise<void> {
  const first = path.endsWith('responses') ? { input: [chatUser] } : { messages: [chatUser] }
  const turn = await scheduler.submit({ path, session: 's', body: { model: 'auto', ...first } })
  await turn.observe(Response.json(answer)).text()
}

const codes = (breaks: readonly Break[]) =>
  breaks.map(({ code, id, path, owner, strippable }) => ({
    code,
    ...(code === 'tool-call' && { id }),
    ...(path && { path }),
    ...(owner !== undefined && { owner }),
    strippable,
  }))

for (const [name, each] of Object.entries(CASES)) {
  test(`${name}: sealed reasoning and open calls are listed with owner and place`, async (t) => {
    const scheduler = open(t)
    const call = (owner: string | null) => ({
      code: 'tool-call',
      id: 'call_1',
      owner,
      strippable: false,
    })
    const seal = (owner: string | null) => ({
      code: 'reasoning',
      path: each.at,
      owner,
      strippable: true,
    })
    t.deepEqual(codes(scheduler.portability(asked(each), 'one')), [call(null), seal(null)])
    await learn(scheduler, each)
    t.deepEqual(scheduler.portability(asked(each), 'one'), [])
    t.deepEqual(codes(scheduler.portability(asked(each), 'two')), [call('one'), seal('one')])
    // Another account: the same model goes on with the loop, but may not be able to read the seal.
    t.deepEqual(codes(scheduler.portability(asked(each), 'twin')), [seal('one')])
    const turn = await scheduler.submit(asked(each))
    t.deepEqual([turn.target, turn.lock], ['one', 'both'])
    t.deepEqual(turn.portability('two'), scheduler.portability(asked(each), 'two'))
    t.throws(() => turn.portability('nobody'), { code: 'WARMPATH_UNKNOWN_ID' })
    turn[Symbol.dispose]()
  })

  test(`${name}: another model is not sent what it cannot read, its own maker is`, async (t) => {
    const scheduler = open(t)
    await learn(scheduler, each)
    const items = each.path.endsWith('responses') ? 'input' : 'messages'
    const tail = [{ role: 'assistant', content: 'Done.' }, chatUser]
    const later = (body: Json) => ({ [items]: [...(body[items] as Json[]), ...tail] })
    const request = { ...asked(each), body: { model: 'auto', ...each.body, ...later(each.body) } }
    const own = await scheduler.submit(request)
    t.deepEqual([own.target, own.lock, own.stripped], ['one', 'free', []])
    t.deepEqual(JSON.parse(String(own.init.body)), { ...request.body, model: 'm1' })
    t.true(own.next())
    t.deepEqual([own.target, own.stripped], ['two', [each.at]])
    const bare = { ...request.body, model: 'm2', ...later(each.bare) }
    t.deepEqual(JSON.parse(String(own.init.body)), bare)
    own[Symbol.dispose]()
    // Nobody here knows who made another one's.
    const unknown = await scheduler.submit({
      ...request,
      session: 'other',
      headers: { 'x-api-key': 'other' },
    })
    t.deepEqual(unknown.stripped, [])
    unknown[Symbol.dispose]()
  })

  test(`${name}: strip sends the turn elsewhere without what only its maker reads, and says so`, async (t) => {
    const ownerDown = { toolLoop: 'strip', providerState: 'strip' } as const
    const scheduler = open(t, { continuity: { policy: 'bound', ownerDown } })
    await learn(scheduler, each)
    const own = await scheduler.submit(asked(each))
    t.deepEqual([own.target, own.stripped], ['one', []])
    t.deepEqual(JSON.parse(String(own.init.body)), { model: 'm1', ...each.body })
    // Its owner fails it.
    t.true(own.next())
    t.deepEqual([own.target, own.stripped, own.lock], ['two', [each.at], 'free'])
    t.deepEqual(JSON.parse(String(own.init.body)), { model: 'm2', ...each.bare })
    own[Symbol.dispose]()
    // It is known to be down.
    scheduler.setHealth('a', 'down')
    const moved = await scheduler.submit(asked(each))
    t.deepEqual([moved.target, moved.stripped], ['two', [each.at]])
    t.deepEqual(JSON.parse(String(moved.init.body)), { model: 'm2', ...each.bare })
    t.like(moved.receipt()?.lock, { decided: 'free', stripped: true, escaped: false })
    moved[Symbol.dispose]()
  })
}

test('what cannot be taken out is not stripped: the turn is refused', async (t) => {
  const ownerDown = { toolLoop: 'strip', providerState: 'strip' } as const
  for (const [state, more] of [
    ['response:r1', { previous_response_id: 'r1' }],
    ['conversation:c1', { conversation: 'c1' }],
    ['item:i1', { input: [{ type: 'item_reference', id: 'i1' }] }],
    ['file:f1', { input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'f1' }] }] }],
  ] as const) {
    const scheduler = open(t, { continuity: { policy: 'bound', ownerDown } })
    const request = (body: Json) => ({
      path: '/v1/responses',
      session: 's',
      body: { model: 'auto', input: 'Hi.', ...body },
    })
    const first = await scheduler.submit(request({}))
    first.complete({}, { state: [state] })
    const [found, ...rest] = scheduler.portability(request(more), 'two')
    t.like(found, { code: state.split(':')[0], id: state, owner: 'one', strippable: false })
    t.deepEqual(rest, [])
    scheduler.setHealth('a', 'down')
    const code = 'WARMPATH_OWNER_UNAVAILABLE'
    await t.throwsAsync(scheduler.submit(request(more)), { code })
    scheduler.removeWorker('a')
    await t.throwsAsync(scheduler.submit(request(more)), { code: 'WARMPATH_STATE_LOST' })
  }
})

test('a summary that only its maker can read stands for the history and stays', async (t) => {
  const ownerDown = { toolLoop: 'strip', providerState: 'strip' } as const
  const scheduler = open(t, { continuity: { policy: 'bound', ownerDown } })
  const compaction = { type: 'compaction', encrypted_content: SEALED }
  const path = '/v1/responses'
  const first = await scheduler.submit({ path, body: { model: 'auto', input: 'Hi.' } })
  await first.observe(Response.json({ id: 'x', status: 'completed', output: [compaction] })).text()
  scheduler.setHealth('a', 'down')
  const body = { model: 'auto', input: [compaction, chatUser] }
  const found = scheduler.portability({ path, body }, 'two')
  t.deepEqual(codes(found), [{ code: 'reasoning', owner: 'one', strippable: false }])
  await t.throwsAsync(scheduler.submit({ path, body }), { code: 'WARMPATH_OWNER_UNAVAILABLE' })
})

const IMAGES: [string, Json][] = [
  [
    '/v1/chat/completions',
    { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }] },
  ],
  [
    '/v1/messages',
    {
      messages: [
        {
          role: 'user',
          content: [{ type: 'tool_result', content: [{ type: 'image' }] }],
        },
      ],
    },
  ],
  ['/v1/responses', { input: [{ role: 'user', content: [{ type: 'input_image' }] }] }],
]

test('what a model cannot take is listed, and its turns go elsewhere', async (t) => {
  const scheduler = new Scheduler({
    workers: WORKERS,
    targets: {
      plain: { workers: ['a'], images: false, tools: false, contextTokens: 500, outputTokens: 100 },
      able: { workers: ['b', 'c'] },
    },
    aliases: { auto: ['plain', 'able'] },
    continuity: { policy: 'bound' },
  })
  t.teardown(() => scheduler.close())
  const turn = async (path: string, body: Json, session?: string) => {
    const request = { path, ...(session && { session }), body: { model: 'auto', ...body } }
    const found = scheduler.portability(request, 'plain').map(({ code }) => code)
    t.deepEqual(scheduler.portability(request, 'able'), [])
    const going = await scheduler.submit(request)
    going[Symbol.dispose]()
    return [going.target, ...found]
  }
  for (const [path, body] of IMAGES) t.deepEqual(await turn(path, body), ['able', 'images'])
  const chat = '/v1/chat/completions'
  const say = (content: string) => ({ messages: [{ role: 'user', content }] })
  t.deepEqual(await turn(chat, say('Hi.')), ['plain'])
  t.deepEqual(await turn(chat, { ...say('Hi.'), tools: [] }), ['plain'])
  t.deepEqual(await turn(chat, { ...say('Hi.'), tools: [{ type: 'function' }] }), ['able', 'tools'])
  t.deepEqual(await turn(chat, say('word '.repeat(1_000))), ['able', 'context'])
  t.deepEqual(await turn(chat, { ...say('Hi.'), max_tokens: 101 }), ['plain', 'output'])
  t.deepEqual(await turn(chat, { ...say('Hi.'), max_tokens: 600 }), ['able', 'context', 'output'])
  const long = scheduler.portability(
    { path: chat, body: { model: 'auto', ...say('Hi.'), max_tokens: 600 } },
    'plain',
  )
  t.like(long[1], { needTokens: 600, haveTokens: 100, strippable: false })
})

test('a dialect that a target does not speak is listed', (t) => {
  const scheduler = open(t, {
    targets: { one: { workers: ['a', 'b', 'c'], dialect: 'openai-chat' } },
    aliases: {},
  })
  const request = { path: '/v1/messages', body: { model: 'one', messages: [] } }
  t.deepEqual(
    scheduler.portability(request, 'one').map(({ code }) => code),
    ['dialect'],
  )
})
