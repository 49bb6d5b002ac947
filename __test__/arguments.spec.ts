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

test('headers that are none are refused, whoever reads them', (t) => {
  using f = fleet()
  const odd = [
    5,
    'x',
    true,
    null,
    () => 1,
    1n,
    [5],
    ['a'],
    ['a', 'b', 'c'],
    [5, 'a'],
    [[]],
    [['a']],
    [['a', 'b'], 5],
  ]
  for (const headers of [...odd, [[5, 'a']], new Uint8Array(4)]) {
    const readers = [
      () => f.scheduler.candidates({ ...chat('s'), headers: headers as never }),
      () => f.scheduler.tenantOf(headers as never),
      () => f.scheduler.sessionOf(headers as never),
    ]
    for (const read of readers) {
      t.throws(read, {
        code: 'WARMPATH_INVALID_ARGUMENT',
        message: 'headers must be a collection of headers',
      })
    }
  }
  const pairs = [
    ['x-a', '1'],
    ['x-b', undefined],
  ] as [string, string | undefined][]
  for (const headers of [
    {},
    [],
    pairs,
    ['x-a', '1'],
    new Map(),
    new Headers(),
    { a: ['1', '2'] },
  ]) {
    t.is(f.scheduler.candidates({ ...chat('s'), headers }).length, 2)
  }
})

test('a misspelt field of a request is refused by name', async (t) => {
  using f = fleet()
  const error = {
    code: 'WARMPATH_INVALID_ARGUMENT',
    message: /^prioritty: unknown field, known are path, /,
  }
  for (const prioritty of [5, undefined]) {
    const request = { ...chat('s'), prioritty }
    t.throws(() => f.scheduler.peek(request), error)
    t.throws(() => f.scheduler.portability(request, 'default'), error)
    t.throws(() => f.scheduler.checkState(request), error)
    t.like(await t.throwsAsync(f.scheduler.submit(request), error), {
      detail: { field: 'prioritty' },
    })
  }
  t.is(f.left(), 0)
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
