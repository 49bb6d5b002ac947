/** Bodies made to cost a router more than they cost their sender. */
import { gzipSync } from 'node:zlib'
import test from 'ava'

import { dialectOf, WarmpathError } from '../src/index.js'
import { MAX_NESTING, MAX_VALUES } from '../src/turn/bounds.js'
import { CHAT, fleet } from './support/requests.js'

const PATHS = [CHAT, '/v1/responses', '/v1/messages']

/** A body with its content, under any of the names, `levels` deep as a whole. */
function nested(levels: number, open = '[', close = ']'): string {
  const inside = levels - 3
  const content = open.repeat(inside) + close.repeat(inside)
  const item = `{"role":"user","content":${content}}`
  return `{"model":"m","messages":[${item}],"input":[${item}]}`
}

for (const path of PATHS) {
  test(`deep bodies are refused at once, others are sent on: ${path}`, async (t) => {
    using f = fleet({ targets: { m: { model: 'other' } } })
    const turn = await f.scheduler.submit({ path, raw: nested(MAX_NESTING) })
    t.regex(String(turn.init.body), /"model":"other"/)
    turn.complete()
    for (const raw of [nested(MAX_NESTING + 1), nested(100_000), nested(50_000, '{"a":[', ']}')]) {
      await t.throwsAsync(f.scheduler.submit({ path, raw }), {
        code: 'WARMPATH_INVALID_BODY',
        message: `the body is nested deeper than ${MAX_NESTING} levels`,
      })
      t.throws(() => f.scheduler.candidates({ path, raw }), { code: 'WARMPATH_INVALID_BODY' })
    }
    t.is(f.left(), 0)
  })
}

test('thousands of deep messages in a small body are refused by their levels alone', async (t) => {
  using f = fleet()
  const content = '['.repeat(3000) + ']'.repeat(3000)
  const messages = Array(80).fill(`{"role":"user","content":${content}}`).join()
  const raw = `{"model":"m","messages":[${messages}]}`
  t.true(raw.length < MAX_VALUES)
  await t.throwsAsync(f.scheduler.submit({ path: CHAT, raw }), {
    code: 'WARMPATH_INVALID_BODY',
    message: `the body is nested deeper than ${MAX_NESTING} levels`,
  })
})

const floods: [string, (n: number) => string][] = [
  ['lists', (n) => '[],'.repeat(n / 2)],
  ['levels', (n) => `${'['.repeat(n)}${']'.repeat(n)},`],
  ['numbers', (n) => '1,'.repeat(n)],
  ['members', (n) => `{${'"a":1,'.repeat(n / 2)}"b":1},`],
  ['strings', (n) => '"\\\\",'.repeat(n)],
]

for (const [what, flood] of floods) {
  test(`a large body may hold ${MAX_VALUES} values and no more: ${what}`, async (t) => {
    using f = fleet()
    const body = (n: number) =>
      `{"model":"m","x":[${flood(n)}0],"pad":"${',\\"['.repeat(400_000)}"}`
    const headers = { 'content-encoding': 'gzip' }
    for (const raw of [body(MAX_VALUES), Buffer.from(body(2 * MAX_VALUES))]) {
      await t.throwsAsync(f.scheduler.submit({ path: CHAT, raw }), {
        code: 'WARMPATH_INVALID_BODY',
        message: `the body holds more than ${MAX_VALUES} values`,
      })
    }
    const raw = gzipSync(body(MAX_VALUES), { level: 1 })
    await t.throwsAsync(f.scheduler.submit({ path: CHAT, raw, headers }), {
      code: 'WARMPATH_INVALID_BODY',
    })
    if (what === 'levels') return
    const turn = await f.scheduler.submit({ path: CHAT, raw: body(MAX_VALUES - 20) })
    turn.complete()
    t.is(f.left(), 0)
  })
}

test('ids are not looked for in strings that are too long to hold one', async (t) => {
  using f = fleet()
  const carrier = (pad: string) => JSON.stringify({ session_id: 'mine', pad })
  const sessionOf = async (user_id: string) => {
    const body = { model: 'm', messages: [], metadata: { user_id } }
    const turn = await f.scheduler.submit({ path: '/v1/messages', body })
    turn.complete()
    return turn.session
  }
  t.is(await sessionOf(carrier('x'.repeat(1000))), 'mine')
  t.not(await sessionOf(carrier('x'.repeat(100_000))), 'mine')
})

test('a large text that is no JSON is told as such', async (t) => {
  using f = fleet()
  for (const end of ['"open', '"open\\', '"open\\"', ']']) {
    const raw = `{"model":"m","x":"${'x'.repeat(2 ** 20)}"${end}`
    await t.throwsAsync(f.scheduler.submit({ path: CHAT, raw }), {
      code: 'WARMPATH_INVALID_BODY',
      message: 'the body is not JSON',
    })
  }
})

const itself: { model: string; messages: unknown[] } = { model: 'm', messages: [] }
itself.messages.push(itself, [itself, itself])
const unreadable: [string, object][] = [
  ['an object that contains itself', itself],
  ['a BigInt', { model: 'm', messages: [], seed: 1n }],
  ['a BigInt in a message', { model: 'm', messages: [{ role: 'user', content: [5n] }] }],
  [
    'a member that throws',
    {
      model: 'm',
      get messages() {
        throw new RangeError('mine')
      },
    },
  ],
]

for (const [what, body] of unreadable) {
  test(`a program's body is refused, and nothing is taken: ${what}`, async (t) => {
    using f = fleet()
    for (const path of PATHS) {
      const error = await t.throwsAsync(f.scheduler.submit({ path, body }))
      t.true(WarmpathError.is(error) && error.code === 'WARMPATH_INVALID_BODY')
    }
    t.is(f.left(), 0)
  })
}

test('an object that refuses to be written is told as such, and its turn can still end', async (t) => {
  using f = fleet()
  const toJSON = () => {
    throw new RangeError('mine')
  }
  const turn = await f.scheduler.submit({ path: CHAT, body: { model: 'm', messages: [], toJSON } })
  t.throws(() => turn.init, { code: 'WARMPATH_INVALID_BODY' })
  turn.fail()
  t.is(f.left(), 0)
})

/** Bodies whose parts are many; what grows is their number. */
const wide: [string, string, (n: number) => unknown][] = [
  ['messages', CHAT, (n) => ({ messages: Array(n).fill({ role: 'user', content: 'x' }) })],
  [
    'tool results',
    CHAT,
    (n) => ({
      messages: Array.from({ length: n }, (_, i) => ({
        role: 'tool',
        tool_call_id: `c${i}`,
        content: '',
      })),
    }),
  ],
  [
    'marked parts',
    '/v1/messages',
    (n) => ({
      messages: [
        {
          role: 'user',
          content: Array(n).fill({ type: 'text', text: 'é', cache_control: { type: 'ephemeral' } }),
        },
      ],
    }),
  ],
  [
    'results and calls of one message',
    '/v1/messages',
    (n) => ({
      messages: [
        {
          role: 'assistant',
          content: Array.from({ length: n }, (_, i) => ({ type: 'tool_use', id: `c${i}` })),
        },
        {
          role: 'user',
          content: Array.from({ length: n }, (_, i) => ({
            type: 'tool_result',
            tool_use_id: `c${i}`,
          })),
        },
      ],
    }),
  ],
  [
    'sealed items',
    '/v1/responses',
    (n) => ({
      input: Array.from({ length: n }, (_, i) => [
        { type: 'reasoning', encrypted_content: `${i}` },
        { type: 'function_call', call_id: `c${i}` },
        { type: 'function_call_output', call_id: `c${i}`, output: 'x' },
      ]).flat(),
    }),
  ],
  [
    'references',
    '/v1/responses',
    (n) => ({
      input: Array.from({ length: n }, (_, i) => ({ type: 'item_reference', id: `i${i}` })),
    }),
  ],
  ['tools', CHAT, (n) => ({ tools: Array(n).fill({ type: 'function', function: { name: 'f' } }) })],
]

/** The same value, which tells of every look at it. */
function watched<T extends object>(value: T, look: () => void): T {
  const known = new WeakMap<object, object>()
  const wrap = (inner: unknown): unknown => {
    if (typeof inner !== 'object' || inner === null) return inner
    const proxy = known.get(inner) ?? new Proxy(inner, handler)
    known.set(inner, proxy)
    return proxy
  }
  const handler: ProxyHandler<object> = {
    get(target, name) {
      look()
      return wrap(Reflect.get(target, name))
    },
    has(target, name) {
      look()
      return Reflect.has(target, name)
    },
    ownKeys(target) {
      look()
      return Reflect.ownKeys(target)
    },
  }
  return wrap(value) as T
}

for (const [what, path, make] of wide) {
  test(`reading looks at a body in proportion to the number of ${what}`, (t) => {
    const looks = (n: number) => {
      let count = 0
      dialectOf(path)?.read(
        watched(make(n) as Record<string, unknown>, () => {
          count += 1
        }),
      )
      return count
    }
    const [small, large] = [looks(100), looks(1600)]
    t.true(small > 100)
    // 16 times as many; 256 times where each is compared with all others.
    t.true(large < 20 * small, `${small} looks, then ${large}`)
  })
}
