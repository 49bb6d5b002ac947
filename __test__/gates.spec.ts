/** Most turns and sessions a worker, shares of tenants and priorities, as whoever submits meets them. */
import test from 'ava'
import { renderReceipt, renderStatus } from '../src/cli/render.js'
import type { Hold, SchedulerOptions, Turn, TurnRequest } from '../src/index.js'
import { chat, crowdedTurn, type Fleet, fleet, settled } from './support/requests.js'

type Admission = NonNullable<SchedulerOptions['admission']>

const POLICIES = ['none', 'lease', 'thunderagent'] as const

/** One worker with these gates. */
function one(admission: Admission, more: Partial<SchedulerOptions> = {}): Fleet {
  const workers = [{ id: 'a', url: 'http://a', capacityTokens: 1_000_000 }]
  return fleet({ workers, admission, identity: { tenant: 'x-tenant' }, ...more })
}

function of(tenant: string, session: string, extra: Partial<TurnRequest> = {}): TurnRequest {
  const turn = chat(session, `${session} says`)
  return { ...turn, headers: { 'x-session-id': session, 'x-tenant': tenant }, ...extra }
}

/** Notes who goes, in order. */
function submitAll(f: Fleet, requests: readonly (readonly [string, TurnRequest])[]) {
  const gone: string[] = []
  const turns: Turn[] = []
  for (const [name, request] of requests) {
    f.scheduler.submit(request).then(
      (turn) => {
        gone.push(name)
        turns.push(turn)
      },
      (error) => gone.push(`${name}: ${error.code}`),
    )
  }
  const next = async () => {
    turns.shift()?.complete({ promptTokens: 10 })
    await settled()
  }
  return { gone, turns, next }
}

for (const policy of POLICIES) {
  test(`${policy}: a worker runs so many turns, and the next one says what it waits for`, async (t) => {
    using f = one({ policy, maxRunning: 2 })
    const first = await f.scheduler.submit(chat('s1'))
    await f.scheduler.submit(chat('s2'))
    const holds: Hold[] = []
    const wait = f.scheduler.submit(chat('s3', 'hello', {}))
    const last = f.scheduler.submit({ ...chat('s4'), onHold: (hold) => holds.push(hold) })
    await settled()
    t.like(f.scheduler.status(), { holds: 2, reservations: 4 })
    t.like(holds[0], { position: 2, reason: 'max-running', expectedMs: undefined })
    t.like(f.scheduler.status().waiting, [{ session: 's3', why: 'max-running', place: 1 }])
    f.pass(3000)
    first.complete({ promptTokens: 10 })
    const turn = await wait
    f.pass(1000)
    const receipt = f.scheduler.receipt(turn.receiptId)
    t.like(receipt?.admission, { verdict: 'held', why: 'max-running', queuedAt: 1, heldMs: 3000 })
    t.deepEqual(receipt?.admission.refusals, [
      { worker: 'a', why: 'max-running', turns: 2, most: 2 },
    ])
    // Now it is known how fast others go.
    t.like(holds.at(-1), { position: 1, reason: 'max-running', expectedMs: 2000 })
    turn.complete({ promptTokens: 10 })
    await last
    t.is(f.scheduler.status().holds, 0)
  })

  test(`${policy}: a kept session passes, a new one waits until one ends or is idle for long`, async (t) => {
    using f = one({ policy, maxSessions: 2, sessionIdleSeconds: 30 })
    const done = async (session: string) => {
      const turn = await f.scheduler.submit(chat(session, session))
      turn.complete({ promptTokens: 10 })
    }
    await done('s1')
    f.pass(5000)
    await done('s2')
    const { gone, turns } = submitAll(f, [
      ['s3', chat('s3', 's3')],
      ['s4', chat('s4', 's4')],
    ])
    await settled()
    t.deepEqual(gone, [])
    const why = f.scheduler.status().waiting.map((turn) => turn.why)
    t.deepEqual(why, ['max-sessions', 'max-sessions'])
    const again = await f.scheduler.submit(chat('s2', 's2'))
    f.pass(24_999)
    await settled()
    t.deepEqual(gone, [], 's1 was here 29.999 seconds ago')
    f.pass(1)
    await settled()
    t.deepEqual(gone, ['s3'])
    f.pass(60_000)
    await settled()
    t.deepEqual(gone, ['s3'], 'both of the worker have a turn')
    f.scheduler.endSession('s2')
    await settled()
    t.deepEqual(gone, ['s3', 's4'])
    for (const turn of [again, ...turns]) turn.complete({ promptTokens: 10 })
    t.is(f.left(), 0)
  })
}

test('a full worker is passed over before anybody chooses, however warm it is', async (t) => {
  using f = fleet({ admission: { maxRunning: 1 } })
  const first = await f.scheduler.submit(crowdedTurn('s1'))
  const twin = await f.scheduler.submit(crowdedTurn('s1', { session: 'other' }))
  t.not(first.worker, twin.worker)
  // Nobody else can take it: a turn that has to move goes where it can.
  twin.complete({ promptTokens: 10 })
  t.true(first.next())
  t.is(first.worker, twin.worker)
})

/** A turn of a session with so much to say. */
function sized(session: string, words: number, extra: Partial<TurnRequest> = {}) {
  return [session, { ...chat(session, `${session} says `.repeat(words)), ...extra }] as const
}

const IN_ORDER = {
  fcfs: ['long', 'short', 'middle', 'low'],
  wspt: ['short', 'middle', 'long', 'low'],
  lcfs: ['middle', 'short', 'long', 'low'],
}

for (const order of ['fcfs', 'wspt', 'lcfs'] as const) {
  for (const priority of ['strict', 'head-start'] as const) {
    test(`${order}, ${priority}: who goes next, and below 0 after all others`, async (t) => {
      using f = one({ maxRunning: 1, queue: { order, priority } })
      const running = await f.scheduler.submit(chat('running'))
      const gone: string[] = []
      const turns: Turn[] = []
      const came = [
        sized('long', 900),
        sized('short', 1),
        sized('low', 1, { priority: -1 }),
        sized('middle', 300),
      ]
      for (const [name, request] of came) {
        f.pass(1)
        void f.scheduler.submit(request).then((turn) => turns.push(turn) && gone.push(name))
      }
      await settled()
      const places = f.scheduler.status().waiting.map(({ session, place }) => [place, session])
      const wanted = IN_ORDER[order].map((session, at) => [at + 1, session])
      t.deepEqual(places.sort(), wanted)
      running.complete({ promptTokens: 10 })
      await settled()
      for (let n = 0; n < 4; n += 1) {
        turns[n]?.complete({ promptTokens: 10 })
        await settled()
      }
      t.deepEqual(gone, IN_ORDER[order])
      t.is(f.left(), 0)
    })
  }
}

test('a head start passes who came less long before, and the published one lowers nobody', async (t) => {
  for (const [priority, wanted] of [
    ['head-start', ['b', 'a', 'low']],
    ['published', ['low', 'b', 'a']],
  ] as const) {
    using f = one({ maxRunning: 1, queue: { priority } })
    const running = await f.scheduler.submit(chat('running'))
    const { gone, next } = submitAll(f, [['low', { ...chat('low'), priority: -50 }]])
    f.pass(10_000)
    const later = submitAll(f, [['a', chat('a')]])
    f.pass(4_000)
    const last = submitAll(f, [['b', { ...chat('b'), priority: 5 }]])
    await settled()
    running.complete({ promptTokens: 10 })
    await settled()
    const all = [{ gone, next }, later, last]
    const order: string[] = []
    for (let n = 0; n < 3; n += 1) {
      const who = all.find((one) => one.gone.length > 0 && !order.includes(one.gone[0] ?? ''))
      order.push(who?.gone[0] ?? 'nobody')
      await who?.next()
    }
    t.deepEqual(order, [...wanted], priority)
  }
})

test('no order keeps a turn waiting for longer than the age that is set', async (t) => {
  using f = one({ maxRunning: 1, queue: { order: 'lcfs', maxAgeSeconds: 20 } })
  const running = await f.scheduler.submit(chat('running'))
  const { gone, turns, next } = submitAll(f, [['old', chat('old')]])
  let newest = running
  let seconds = 0
  for (; gone.length === 0 && seconds < 100; seconds += 1) {
    f.pass(1000)
    const young = f.scheduler.submit(chat(`y${seconds}`))
    await settled()
    newest.complete({ promptTokens: 10 })
    await settled()
    if (gone.length === 0) newest = await young
  }
  t.is(seconds, 20)
  t.is(turns.length, 1)
  await next()
})

test('classes share, are told of and are full on their own', async (t) => {
  const queue: NonNullable<Admission['queue']> = {
    classes: [
      { name: 'batch', maxPriority: -1, quantumTokens: 100, maxWaiting: 2 },
      { name: 'rest', quantumTokens: 100_000, order: 'wspt' },
    ],
  }
  using f = one({ maxRunning: 1, queue })
  const running = await f.scheduler.submit(chat('running'))
  const holds: Hold[] = []
  const batch = ['b1', 'b2', 'b3'].map((id) => [id, { ...chat(id), priority: -5 }] as const)
  const { gone, next } = submitAll(f, [
    ...batch,
    sized('long', 300, { onHold: (hold) => holds.push(hold) }),
    sized('short', 1),
  ])
  await settled()
  t.deepEqual(gone, ['b3: WARMPATH_QUEUE_FULL'])
  t.like(holds[0], { position: 1, class: 'rest', reason: 'max-running' })
  const status = f.scheduler.status()
  t.deepEqual(status.queue, [
    { class: 'batch', waiting: 2, refused: 1 },
    { class: 'rest', waiting: 2, refused: 0 },
  ])
  const waiting = status.waiting.map((turn) => [turn.session, turn.class, turn.place])
  t.deepEqual(waiting.sort(), [
    ['b1', 'batch', 1],
    ['b2', 'batch', 2],
    ['long', 'rest', 2],
    ['short', 'rest', 1],
  ])
  const page = renderStatus(status)
  t.regex(page, /priority +class\n/)
  t.regex(page, /By class: batch 2 \(1 refused\), rest 2\./)
  running.complete({ promptTokens: 10 })
  await settled()
  for (let n = 0; n < 4; n += 1) await next()
  t.deepEqual(gone.slice(1).sort(), ['b1', 'b2', 'long', 'short'])
  t.deepEqual(f.scheduler.status().queue[0], { class: 'batch', waiting: 0, refused: 1 })
  t.is(f.left(), 0)
})

test('a queue that would change nothing, or that cannot be meant, is refused', (t) => {
  const all = { name: 'all' }
  const bad: [NonNullable<Admission['queue']>, RegExp][] = [
    [{ maxAgeSeconds: 5 }, /maxAgeSeconds: needs an order or a priority/],
    [{ order: 'wspt', classes: [{ ...all, order: 'fcfs' }], maxAgeSeconds: 5 }, /maxAgeSeconds/],
    [{ classes: [all, all] }, /classes\[1\]\.name: must be that of no class before, got "all"/],
    [
      { classes: [{ ...all, maxTokens: 1 }, all] },
      /classes\[1\]\.name: must be that of no class before, got "all"/,
    ],
    [
      { classes: [all, { name: 'more' }] },
      /classes\[0\]: takes every turn, so it must be the last/,
    ],
    [{ classes: [{ name: 'low', maxPriority: -1 }] }, /classes\[0\]: is the last, so it must take/],
    [
      { classes: [{ name: 'none', minPriority: 2, maxPriority: 1 }, all] },
      /classes\[0\]\.minPriority: must be at most maxPriority, got 2/,
    ],
  ]
  for (const [queue, message] of bad) {
    t.throws(() => one({ maxRunning: 1, queue }), { code: 'WARMPATH_CONFIG', message })
  }
  t.throws(() => one({ queue: {} }), { message: /admission\.queue: needs maxRunning or maxSess/ })
})

test('the flood of one tenant holds only itself', async (t) => {
  using f = one({ maxRunning: 1 })
  const running = await f.scheduler.submit(of('x', 'running'))
  const flood = Array.from({ length: 1000 }, (_, n) => ['flood', of('big', `f${n}`)] as const)
  const { gone, turns, next } = submitAll(f, [...flood, ['one', of('small', 'one')]])
  await settled()
  t.is(f.scheduler.status().holds, 1001)
  t.is(f.scheduler.status().waiting.length, 100)
  running.complete({ promptTokens: 10 })
  await settled()
  await next()
  await next()
  t.deepEqual(gone, ['flood', 'one', 'flood'])
  turns.length = 0
  const hold: Hold[] = []
  const late = f.scheduler.submit(of('big', 'late', { onHold: (each) => hold.push(each) }))
  const rest = f.scheduler.submit(of('small', 'two', { onHold: (each) => hold.push(each) }))
  await settled()
  t.deepEqual(
    hold.map((each) => [each.position > 2, each.reason]),
    [
      [true, 'max-running'],
      [false, 'max-running'],
    ],
  )
  f.scheduler.close()
  await t.throwsAsync(late, { code: 'WARMPATH_CLOSED' })
  await t.throwsAsync(rest, { code: 'WARMPATH_CLOSED' })
})

test('weights divide what goes', async (t) => {
  using f = one({ maxRunning: 1, tenantWeights: { a: 3 } })
  const running = await f.scheduler.submit(of('x', 'running'))
  const requests = Array.from({ length: 40 }, (_, n) => [
    ['a', of('a', `a${n}`.padEnd(4))] as const,
    ['b', of('b', `b${n}`.padEnd(4))] as const,
  ]).flat()
  const { gone, next } = submitAll(f, requests)
  await settled()
  running.complete({ promptTokens: 10 })
  await settled()
  for (let n = 0; n < 39; n += 1) await next()
  t.is(gone.filter((name) => name === 'a').length, 30)
})

test('a tenant that is ahead of its share is told so', async (t) => {
  using f = one({ maxRunning: 1 })
  await f.scheduler.submit(of('x', 'running'))
  submitAll(f, [
    ['a1', of('a', 'a1')],
    ['a2', of('a', 'a2')],
    ['b1', of('b', 'b1')],
  ])
  await settled()
  const why = f.scheduler.status().waiting.map((turn) => [turn.session, turn.tenant, turn.why])
  t.deepEqual(why, [
    ['a1', 'a', 'max-running'],
    ['a2', 'a', 'tenant-share'],
    ['b1', 'b', 'max-running'],
  ])
})

test('a higher priority goes first and a negative one really lowers', async (t) => {
  using f = one({ maxRunning: 1 })
  const running = await f.scheduler.submit(chat('running'))
  const { gone, next } = submitAll(f, [
    ['low', { ...chat('low'), priority: -1 }],
    ['ordinary', chat('ordinary')],
    ['high', { ...chat('high'), priority: 5 }],
  ])
  await settled()
  t.like(f.scheduler.status().waiting[0], { priority: -1, place: 3, why: 'priority' })
  running.complete({ promptTokens: 10 })
  await settled()
  await next()
  // Nobody of a higher class waits any more.
  t.like(f.scheduler.status().waiting[0], { priority: -1, place: 1, why: 'max-running' })
  await next()
  t.deepEqual(gone, ['high', 'ordinary', 'low'])
  for (const priority of [101, -101, 0.5, Number.NaN, '1' as never]) {
    await t.throwsAsync(f.scheduler.submit({ ...chat('s'), priority }), {
      code: 'WARMPATH_INVALID_ARGUMENT',
    })
  }
})

test('lower priorities do not starve', async (t) => {
  using f = one({ maxRunning: 1 })
  const running = await f.scheduler.submit(chat('running'))
  const high = Array.from({ length: 30 }, (_, n) => {
    return ['high', { ...chat(`h${n}`), priority: 1 }] as const
  })
  const { gone, next } = submitAll(f, [['low', { ...chat('low'), priority: -3 }], ...high])
  await settled()
  running.complete({ promptTokens: 10 })
  await settled()
  for (let n = 0; n < 8; n += 1) await next()
  t.is(gone.indexOf('low'), 7)
})

test('who leaves while waiting leaves nothing behind, a thousand times', async (t) => {
  using f = one({ maxRunning: 1, maxSessions: 2 })
  const running = await f.scheduler.submit(chat('running'))
  for (let n = 0; n < 1000; n += 1) {
    const abort = new AbortController()
    const wait = f.scheduler.submit({ ...chat(`s${n}`), signal: abort.signal })
    abort.abort()
    await t.throwsAsync(wait, { code: 'WARMPATH_ABORTED' })
  }
  t.like(f.scheduler.status(), { holds: 0, reservations: 1 })
  const next = f.scheduler.submit(chat('next'))
  running.complete({ promptTokens: 10 })
  t.is((await next).worker, 'a')
})

test('a worker that is lost opens nothing and holds nobody', async (t) => {
  using f = fleet({ admission: { maxRunning: 1, maxSessions: 1 } })
  const turns = [await f.scheduler.submit(chat('s1')), await f.scheduler.submit(chat('s2'))]
  const wait = f.scheduler.submit(chat('s3'))
  await settled()
  f.scheduler.removeWorker(turns[0]?.worker ?? '')
  turns[0]?.complete({ promptTokens: 10 })
  await settled()
  t.is(f.scheduler.status().holds, 1)
  f.scheduler.addWorker({ id: 'new', url: 'http://new' })
  t.is((await wait).worker, 'new')
  const left = f.scheduler.submit(chat('s4'))
  await settled()
  for (const { id } of f.scheduler.status().workers) f.scheduler.removeWorker(id)
  await t.throwsAsync(left, { code: 'WARMPATH_NO_WORKER' })
})

test('a session that says how long its tool takes keeps its room for that, and no longer', async (t) => {
  const session = (name: string, extra = {}) => ({ ...crowdedTurn(name), ...extra })
  const full = async (tell: (f: Fleet) => void) => {
    const f = fleet({
      workers: [{ id: 'a', url: 'http://a', capacityTokens: 60_000 }],
      admission: { policy: 'lease' },
    })
    const large = (name: string) => session(name, { hashes: hashes(name, 400) })
    const idle = await f.scheduler.submit(large('idle'))
    idle.firstToken()
    idle.complete({ promptTokens: 25_600, cachedTokens: 0, completionTokens: 1 })
    const running = await f.scheduler.submit(large('running'))
    running.firstToken()
    tell(f)
    const wait = f.scheduler.submit(large('new'))
    await settled()
    const isHeld = f.scheduler.status().holds === 1
    f.scheduler.close()
    await wait.catch(() => undefined)
    return isHeld
  }
  t.true(await full(() => {}), 'its lease runs')
  t.true(await full((f) => f.scheduler.toolStarted('idle', { expectedSeconds: 0.1 })))
  t.false(await full((f) => f.scheduler.toolStarted('idle', { expectedSeconds: 900 })))
  t.false(await full((f) => f.pass(600)), 'its lease has run out')
  t.true(
    await full((f) => {
      f.pass(300)
      f.scheduler.toolEnded('idle')
      f.pass(300)
    }),
    'it comes back at once',
  )
  using f = fleet()
  f.scheduler.toolStarted('nobody')
  f.scheduler.toolEnded({ session: 'nobody', tenant: '' })
  const bad = { code: 'WARMPATH_INVALID_ARGUMENT' }
  t.throws(() => f.scheduler.toolStarted(1 as never), bad)
  t.throws(() => f.scheduler.toolStarted('s', { expectedSeconds: -1 }), bad)
  t.throws(() => f.scheduler.toolEnded('s', null as never), bad)
})

function hashes(name: string, blocks: number): BigUint64Array {
  const seed = BigInt([...name].reduce((sum, letter) => sum * 31 + letter.charCodeAt(0), 7))
  return BigUint64Array.from({ length: blocks }, (_, n) => (seed << 20n) + BigInt(n))
}

test('who waits for what is in the status, and why one has waited in its receipt', async (t) => {
  using f = one({ maxRunning: 1 })
  const first = await f.scheduler.submit(of('x', 'running'))
  t.notRegex(renderStatus(f.scheduler.status()), /waits/)
  const wait = f.scheduler.submit(of('blue', 'held', { priority: 2 }))
  f.pass(1500)
  const page = renderStatus(f.scheduler.status())
  t.regex(page, /waits +tenant +for +place +seconds +expected +priority\n/)
  t.regex(page, /held +blue +max-running +1 +1\.500 +- +2\n/)
  first.complete({ promptTokens: 10 })
  const receipt = f.scheduler.receipt((await wait).receiptId)
  const told = renderReceipt(receipt as NonNullable<typeof receipt>)
  t.regex(told, /held 1\.500 s from place 1 for a worker that runs fewer turns than are allowed/)
  t.regex(told, /\n +a: ran 1 turns of 1 allowed/)
})

test('the status reads at the present time, whatever else has happened', async (t) => {
  let now = 1_700_000_000_000
  using f = one({ maxRunning: 1 }, { clock: () => now })
  const waited = () => f.scheduler.status().waiting.map((turn) => [turn.waitedMs, turn.expectedMs])
  let running = await f.scheduler.submit(of('x', 's0'))
  const waits = [of('x', 's1'), of('x', 's2')].map((request) => f.scheduler.submit(request))
  t.deepEqual(waited(), [
    [0, null],
    [0, null],
  ])
  now += 1500
  t.deepEqual(waited(), [
    [1500, null],
    [1500, null],
  ])
  now += 500
  running.complete({ promptTokens: 10 })
  running = (await waits[0]) as Turn
  t.deepEqual(waited(), [[2000, 2000]])
  now += 700
  t.deepEqual(waited(), [[2700, 1300]])
  now += 5000
  t.deepEqual(waited(), [[7700, 0]])
  now -= 60_000
  t.deepEqual(waited(), [[2000, 2000]], 'a clock that goes back takes nothing away')
  running.complete({ promptTokens: 10 })
  await waits[1]
})

test('gates that cannot be are refused by name', (t) => {
  const refused: [Admission, string][] = [
    [{ maxRunning: 0 }, 'admission.maxRunning'],
    [{ maxSessions: 1.5 }, 'admission.maxSessions'],
    [{ maxSessions: 1, sessionIdleSeconds: 0 }, 'admission.sessionIdleSeconds'],
    [{ sessionIdleSeconds: 30 }, 'admission.sessionIdleSeconds'],
    [{ maxRunning: 1, tenantWeights: { a: 0 } }, 'admission.tenantWeights.a'],
    [{ maxRunning: 1, tenantWeights: { b: 1001 } }, 'admission.tenantWeights.b'],
    [{ maxRunning: 1, tenantWeights: [] as never }, 'admission.tenantWeights'],
    [{ tenantWeights: { a: 3 } }, 'admission.tenantWeights'],
    [{ policy: 'thunderagent', tenantWeights: { a: 3 } }, 'admission.tenantWeights'],
  ]
  for (const [admission, field] of refused) {
    const error = t.throws(() => one(admission), { code: 'WARMPATH_CONFIG' })
    t.is((error as { detail?: { field?: string } }).detail?.field, field)
  }
})
