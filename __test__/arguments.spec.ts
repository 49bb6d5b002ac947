/** Arguments of the wrong type: refused by name before anything is reserved, never a plain error. */
import test from 'ava'
import { Scheduler, type TurnRequest } from '../src/index.js'
import { CHAT, chat, crowded, crowdedTurn, fleet, settled } from './support/requests.js'

const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }] }

const REQUESTS: [string, unknown, string][] = [
  ['undefined', undefined, 'the request must be an object'],
  ['null', null, 'the request must be an object'],
  ['a number', 5, 'the request must be an object'],
  ['no path', { body }, 'path must be a string'],
  ['path', { path: 5, body }, 'path must be a string'],
  ['method', { path: CHAT, body, method: 5 }, 'method must be a string'],
  ['raw', { path: CHAT, raw: 5 }, 'raw must be a string or a Uint8Array'],
  ['tokens', { path: CHAT, tokens: [1, 2] }, 'tokens must be a Uint32Array'],
  ['tokens of bytes', { path: CHAT, tokens: new Uint8Array(3) }, 'tokens must be a Uint32Array'],
  ['hashes', { path: CHAT, hashes: [1n] }, 'hashes must be a BigUint64Array'],
  [
    'signed hashes',
    { path: CHAT, hashes: new BigInt64Array(1) },
    'hashes must be a BigUint64Array',
  ],
  ['signal', { path: CHAT, body, signal: {} }, 'signal must be an AbortSignal'],
  ['signal, null', { path: CHAT, body, signal: null }, 'signal must be an AbortSignal'],
  ['onHold', { path: CHAT, body, onHold: 5 }, 'onHold must be a function'],
  ['model', { path: CHAT, body, model: {} }, 'model must be a string'],
  ['session', { path: CHAT, body, session: 7 }, 'session must be a string'],
  ['parent', { path: CHAT, body, parent: [] }, 'parent must be a string'],
]

for (const [name, request, message] of REQUESTS) {
  test(`a request is refused: ${name}`, async (t) => {
    using f = fleet()
    const refused = { code: 'WARMPATH_INVALID_ARGUMENT', message }
    await t.throwsAsync(f.scheduler.submit(request as TurnRequest), refused)
    t.throws(() => f.scheduler.candidates(request as TurnRequest), refused)
    t.throws(() => f.scheduler.peek(request as TurnRequest), refused)
    t.like(f.scheduler.status(), { reservations: 0, counters: { submitted: 0 } })
  })
}

const CALLS: [string, (scheduler: Scheduler) => unknown, string, string][] = [
  ['endSession', (s) => s.endSession(5 as never), 'INVALID_ARGUMENT', 'session must be a string'],
  [
    'endSession, tenant',
    (s) => s.endSession('s', 5 as never),
    'INVALID_ARGUMENT',
    'tenant must be a string',
  ],
  [
    'responseOwner',
    (s) => s.responseOwner(5 as never),
    'INVALID_ARGUMENT',
    'responseId must be a string',
  ],
  [
    'responseOwner, tenant',
    (s) => s.responseOwner('r', null as never),
    'INVALID_ARGUMENT',
    'tenant must be a string',
  ],
  [
    'shared',
    () => Scheduler.shared(5 as never, { workers: [{ url: 'http://a' }] }),
    'INVALID_ARGUMENT',
    'name must be a string',
  ],
  [
    'addWorker, targets',
    (s) => s.addWorker({ url: 'http://c', targets: 'm' as never }),
    'CONFIG',
    'worker.targets: must be an array, got "m"',
  ],
]

for (const [name, call, code, message] of CALLS) {
  test(`a call is refused: ${name}`, (t) => {
    using f = fleet()
    t.throws(() => call(f.scheduler), { code: `WARMPATH_${code}`, message })
  })
}

test('what is no answer is refused, and the turn goes on', async (t) => {
  using f = fleet()
  const turn = await f.scheduler.submit(chat('s'))
  for (const wrong of [undefined, null, 'text', {}]) {
    t.throws(() => turn.observe(wrong as never), {
      code: 'WARMPATH_INVALID_ARGUMENT',
      message: 'the answer must be a Response',
    })
  }
  t.is(turn.state, 'running')
})

test('usage that is no count of tokens is unknown usage, and ends the turn all the same', async (t) => {
  using f = fleet()
  for (const wrong of [5n, '7', -1, 1.5, Number.NaN, 2 ** 40, null]) {
    const turn = await f.scheduler.submit(chat('s'))
    turn.complete({ promptTokens: wrong as never, completionTokens: 3 })
    t.like(turn.receipt()?.outcome, { promptTokens: null, completionTokens: 3 }, String(wrong))
  }
  t.is(f.left(), 0)
})

/** A signal whose listeners cannot be added from the `from`-th on. */
function brokenSignal(from: number): AbortSignal {
  let added = 0
  const broken = {
    aborted: false,
    addEventListener() {
      added += 1
      if (added >= from) throw new Error('broken signal')
    },
    removeEventListener() {},
  }
  return broken as unknown as AbortSignal
}

test('a signal that throws costs no room: running, held, and let go', async (t) => {
  const thrown = { message: 'broken signal' }
  using f = crowded()
  await t.throwsAsync(f.scheduler.submit({ ...chat('s'), signal: brokenSignal(1) }), thrown)
  t.is(f.left(), 0)

  const running = [
    await f.scheduler.submit(crowdedTurn('r1')),
    await f.scheduler.submit(crowdedTurn('r2')),
  ]
  const held = f.scheduler.submit(crowdedTurn('h1', { signal: brokenSignal(1) }))
  await t.throwsAsync(held, thrown)
  t.like(f.scheduler.status(), { reservations: 2, holds: 0 })

  const broken = f.scheduler.submit(crowdedTurn('h2', { signal: brokenSignal(2) }))
  const sound = f.scheduler.submit(crowdedTurn('h3'))
  await settled()
  t.is(f.scheduler.status().holds, 2)
  for (const turn of running) {
    turn.complete({ promptTokens: 850 })
    f.scheduler.endSession(turn.session)
  }
  f.pass(5000)
  await t.throwsAsync(broken, thrown)
  f.pass(5000)
  t.is((await sound).worker, 'a')
  t.is(f.left(), 1)
})

test('a logger that throws costs no room', async (t) => {
  const fail = () => {
    throw new Error('broken logger')
  }
  const quiet = () => undefined
  const debug = (_: object, message: string) => (message === 'turn held' ? fail() : undefined)
  using f = crowded({ logger: { debug, info: quiet, warn: quiet, error: quiet } })
  for (const name of ['r1', 'r2']) await f.scheduler.submit(crowdedTurn(name))
  const held = f.scheduler.submit(crowdedTurn('h1'))
  await t.throwsAsync(held, { message: 'broken logger' })
  t.like(f.scheduler.status(), { reservations: 2, holds: 0 })
})
