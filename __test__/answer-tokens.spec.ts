/** `tokens: { from: 'answers' }`: a turn that goes on from another is known by the tokens of that one. */
import { setTimeout as sleep } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { renderReceipt } from '../src/cli/render.js'
import { startGateway } from '../src/gateway/index.js'
import { Scheduler, type SchedulerOptions, type Turn } from '../src/index.js'
import { takersOf } from '../src/turn/behalf.js'
import { CHAT, chat } from './support/requests.js'
import { TellingEngine } from './support/telling-engine.js'

const BLOCK = 16
const TOOLS = [{ type: 'function', function: { name: 'ls', parameters: { type: 'object' } } }]

function scheduler(engines: readonly TellingEngine[], more: Partial<SchedulerOptions> = {}) {
  return new Scheduler({
    workers: engines.map(({ worker }, at) => ({ id: `w${at}`, ...worker })),
    cache: { blockTokens: BLOCK },
    tokens: { from: 'answers' },
    ...more,
  })
}

/** An agent: asks, calls a tool, gives its result, and so on. */
class Session {
  readonly messages: object[] = [
    { role: 'system', content: 'You are terse. '.repeat(20) },
    { role: 'user', content: 'What is in this folder? Grüße.' },
  ]
  readonly #name: string
  #turn = 0

  constructor(name: string) {
    this.#name = name
  }

  request(more: object = {}) {
    const headers = {
      'x-session-id': this.#name,
      'x-double-output-tokens': '40',
      'x-double-tool': 'ls {}',
    }
    const body = { model: 'double', messages: [...this.messages], tools: TOOLS, ...more }
    return { path: CHAT, headers, body }
  }

  /** What the answer said, and the result of its tool. */
  goOn(answer: string): void {
    this.#turn += 1
    const { content, id } = saidIn(answer)
    const call = { id, type: 'function', function: { name: 'ls', arguments: '{}' } }
    this.messages.push(
      { role: 'assistant', content, tool_calls: [call] },
      { role: 'tool', tool_call_id: id, content: `file ${this.#turn} `.repeat(12) },
    )
  }
}

async function heard(s: Scheduler, engine: TellingEngine, at = 0): Promise<void> {
  const stream = () => s.status().workers[at]?.events?.ranks[0]
  while (stream()?.sequence !== engine.sequence || stream()?.pending !== 0) await sleep(5)
}

const untilExact = async (s: Scheduler) => {
  while (s.status().workers.some(({ evidence }) => evidence.trust !== 'exact')) await sleep(5)
}

interface Answered {
  readonly turn: Turn
  readonly text: string
  readonly prompt: Uint32Array
}

/** Runs a turn, hears its tokens, and has the engine tell what it has stored. */
async function run(s: Scheduler, engine: TellingEngine, request: object): Promise<Answered> {
  const turn = await s.submit({ ...request, path: CHAT })
  const answer = await fetch(turn.url, turn.init)
  const [text] = await Promise.all([turn.observe(answer.clone()).text(), engine.hear(answer)])
  await engine.tell()
  await heard(s, engine)
  return { turn, text, prompt: engine.prompts.at(-1) ?? new Uint32Array(0) }
}

function saidIn(answer: string): { content: string; id: string } {
  const isStream = answer.startsWith('data:')
  const lines = answer.split('\n\n').filter((line) => line.startsWith('data: {'))
  const parts = isStream
    ? lines.map((line) => JSON.parse(line.slice(6)).choices[0]?.delta)
    : [JSON.parse(answer).choices[0].message]
  const ids = parts.flatMap((part) => part?.tool_calls ?? []).map((call) => call.id)
  return { content: parts.map((part) => part?.content ?? '').join(''), id: ids.find(Boolean) }
}

const common = (a: Uint32Array, b: Uint32Array) => {
  let at = 0
  while (at < Math.min(a.length, b.length) && a[at] === b[at]) at += 1
  return at
}

for (const stream of [false, true]) {
  test(`a session is known by its tokens from the third turn on (stream: ${stream})`, async (t) => {
    await using engine = await TellingEngine.start()
    using s = scheduler([engine])
    await untilExact(s)
    const session = new Session('s')
    let before: Uint32Array | undefined
    for (let n = 0; n < 7; n += 1) {
      const { turn, text, prompt } = await run(s, engine, session.request({ stream }))
      t.regex(text, /token_ids":null/, 'what was asked for is taken out')
      t.notRegex(text, /token_ids":\[/)
      const receipt = turn.receipt()
      t.like(receipt?.prompt, { form: 'text', origin: 'answers' })
      const exact = receipt?.prompt.exactTokens ?? -1
      if (n < 4) {
        // Two turns after a tool's result have to be seen, and the first turn has none.
        t.is(exact === 0, n < 3, `turn ${n}`)
      }
      if (exact > 0 && before !== undefined) {
        t.true(exact <= common(before, prompt), 'no token that the engine has not made')
        t.true(exact >= before.length - 64)
        const cached = receipt?.outcome.state === 'completed' ? receipt.outcome.cachedTokens : null
        t.is(turn.predictedCachedTokens, Math.floor(exact / BLOCK) * BLOCK)
        t.true((cached ?? 0) >= turn.predictedCachedTokens, `${cached}`)
        t.is(receipt?.trust, 'exact')
      }
      before = prompt
      session.goOn(text)
    }
    t.true((engine.prompts.at(-1)?.length ?? 0) > 400)
    t.deepEqual(s.status().workers[0]?.events?.disagreement, null)
  })
}

test('what an engine has lost is not counted, though the text was sent there', async (t) => {
  await using engine = await TellingEngine.start()
  using s = scheduler([engine])
  await untilExact(s)
  const session = new Session('s')
  for (let n = 0; n < 5; n += 1) {
    session.goOn((await run(s, engine, session.request())).text)
  }
  await engine.clear()
  await heard(s, engine)
  const turn = await s.submit(session.request())
  const receipt = turn.receipt()
  t.true((receipt?.prompt.exactTokens ?? 0) > 0)
  if (receipt) {
    t.regex(
      renderReceipt(receipt),
      /tokens by its text, [\d,]+ blocks, the first [\d,]+ by answers/,
    )
    const dense = { ...receipt, prompt: { ...receipt.prompt, tokens: 5, exactTokens: 1000 } }
    t.regex(renderReceipt(dense), /5 tokens by its text, .* first 1,000 by answers: it is longer/)
  }
  t.is(turn.predictedCachedTokens, 0)
  turn.fail()
})

test('a turn goes to the engine that has its tokens, whoever it was sent to by its text', async (t) => {
  await using a = await TellingEngine.start()
  await using b = await TellingEngine.start()
  using s = scheduler([a, b])
  await untilExact(s)
  const session = new Session('s')
  for (let n = 0; n < 5; n += 1) {
    const turn = await s.submit(session.request())
    const engine = turn.worker === 'w0' ? a : b
    const answer = await fetch(turn.url, turn.init)
    const [text] = await Promise.all([turn.observe(answer.clone()).text(), engine.hear(answer)])
    await engine.tell()
    await heard(s, engine, turn.worker === 'w0' ? 0 : 1)
    session.goOn(text)
  }
  const stays = a.prompts.length > 0 ? a : b
  const other = stays === a ? b : a
  t.is(other.prompts.length, 0, 'so far the text was enough')
  // Somebody else has moved the session’s cache.
  await other.tell(stays.prompts.at(-1))
  await heard(s, other, other === a ? 0 : 1)
  await stays.clear()
  await heard(s, stays, stays === a ? 0 : 1)
  const turn = await s.submit(session.request())
  t.is(turn.worker, other === a ? 'w0' : 'w1')
  t.true(turn.predictedCachedTokens > 300)
  turn.fail()
})

test('what is kept of an answer is bounded by its prompt', async (t) => {
  const asked = { usage: false, tokens: true, reads: true }
  t.is(takersOf(asked, 1_000, () => t.fail()).tokenIds?.most, 8_000 + 65_536)
  await using engine = await TellingEngine.start()
  using s = scheduler([engine])
  const turn = await s.submit(chat('s', 'hello'))
  const most = 8 * turn.promptTokens + 65_536
  const answer = { choices: [], prompt_token_ids: Array(most + 1).fill(1) }
  const text = await turn.observe(Response.json(answer)).text()
  t.is(text, '{"choices":[],"prompt_token_ids":null}')
})

test('a client that asks for the tokens gets them', async (t) => {
  await using engine = await TellingEngine.start()
  using s = scheduler([engine])
  const turn = await s.submit(chat('s', 'hello', { return_token_ids: true }))
  const sent = JSON.parse(String(turn.init.body)) as Record<string, unknown>
  t.true(sent.return_token_ids)
  const answer = await fetch(turn.url, turn.init)
  const length = answer.headers.get('content-length')
  const observed = turn.observe(answer)
  t.is(observed.headers.get('content-length'), length)
  const { prompt_token_ids: ids } = (await observed.json()) as { prompt_token_ids: number[] }
  t.true(ids.length > 0)
})

test('only chats whose target wants it are asked for tokens', async (t) => {
  await using engine = await TellingEngine.start()
  const asks = async (s: Scheduler, request: Parameters<Scheduler['submit']>[0]) => {
    await using turn = await s.submit(request)
    const { origin } = turn.receipt()?.prompt ?? {}
    const body = JSON.parse(String(turn.init.body)) as Record<string, unknown>
    return { asks: body.return_token_ids === true, origin }
  }
  using s = scheduler([engine], { targets: { m: {}, plain: { tokens: 'text' } } })
  t.deepEqual(await asks(s, chat('s')), { asks: true, origin: 'answers' })
  const plain = await asks(s, chat('s', 'hello', { model: 'plain' }))
  t.deepEqual(plain, { asks: false, origin: 'given' })
  const messages = [{ role: 'user', content: 'hello' }]
  const anthropic = await asks(s, {
    path: '/v1/messages',
    body: { model: 'm', messages, max_tokens: 1 },
  })
  t.deepEqual(anthropic, { asks: false, origin: 'unsupported' })
  const image = [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA' } }]
  const media = await asks(s, chat('s', '', { messages: [{ role: 'user', content: image }] }))
  t.is(media.origin, 'media')
})

test('prompts of tenants with a salt are known apart', async (t) => {
  await using engine = await TellingEngine.start()
  using s = scheduler([engine])
  await untilExact(s)
  const session = new Session('s')
  for (let n = 0; n < 5; n += 1) {
    session.goOn((await run(s, engine, session.request())).text)
  }
  const exact = async (more: object) => {
    await using turn = await s.submit(session.request(more))
    return turn.receipt()?.prompt.exactTokens ?? 0
  }
  t.true((await exact({})) > 0)
  t.is(await exact({ cache_salt: 'other' }), 0)
})

test('the gateway tells an answer’s length only where nothing was taken out of it', async (t) => {
  await using engine = await TellingEngine.start()
  for (const [from, hasLength] of [
    ['answers', false],
    ['text', true],
  ] as const) {
    const gateway = await startGateway({
      port: 0,
      scheduler: { workers: [{ url: engine.double.url }], tokens: { from } },
    })
    await whole(t, gateway.url, hasLength)
    await gateway.close()
  }
})

async function whole(t: ExecutionContext, url: string, hasLength: boolean): Promise<void> {
  const body = JSON.stringify({ model: 'double', messages: [{ role: 'user', content: 'hello' }] })
  const headers = { 'content-type': 'application/json' }
  const answer = await fetch(url + CHAT, { method: 'POST', headers, body })
  t.is(answer.headers.has('content-length'), hasLength)
  const read = (await answer.json()) as { prompt_token_ids: unknown; choices: object[] }
  t.is(read.prompt_token_ids, null)
  t.is(read.choices.length, 1)
}
