/** What providers are told of sessions. */
import test from 'ava'
import { Scheduler, type TargetOptions, type TurnRequest } from '../src/index.js'

const MESSAGES = [{ role: 'user', content: 'Go.' }]
const CHAT: TurnRequest = {
  path: '/v1/chat/completions',
  body: { model: 't', messages: MESSAGES },
  headers: { 'x-session-id': 's', authorization: 'Bearer of-the-client' },
}
const RESPONSES: TurnRequest = {
  ...CHAT,
  path: '/v1/responses',
  body: { model: 't', input: 'Go.' },
}

/** The body and the headers that are sent. */
async function sent(target: TargetOptions, request: TurnRequest) {
  using scheduler = new Scheduler({
    workers: [{ id: 'w', url: 'http://w.invalid' }],
    targets: { t: { workers: ['w'], credential: 'key', affinity: true, ...target } },
  })
  using turn = await scheduler.submit(request)
  const { body, headers } = turn.init
  return { body: JSON.parse(String(body)), headers }
}

const HASH = /^[0-9a-f]{32}$/

test('each provider is told in its own place', async (t) => {
  for (const provider of ['openai', 'azure', 'mistral', 'moonshot']) {
    t.regex((await sent({ provider }, CHAT)).body.prompt_cache_key, HASH, provider)
  }
  const xai = { provider: 'xai' }
  const chat = await sent(xai, CHAT)
  t.regex(chat.headers['x-grok-conv-id'] ?? '', HASH)
  t.is(chat.body.prompt_cache_key, undefined)
  t.regex((await sent(xai, RESPONSES)).body.prompt_cache_key, HASH)
  t.regex((await sent({ provider: 'fireworks' }, CHAT)).headers['x-session-affinity'] ?? '', HASH)
  t.regex((await sent({ provider: 'openrouter' }, CHAT)).body.session_id, HASH)
})

test('it is the same for a session, and another for another session, tenant or credential', async (t) => {
  const openai = { provider: 'openai' }
  const key = async (target: object, headers: object = {}) => {
    const request = { ...CHAT, headers: { ...CHAT.headers, ...headers } }
    return (await sent({ ...openai, ...target }, request)).body.prompt_cache_key as string
  }
  const first = await key({})
  t.is(await key({}), first)
  const others = [
    await key({}, { 'x-session-id': 'other' }),
    await key({}, { authorization: 'Bearer of-another' }),
    await key({ credential: 'another key' }),
    await key({ credential: 'pass-through' }),
  ]
  t.is(new Set([first, ...others]).size, 5)
})

test('what the client has sent stands, and nobody is told without being asked to', async (t) => {
  const openai = { provider: 'openai' }
  const own = { ...CHAT, body: { ...(CHAT.body as object), prompt_cache_key: 'mine' } }
  t.is((await sent(openai, own)).body.prompt_cache_key, 'mine')
  const named = { ...CHAT, headers: { ...CHAT.headers, 'x-grok-conv-id': 'mine' } }
  t.is((await sent({ provider: 'xai' }, named)).headers['x-grok-conv-id'], 'mine')
  t.is((await sent({ ...openai, affinity: false }, CHAT)).body.prompt_cache_key, undefined)
})

test('a provider without such a place is refused', (t) => {
  const open = (target: TargetOptions) => {
    new Scheduler({ workers: [{ url: 'http://w' }], targets: { t: target } }).close()
  }
  const message = /^targets\.t\.affinity: needs provider: one of openai, azure/
  t.throws(() => open({ affinity: true }), { code: 'WARMPATH_CONFIG', message })
  t.throws(() => open({ affinity: true, provider: 'x' }), { message })
  t.throws(() => open({ affinity: 1 as never, provider: 'openai' }), {
    message: /affinity: must be/,
  })
})
