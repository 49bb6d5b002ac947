import { channel } from 'node:diagnostics_channel'
import { getEventListeners } from 'node:events'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import test from 'ava'

import { type Hold, type Scheduler, type Turn, WarmpathError } from '../src/index.js'
import { CHAT, chat, crowded, crowdedTurn, fleet, settled } from './support/requests.js'

const body = { model: 'm', messages: [{ role: 'user', content: 'Grüße' }] }
const plain = Buffer.from(JSON.stringify(body))

test('a session goes where its prefix is', async (t) => {
  using f = fleet()
  const text = 'x'.repeat(5000)
  const first = await f.scheduler.submit(chat('s', text))
  first.complete({ promptTokens: 1300 })
  const second = await f.scheduler.submit(chat('s', text))
  t.is(second.worker, first.worker)
  t.true(second.predictedCachedTokens > 1000)
})

const one = { workers: [{ id: 'a', url: 'http://a' }] }

test('the body counts the same whichever way it comes', async (t) => {
  using f = fleet(one)
  const ways: [string, Uint8Array | string][] = [
    ['identity', plain],
    ['', plain.toString()],
    ['gzip', gzipSync(plain)],
    ['br', brotliCompressSync(plain)],
    ['deflate', deflateSync(plain)],
    ['deflate, GZIP', gzipSync(deflateSync(plain))],
  ]
  const parsed = await f.scheduler.submit({ path: CHAT, body })
  for (const [encoding, raw] of ways) {
    const turn = await f.scheduler.submit({
      path: CHAT,
      raw,
      headers: { 'content-encoding': encoding },
    })
    t.is(turn.predictedCachedTokens, parsed.promptTokens, encoding)
    t.is(Buffer.from(turn.init.body ?? '').toString(), plain.toString(), encoding)
    t.is(turn.init.headers['content-encoding'], undefined)
  }
})

const bomb = gzipSync(Buffer.alloc(1 << 20))
const refusals: [string, Parameters<Scheduler['submit']>[0], string, number][] = [
  ['a path of no turn', { path: '/v1/models', body }, 'WARMPATH_UNSUPPORTED_PATH', 404],
  ['another method', { path: CHAT, method: 'GET', body }, 'WARMPATH_UNSUPPORTED_PATH', 404],
  ['no body', { path: CHAT }, 'WARMPATH_INVALID_BODY', 400],
  ['an array', { path: CHAT, body: [] }, 'WARMPATH_INVALID_BODY', 400],
  ['half a body', { path: CHAT, raw: '{"model":' }, 'WARMPATH_INVALID_BODY', 400],
  ['a long body', { path: CHAT, raw: Buffer.alloc(5000, 32) }, 'WARMPATH_BODY_TOO_LARGE', 413],
  [
    'a text of few characters and many bytes',
    { path: CHAT, raw: JSON.stringify({ ...body, metadata: 'é'.repeat(2000) }) },
    'WARMPATH_BODY_TOO_LARGE',
    413,
  ],
  ['a long text', chat('s', 'x'.repeat(5000)), 'WARMPATH_BODY_TOO_LARGE', 413],
  [
    'a compressed bomb',
    { path: CHAT, raw: bomb, headers: { 'content-encoding': 'gzip' } },
    'WARMPATH_BODY_TOO_LARGE',
    413,
  ],
  [
    'bytes that are no gzip',
    { path: CHAT, raw: plain, headers: { 'content-encoding': 'gzip' } },
    'WARMPATH_INVALID_BODY',
    400,
  ],
  [
    'an encoding that nobody has',
    { path: CHAT, raw: plain, headers: { 'content-encoding': 'gzip, snappy' } },
    'WARMPATH_UNSUPPORTED_ENCODING',
    415,
  ],
  ['a long session', { ...chat('s'), session: 's'.repeat(300) }, 'WARMPATH_INVALID_ARGUMENT', 400],
  ['an unknown model', chat('s', 'hi', { model: 'gpt' }), 'WARMPATH_UNKNOWN_MODEL', 404],
]

for (const [name, request, code, status] of refusals) {
  test(`refused, and nothing is taken: ${name}`, async (t) => {
    using f = fleet({ targets: { m: {} }, limits: { bodyBytes: 4000 } })
    const error = await t.throwsAsync(f.scheduler.submit(request), { code })
    t.true(WarmpathError.is(error) && error.status === status)
    t.is(f.left(), 0)
    const after = await f.scheduler.submit(chat('s'))
    t.is(after.state, 'running')
  })
}

test('the limit of a body is in bytes, whichever way the body comes', async (t) => {
  const text = JSON.stringify({ ...body, metadata: 'é'.repeat(500) })
  const bodyBytes = Buffer.byteLength(text)
  t.true(bodyBytes > text.length)
  using exact = fleet({ limits: { bodyBytes } })
  using short = fleet({ limits: { bodyBytes: bodyBytes - 1 } })
  for (const raw of [text, Buffer.from(text)]) {
    const turn = await exact.scheduler.submit({ path: CHAT, raw })
    t.is(turn.state, 'running')
    const error = { code: 'WARMPATH_BODY_TOO_LARGE' }
    await t.throwsAsync(short.scheduler.submit({ path: CHAT, raw }), error)
  }
})

test('tokens and hashes stand in for text, with or without a body', async (t) => {
  using f = fleet(one)
  const tokens = Uint32Array.from({ length: 640 }, (_, at) => at)
  const first = await f.scheduler.submit({ path: CHAT, session: 's', model: 'm', tokens })
  t.is(first.promptTokens, 640)
  t.is(first.init.body, undefined)
  const again = await f.scheduler.submit({ path: CHAT, body, tokens })
  t.is(again.predictedCachedTokens, 640)
  t.is(again.init.body, JSON.stringify(body))
  const hashes = BigUint64Array.from([1n, 2n, 3n])
  const hashed = await f.scheduler.submit({ path: CHAT, hashes })
  t.is(hashed.promptTokens, 192)
  const code = 'WARMPATH_INVALID_ARGUMENT'
  await t.throwsAsync(f.scheduler.submit({ path: CHAT, tokens, hashes }), { code })
  structuredClone(tokens, { transfer: [tokens.buffer] })
  await t.throwsAsync(f.scheduler.submit({ path: CHAT, tokens }), { code })
})

test('a request without ids gets the session its prompt belongs to', async (t) => {
  using f = fleet()
  const messages = [{ role: 'user', content: 'x'.repeat(3000) }]
  const first = await f.scheduler.submit({ path: CHAT, body: { model: 'm', messages } })
  t.regex(first.session, /^prompt-[0-9a-f]{16}$/)
  t.is(first.receipt()?.session, first.session)
  first.complete()
  const next = [...messages, { role: 'assistant', content: 'y' }, { role: 'user', content: 'z' }]
  const second = await f.scheduler.submit({ path: CHAT, body: { model: 'm', messages: next } })
  t.is(second.session, first.session)
  t.is(second.receipt()?.session, first.session)
  second.complete()
  t.is(f.scheduler.status().sessions, 1)
  f.scheduler.endSession(first.session)
  t.is(f.scheduler.status().sessions, 0)
})

test('the same prompt of two tenants is two sessions, whose names tell neither of the other', async (t) => {
  using f = fleet()
  const body = { model: 'm', messages: [{ role: 'user', content: 'x'.repeat(3000) }] }
  const names = new Set<string>()
  for (const key of ['a', 'b']) {
    const headers = { authorization: `Bearer ${key}` }
    const turn = await f.scheduler.submit({ path: CHAT, headers, body })
    turn.complete()
    names.add(turn.session)
    t.is(turn.receipt()?.session, turn.session)
  }
  t.is(names.size, 2)
  for (const name of names) f.scheduler.endSession(name)
  t.is(f.scheduler.status().sessions, 2)
})

test('session and parent of the call stand in for what the request says, each by itself', async (t) => {
  using f = fleet()
  const of = async (extra: { session?: string; parent?: string }) => {
    const turn = await f.scheduler.submit({ ...chat('s'), ...extra })
    return [turn.session, turn.parent]
  }
  t.deepEqual(await of({}), ['s', undefined])
  t.deepEqual(await of({ session: 'own' }), ['own', undefined])
  t.deepEqual(await of({ parent: 'p' }), ['s', 'p'])
  t.deepEqual(await of({ session: 'own', parent: 'p' }), ['own', 'p'])
  t.deepEqual(await of({ session: 'own', parent: 'own' }), ['own', undefined])
  t.deepEqual(await of({ parent: 's' }), ['s', undefined])
})

test('tenants keep sessions apart: by credential, or as the user says', async (t) => {
  using f = fleet()
  const of = (key: string) => f.scheduler.tenantOf({ authorization: `Bearer ${key}` })
  t.regex(of('a'), /^[0-9a-f]{16}$/)
  t.not(of('a'), of('b'))
  t.is(f.scheduler.tenantOf({}), '')
  for (const key of ['a', 'b', 'a']) {
    const headers = { 'x-session-id': 's', authorization: `Bearer ${key}` }
    const turn = await f.scheduler.submit({ ...chat('s'), headers })
    turn.complete()
  }
  t.is(f.scheduler.status().sessions, 2)
  f.scheduler.endSession('s', of('a'))
  f.scheduler.endSession('unknown')
  t.is(f.scheduler.status().sessions, 1)
  using g = fleet({ identity: { tenant: (headers) => headers.get('x-team') } })
  t.is(g.scheduler.tenantOf({ 'X-Team': 'red' }), 'red')
})

test('candidates and peek look without taking anything', (t) => {
  using f = fleet()
  const rows = f.scheduler.candidates(chat('s'))
  t.deepEqual(rows.map(({ worker, target, url }) => [worker, target, url]).sort(), [
    ['a', 'default', 'http://a'],
    ['b', 'default', 'http://b'],
  ])
  t.true(rows.every((row) => Number.isFinite(row.cost)))
  t.deepEqual(f.scheduler.peek(chat('s')), rows[0])
  t.is(f.left(), 0)
})

test('workers come, drain, fail and leave while turns go on', async (t) => {
  using f = fleet({ workers: [{ id: 'a', url: 'http://a' }] })
  const { scheduler } = f
  const worker = async () => (await scheduler.submit(chat('s'))).worker
  scheduler.addWorker({ id: 'b', url: 'http://b/v1', capacityTokens: 5000 })
  t.throws(() => scheduler.addWorker({ id: 'b', url: 'http://b' }), {
    code: 'WARMPATH_DUPLICATE_ID',
  })
  scheduler.drainWorker('a')
  t.is(await worker(), 'b')
  scheduler.setHealth('b', 'down')
  await t.throwsAsync(worker(), { code: 'WARMPATH_NO_WORKER' })
  scheduler.setHealth('a', 'up')
  t.is(await worker(), 'a')
  scheduler.removeWorker('b')
  for (const id of ['b', 'c']) {
    t.throws(() => scheduler.drainWorker(id), { code: 'WARMPATH_UNKNOWN_ID' })
  }
  scheduler.addWorker({ id: 'b', url: 'http://new' })
  scheduler.drainWorker('a')
  const turn = await scheduler.submit(chat('s'))
  t.is(turn.url, 'http://new/v1/chat/completions')
  t.deepEqual(
    scheduler.status().workers.map(({ id, health }) => [id, health]),
    [
      ['a', 'draining'],
      ['b', 'up'],
    ],
  )
})

test('a worker joins all targets of one group, or is refused', (t) => {
  using f = fleet({
    targets: { one: { workers: ['a'] }, same: { workers: ['a'] }, two: { workers: ['b'] } },
  })
  const add = (targets?: string[]) =>
    f.scheduler.addWorker({ id: 'c', url: 'http://c', ...(targets && { targets }) })
  for (const wrong of [undefined, [], ['one'], ['one', 'two']]) {
    const error = t.throws(() => add(wrong), { code: 'WARMPATH_CONFIG' })
    t.regex(error?.message ?? '', /^worker\.targets: .*one \+ same or two/)
  }
  t.throws(() => add(['three']), { code: 'WARMPATH_UNKNOWN_ID' })
  add(['same', 'one'])
  t.deepEqual(f.scheduler.candidates(chat('s', 'x', { model: 'one' })).length, 2)
})

test('a stored response is found at its owner', async (t) => {
  using f = fleet({ targets: { m: { credential: 'key' } } })
  const turn = await f.scheduler.submit({ path: '/v1/responses', body: { model: 'm', input: 'x' } })
  const answer = { id: 'resp_1', object: 'response', status: 'completed', output: [] }
  await turn.observe(Response.json(answer)).text()
  const owner = f.scheduler.responseOwner('resp_1')
  t.like(owner, { worker: turn.worker, target: 'm', url: `http://${turn.worker}` })
  t.is(owner?.headers({ authorization: 'Bearer client' }).authorization, 'Bearer key')
  t.is(f.scheduler.responseOwner('resp_2'), undefined)
  t.is(f.scheduler.responseOwner('resp_1', 'other'), undefined)
})

test('a stored response is fetched with the account that made it, while its worker is there', async (t) => {
  using f = fleet({
    workers: [{ id: 'a', url: 'http://a' }],
    targets: {
      one: { model: 'm1', credential: 'key-1' },
      two: { model: 'm2', credential: 'key-2' },
    },
  })
  for (const [target, id, key] of [
    ['two', 'resp_2', 'key-2'],
    ['one', 'resp_1', 'key-1'],
  ] as const) {
    const body = { model: target, input: 'x' }
    const turn = await f.scheduler.submit({ path: '/v1/responses', body })
    const answer = { id, object: 'response', status: 'completed', output: [] }
    await turn.observe(Response.json(answer)).text()
    const owner = f.scheduler.responseOwner(id)
    t.like(owner, { worker: 'a', target, url: 'http://a' })
    t.is(owner?.headers().authorization, `Bearer ${key}`)
    t.is(turn.init.headers.authorization, `Bearer ${key}`)
  }
  f.scheduler.removeWorker('a')
  for (const id of ['resp_1', 'resp_2']) t.is(f.scheduler.responseOwner(id), undefined)
})

test('receipts are found by id while they are kept', async (t) => {
  using f = fleet()
  const turn = await f.scheduler.submit(chat('s'))
  t.like(f.scheduler.receipt(turn.receiptId), { worker: turn.worker, session: 's' })
  for (const id of ['', '-1', 'x', '999', '1e3', '99999999999999999999']) {
    t.is(f.scheduler.receipt(id), undefined, id)
  }
})

/** A crowded fleet, its two running turns and a third one that waits. */
async function held(onHold?: (hold: Hold) => void, signal?: AbortSignal) {
  const f = crowded()
  const running = [
    await f.scheduler.submit(crowdedTurn('r1')),
    await f.scheduler.submit(crowdedTurn('r2')),
  ]
  const wait = f.scheduler.submit(
    crowdedTurn('h1', { ...(onHold && { onHold }), ...(signal && { signal }) }),
  )
  return { ...f, running, wait, scheduler: f.scheduler }
}

function free(scheduler: Scheduler, turn: Turn | undefined): void {
  turn?.complete({ promptTokens: 850 })
  if (turn) scheduler.endSession(turn.session)
}

test('a held turn goes when room is given back', async (t) => {
  const f = crowded()
  const large = await f.scheduler.submit(crowdedTurn('large'))
  const small = await f.scheduler.submit(chat('small', 'x'.repeat(2000)))
  const wait = f.scheduler.submit(crowdedTurn('h1'))
  t.is(f.scheduler.status().holds, 1)
  free(f.scheduler, large)
  t.is(f.scheduler.status().holds, 1)
  f.pass(5000)
  const turn = await wait
  t.is(turn.heldMs, 5000)
  t.like(turn.receipt()?.admission, { verdict: 'held', heldMs: 5000 })
  t.is(turn.url, 'http://a/v1/chat/completions')
  turn.complete()
  small.complete()
  t.is(f.left(), 0)
  f.scheduler.close()
})

test('nobody is held while nothing runs', async (t) => {
  const f = await held()
  for (const turn of f.running) turn.complete({ promptTokens: 850 })
  const turn = await f.wait
  t.is(turn.heldMs, 0)
  turn.complete()
  t.is(f.left(), 0)
  f.scheduler.close()
})

test('whoever waits hears its place, and again when it has changed', async (t) => {
  const holds: Hold[] = []
  const first = new AbortController()
  const f = await held(undefined, first.signal)
  const second = f.scheduler.submit(crowdedTurn('h2', { onHold: (hold) => holds.push(hold) }))
  t.deepEqual(
    holds.map(({ position, heldMs }) => [position, heldMs]),
    [[2, 0]],
  )
  f.pass(1500)
  t.is(holds.length, 1)
  first.abort()
  await t.throwsAsync(f.wait, { code: 'WARMPATH_ABORTED' })
  f.pass(1500)
  t.deepEqual(
    holds.map(({ position, heldMs }) => [position, heldMs]),
    [
      [2, 0],
      [1, 3000],
    ],
  )
  f.scheduler.close()
  await t.throwsAsync(second, { code: 'WARMPATH_CLOSED' })
})

test('an abort ends a turn before, while and after it is held', async (t) => {
  const abort = new AbortController()
  const f = await held(undefined, abort.signal)
  t.is(getEventListeners(abort.signal, 'abort').length, 1)
  abort.abort(new Error('gone'))
  const error = await t.throwsAsync(f.wait, { code: 'WARMPATH_ABORTED' })
  t.like(error?.cause, { message: 'gone' })
  t.is(getEventListeners(abort.signal, 'abort').length, 0)
  t.like(f.scheduler.status(), { reservations: 2, holds: 0 })
  await t.throwsAsync(f.scheduler.submit(crowdedTurn('h1', { signal: abort.signal })), {
    code: 'WARMPATH_ABORTED',
  })
  t.is(f.left(), 2)

  const later = new AbortController()
  const wait = f.scheduler.submit(crowdedTurn('h3', { signal: later.signal }))
  for (const turn of f.running) free(f.scheduler, turn)
  f.pass(5000)
  const turn = await wait
  t.is(getEventListeners(later.signal, 'abort').length, 1)
  later.abort()
  t.is(turn.state, 'ended')
  t.is(getEventListeners(later.signal, 'abort').length, 0)
  t.is(f.left(), 0)
  f.scheduler.close()
})

test('an abort that comes with the room gives it back', async (t) => {
  const abort = new AbortController()
  const f = await held(undefined, abort.signal)
  for (const turn of f.running) free(f.scheduler, turn)
  f.pass(5000)
  abort.abort(new Error('gone'))
  const error = await t.throwsAsync(f.wait, { code: 'WARMPATH_ABORTED' })
  t.like(error?.cause, { message: 'gone' })
  t.is(f.left(), 0)
  t.is(getEventListeners(abort.signal, 'abort').length, 0)
  f.scheduler.close()
})

test('an abort right after a submit that was not held gives its room back', async (t) => {
  using f = crowded()
  const abort = new AbortController()
  const wait = f.scheduler.submit(crowdedTurn('a', { signal: abort.signal }))
  t.is(f.left(), 1)
  abort.abort()
  await t.throwsAsync(wait, { code: 'WARMPATH_ABORTED' })
  t.is(f.left(), 0)
})

test('an onHold that throws ends the turn', async (t) => {
  const f = await held(() => {
    throw new Error('mine')
  })
  await t.throwsAsync(f.wait, { message: 'mine' })
  t.like(f.scheduler.status(), { reservations: 2, holds: 0 })
  f.scheduler.close()
})

test('an onHold that rejects ends the turn as well', async (t) => {
  const f = await held(async () => {
    throw new Error('mine')
  })
  await t.throwsAsync(f.wait, { message: 'mine' })
  t.like(f.scheduler.status(), { reservations: 2, holds: 0 })
  f.scheduler.close()
})

test('an onHold may call the scheduler', async (t) => {
  let calls = 0
  const f = crowded()
  for (const name of ['r1', 'r2']) await f.scheduler.submit(crowdedTurn(name))
  const wait = f.scheduler.submit(
    crowdedTurn('h1', {
      onHold: () => {
        calls += 1
        f.scheduler.close()
      },
    }),
  )
  await t.throwsAsync(wait, { code: 'WARMPATH_CLOSED' })
  t.is(calls, 1)
})

test('a hold ends at its limit', async (t) => {
  const f = crowded({ admission: { policy: 'thunderagent', holdLimitSeconds: 7 } })
  for (const name of ['r1', 'r2']) await f.scheduler.submit(crowdedTurn(name))
  const wait = f.scheduler.submit(crowdedTurn('h1'))
  f.pass(7001)
  const error = await t.throwsAsync(wait, { code: 'WARMPATH_HOLD_LIMIT' })
  t.true(WarmpathError.is(error) && error.status === 503 && error.retryAfterSeconds === 8)
  t.like(f.scheduler.status(), { reservations: 2, holds: 0 })
  f.scheduler.close()
})

test('close settles what is held, refuses what comes, and lets what runs end quietly', async (t) => {
  const f = await held()
  f.scheduler.close()
  f.scheduler.close()
  await t.throwsAsync(f.wait, { code: 'WARMPATH_CLOSED' })
  await t.throwsAsync(f.scheduler.submit(chat('s')), { code: 'WARMPATH_CLOSED' })
  const closed = { code: 'WARMPATH_CLOSED' }
  t.throws(() => f.scheduler.candidates(chat('s')), closed)
  t.throws(() => f.scheduler.addWorker({ url: 'http://c' }), closed)
  t.throws(() => f.scheduler.setHealth('a', 'down'), closed)
  f.scheduler.endSession('s')
  f.scheduler.poll()
  for (const turn of f.running) {
    t.false(turn.next())
    turn.complete({ promptTokens: 1 })
    t.is(turn.state, 'ended')
  }
  t.is(f.left(), 0)
})

test.serial('channels tell what happens and name no session', async (t) => {
  const heard: [string, unknown][] = []
  const names = ['decision', 'hold', 'end', 'error']
  const listener = (message: unknown, name: string | symbol) => heard.push([String(name), message])
  for (const name of names) channel(`warmpath:${name}`).subscribe(listener)
  const f = await held()
  f.running[0]?.fail()
  await t.throwsAsync(f.scheduler.submit({ path: '/v1/models' }))
  for (const name of names) channel(`warmpath:${name}`).unsubscribe(listener)
  f.scheduler.close()
  await t.throwsAsync(f.wait)
  await settled()
  t.deepEqual(
    heard.map(([name]) => name.slice('warmpath:'.length)),
    ['decision', 'decision', 'hold', 'end', 'error'],
  )
  t.like(heard[0]?.[1], { worker: 'a', target: 'default', heldMs: 0, predictedCachedTokens: 0 })
  t.like(heard[3]?.[1], { outcome: 'failed' })
  t.deepEqual(heard[4]?.[1], { code: 'WARMPATH_UNSUPPORTED_PATH' })
  for (const [, message] of heard) t.false(/"[rh]\d"/.test(JSON.stringify(message)))
})
