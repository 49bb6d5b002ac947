/** Whatever a program passes where a string belongs, it is told by name, and nothing happens. */
import test from 'ava'

import {
  dialectOf,
  parseBody,
  responseHeaders,
  Scheduler,
  upstreamUrl,
  WarmpathError,
} from '../src/index.js'
import { chat, fleet } from './support/requests.js'

const ODD = [1n, 5, null, Symbol('s'), {}, [], () => 'x', Object.create(null)]

type Call = (odd: never, f: { scheduler: Scheduler }) => unknown

const calls: [string, string, Call][] = [
  ['dialectOf', 'path', (odd) => dialectOf(odd)],
  ['upstreamUrl', 'base', (odd) => upstreamUrl(odd, '/x')],
  ['upstreamUrl, the path', 'path', (odd) => upstreamUrl('http://h', odd)],
  ['parseBody', 'raw', (odd) => parseBody(odd)],
  ['drainWorker', 'id', (odd, f) => f.scheduler.drainWorker(odd)],
  ['removeWorker', 'id', (odd, f) => f.scheduler.removeWorker(odd)],
  ['setHealth', 'id', (odd, f) => f.scheduler.setHealth(odd, 'up')],
  ['setHealth, the health', 'health', (odd, f) => f.scheduler.setHealth('a', odd)],
  ['receipt', 'id', (odd, f) => f.scheduler.receipt(odd)],
  ['endSession, the tenant', 'tenant', (odd, f) => f.scheduler.endSession('s', odd)],
  ['responseOwner', 'responseId', (odd, f) => f.scheduler.responseOwner(odd)],
  ['responseOwner, the tenant', 'tenant', (odd, f) => f.scheduler.responseOwner('r', odd)],
  ['destination', 'model', (odd, f) => f.scheduler.destination(odd)],
  ['Scheduler.shared', 'name', (odd) => Scheduler.shared(odd, { workers: [{ url: 'http://a' }] })],
  ['submit', 'path', (odd, f) => f.scheduler.candidates({ ...chat('s'), path: odd })],
]

for (const [title, name, call] of calls) {
  test(`refused by name: ${title}`, (t) => {
    using f = fleet()
    for (const odd of ODD) {
      const error = t.throws(() => call(odd as never, f), { code: 'WARMPATH_INVALID_ARGUMENT' })
      t.true(error?.message.startsWith(`${name} must be `), error?.message)
    }
    t.like(f.scheduler.status(), { reservations: 0, sessions: 0 })
  })
}

test('refused by name: endSession', (t) => {
  using f = fleet()
  for (const odd of ODD) {
    t.throws(() => f.scheduler.endSession(odd as never), {
      code: 'WARMPATH_INVALID_ARGUMENT',
      message: /^session must be /,
    })
  }
})

test('refused by name: responseHeaders', (t) => {
  for (const odd of [...ODD.filter((each) => !Array.isArray(each)), undefined, 'a', ['a'], [[1]]]) {
    t.throws(() => responseHeaders(odd as never), {
      code: 'WARMPATH_INVALID_ARGUMENT',
      message: /^headers must be /,
    })
  }
  t.deepEqual(responseHeaders(new Map([['A', 'b']])), [['a', 'b']])
})

test('options that are none are told by field', (t) => {
  using f = fleet()
  for (const odd of ODD) {
    const wrong = [
      () => new Scheduler(odd as never),
      () => f.scheduler.addWorker(odd as never),
      () => f.scheduler.addWorker({ url: odd as never }),
    ]
    for (const call of wrong) {
      const error = t.throws(call)
      t.true(WarmpathError.is(error) && error.code === 'WARMPATH_CONFIG', String(error))
    }
  }
})
