/** A gateway that goes over to other workers: all of what changed, or nothing. */
import test, { type ExecutionContext } from 'ava'
import { Scheduler, type SchedulerOptions } from '../src/index.js'
import { openGateway, until } from './gateway-support.js'
import { send } from './support/http-client.js'
import { answering, type Handler, json, startWorker } from './support/http-worker.js'
import { chat } from './support/requests.js'
import { API } from './support/wire-apis.js'

type Workers = NonNullable<SchedulerOptions['workers']>

const worker = (id: string, more: object = {}): Workers[number] => ({
  id,
  url: `http://${id}.invalid`,
  ...more,
})

const model = (name: string, workers: string[], more: object = {}) => ({
  [name]: { workers, ...more },
})

async function opened(t: ExecutionContext, scheduler: SchedulerOptions) {
  const gateway = await openGateway(t, { scheduler })
  const reload = (next: SchedulerOptions) => gateway.reload({ scheduler: next })
  const status = () => gateway.scheduler.status().workers
  return { scheduler: gateway.scheduler, reload, status }
}

test('capacity and headers change where they are, while turns run and with what is cached', async (t) => {
  const sized = (capacityTokens: number | undefined) => ({
    workers: [worker('a', capacityTokens === undefined ? {} : { capacityTokens })],
  })
  const { scheduler, reload, status } = await opened(t, sized(100_000))
  const long = chat('s', 'long '.repeat(2_000))
  const turn = await scheduler.submit(long)
  t.is(reload(sized(200_000)), '0 workers came, 0 leave; 1 have changed')
  t.like(status(), [{ id: 'a', capacityTokens: 200_000, health: 'up', inFlight: 1 }])
  turn.complete()
  const again = await scheduler.submit(long)
  t.true(again.predictedCachedTokens > 1_000)
  reload(sized(undefined))
  again.complete()
  t.is(status()[0]?.capacityTokens, null)
  t.is(reload(sized(64)), '0 workers came, 0 leave; 1 have changed')
  const small = await scheduler.submit(long)
  t.true(small.predictedCachedTokens <= 64)
  small.complete()
})

test('all workers get other addresses at once: new turns go there, those that run end, holds wait on', async (t) => {
  const at = (port: number, capacityTokens = 2_000): SchedulerOptions => ({
    workers: ['a', 'b'].map((id) => ({
      id,
      url: `http://127.0.0.1:${port}`,
      capacityTokens,
      kvEvents: { endpoint: `tcp://127.0.0.1:${port + (id === 'a' ? 1 : 2)}` },
    })),
    admission: { policy: 'thunderagent' },
  })
  const { scheduler, reload, status } = await opened(t, at(1_000))
  const long = (session: string) => chat(session, 'long '.repeat(1_200))
  const running = [await scheduler.submit(long('s')), await scheduler.submit(long('t'))]
  let held = false
  const waiting = scheduler.submit({ ...long('u'), onHold: () => (held = true) })
  t.is(reload(at(2_000, 1_000_000)), '0 workers came, 0 leave; 2 are replaced')
  t.true(held)
  t.deepEqual(
    status().map(({ id, health, inFlight }) => [id, health, inFlight]),
    [
      ['a', 'up', 0],
      ['b', 'up', 0],
    ],
  )
  const next = await scheduler.submit(long('s'))
  t.true(next.url.startsWith('http://127.0.0.1:2000/'))
  t.is(next.predictedCachedTokens, 0)
  for (const turn of [...running, next]) turn.complete()
  const late = await waiting
  t.true(late.url.startsWith('http://127.0.0.1:2000/'))
  late.complete()
  t.is(reload(at(2_000, 1_000_000)), '0 workers came, 0 leave')
})

test('a worker that was about to leave stays when it is configured again', async (t) => {
  const both = { workers: [worker('a'), worker('b')] }
  const { scheduler, reload, status } = await opened(t, both)
  const turn = await scheduler.submit(chat('s', 'long '.repeat(2_000)))
  const [name, other] = turn.worker === 'a' ? ['a', 'b'] : ['b', 'a']
  reload({ workers: [worker(other)] })
  t.is(status().find(({ id }) => id === name)?.health, 'draining')
  t.is(reload(both), '1 workers came, 0 leave')
  t.is(status().find(({ id }) => id === name)?.health, 'up')
  turn.complete()
  const again = await scheduler.submit(chat('s', 'long '.repeat(2_000)))
  t.is(again.worker, name)
  t.true(again.predictedCachedTokens > 1_000)
  again.complete()
  await new Promise((resolve) => setTimeout(resolve, 600))
  t.is(status().length, 2)
})

test('setCapacity refuses what is no capacity and who is no worker', async (t) => {
  const { scheduler, status } = await opened(t, { workers: [worker('a')] })
  scheduler.setCapacity('a', 5_000)
  t.is(status()[0]?.capacityTokens, 5_000)
  for (const tokens of [0, -1, 1.5, Number.NaN, 2 ** 60]) {
    t.throws(() => scheduler.setCapacity('a', tokens), { code: 'WARMPATH_INVALID_ARGUMENT' })
  }
  t.throws(() => scheduler.setCapacity('b', 1), { code: 'WARMPATH_UNKNOWN_ID' })
  scheduler.setCapacity('a', undefined)
  t.is(status()[0]?.capacityTokens, null)
})

test('a worker that comes or changes has all of its options', async (t) => {
  const { scheduler, reload, status } = await opened(t, { workers: [worker('a')] })
  const kvEvents = (port: number) => ({ endpoint: `tcp://127.0.0.1:${port}`, ranks: 2 })
  const headers = { 'x-key': 'k' }
  reload({
    workers: [
      worker('a', { kvEvents: kvEvents(1) }),
      worker('b', { kvEvents: kvEvents(3), headers }),
    ],
  })
  await until(t, 'both are listened to', () => {
    return status().every(({ events }) => events?.ranks.length === 2)
  })
  reload({ workers: [worker('b', { kvEvents: kvEvents(3), headers })] })
  t.is(scheduler.destination().headers()['x-key'], 'k')
})

test('what cannot be done as a whole is refused, and nothing has changed', async (t) => {
  const workers = [worker('a'), worker('b')]
  const apart = { one: { workers: ['a'] }, two: { workers: ['b'] } }
  const { scheduler, reload, status } = await opened(t, { workers, targets: apart })
  const code = 'WARMPATH_CONFIG'
  const ids = () => status().map(({ id }) => id)

  const together = { one: { workers: ['a', 'b'] }, two: { workers: ['a', 'b'] } }
  t.throws(() => reload({ workers, targets: together }), { code, message: /scheduler\.targets/ })
  scheduler.addWorker({ ...worker('c'), targets: ['one'] })
  const grown = { one: { workers: ['a', 'd', 'c'] }, two: { workers: ['b'] } }
  const all = [...workers, worker('d'), worker('c')]
  t.throws(() => reload({ workers: all, targets: grown }), { code, message: /"c" is known/ })
  t.deepEqual(ids(), ['a', 'b', 'c'])

  scheduler.removeWorker('c')
  t.is(reload({ workers: all, targets: grown }), '2 workers came, 0 leave')
  t.deepEqual(ids(), ['a', 'b', 'd', 'c'])
})

const TWO: SchedulerOptions = {
  workers: [worker('a'), worker('b')],
  targets: { ...model('one', ['a']), ...model('two', ['b']) },
  aliases: { auto: ['one', 'two'] },
}

test('targets and aliases come and go, with workers of their own, of others, or hosted', async (t) => {
  const { scheduler, reload } = await opened(t, TWO)
  const session = await scheduler.submit(chat('s', 'hello', { model: 'auto' }))
  t.is(session.target, 'one')
  session.complete()
  const hosted = { provider: 'anthropic', credential: 'a-key' }
  t.is(
    reload({
      workers: [worker('a'), worker('b'), worker('c')],
      targets: {
        ...TWO.targets,
        ...model('again', ['a']),
        ...model('three', ['c']),
        claude: hosted,
      },
      aliases: { auto: ['three', 'one'], other: ['again', 'claude'] },
    }),
    '2 workers came, 0 leave; targets added: again, three, claude',
  )
  const [again, three] = [
    await scheduler.submit(chat('t', 'hello', { model: 'again' })),
    await scheduler.submit(chat('u', 'hello', { model: 'auto' })),
  ]
  t.deepEqual([again.worker, three.worker, three.target], ['a', 'c', 'three'])
  // Its binding is older than the new order of preference.
  const bound = await scheduler.submit(chat('s', 'hello', { model: 'auto' }))
  t.is(bound.target, 'one')
  for (const turn of [again, three, bound]) turn.complete()
  t.deepEqual(scheduler.models().slice(0, 2), ['auto', 'other'])

  t.is(
    reload({
      workers: [worker('c')],
      targets: model('three', ['c']),
      aliases: { auto: ['three'] },
    }),
    '0 workers came, 3 leave; targets removed: one, two, again, claude',
  )
  const status = scheduler.status()
  t.deepEqual([status.targets, status.workers.map(({ id }) => id)], [['three'], ['c']])
  t.is(status.sessions, 3)
  const rebound = await scheduler.submit(chat('s', 'hello', { model: 'auto' }))
  t.is(rebound.target, 'three')
  rebound.complete()
  await t.throwsAsync(scheduler.submit(chat('s', 'hello', { model: 'two' })), {
    code: 'WARMPATH_UNKNOWN_MODEL',
  })
  t.is(scheduler.receipt(bound.receiptId)?.target, 'one')
})

test('a target that goes keeps the turns that it has, and its name comes back as another one', async (t) => {
  const { scheduler, reload, status } = await opened(t, TWO)
  const running = await scheduler.submit(chat('s', 'hello', { model: 'two' }))
  const one = { workers: [worker('a')], targets: model('one', ['a']) }
  reload(one)
  t.deepEqual(
    status().map(({ id, health }) => [id, health]),
    [
      ['a', 'up'],
      ['b', 'draining'],
    ],
  )
  t.is(running.target, 'two')
  t.is(
    reload({ ...TWO, aliases: {} }),
    '0 workers came, 0 leave; 1 are replaced; targets added: two',
  )
  running.complete({ promptTokens: 10, completionTokens: 1 })
  const back = await scheduler.submit(chat('s', 'hello', { model: 'two' }))
  t.is(back.worker, 'b')
  back.complete()
})

test('credential, price and headers change where they are: caches and sessions stay', async (t) => {
  const hosted = (credential: string, input: number): SchedulerOptions => ({
    workers: [worker('a', { headers: { 'x-key': credential } })],
    targets: {
      own: { workers: ['a'], credential },
      claude: { provider: 'anthropic', credential, price: { input, output: 2 } },
    },
    continuity: { policy: 'lookahead' },
    aliases: { auto: ['own', 'claude'] },
  })
  const { scheduler, reload } = await opened(t, hosted('first', 1))
  const turn = await scheduler.submit(chat('s', 'hello', { model: 'own' }))
  turn.complete()
  const before = scheduler.status()
  t.is(
    reload(hosted('second', 5)),
    '0 workers came, 0 leave; 1 have changed; targets changed: own, claude',
  )
  t.deepEqual(scheduler.status().workers, before.workers)
  const after = await scheduler.submit(chat('s', 'hello', { model: 'own' }))
  t.is(after.init.headers.authorization, 'Bearer second')
  t.is(after.init.headers['x-key'], 'second')
  after.complete()
  const messages = { ...chat('n', 'hello', { model: 'auto', max_tokens: 9 }), path: '/v1/messages' }
  const asked = await scheduler.submit(messages)
  const rows = asked.receipt()?.model?.rows ?? []
  t.is(rows.find(({ target }) => target === 'claude')?.price?.input, 5)
  asked.complete()
})

const REFUSED: [what: string, change: Partial<SchedulerOptions>, field: string][] = [
  [
    'a model',
    { targets: { ...TWO.targets, ...model('one', ['a'], { model: 'x' }) } },
    'targets.one.model',
  ],
  [
    'a provider',
    { targets: { ...TWO.targets, ...model('one', ['a'], { provider: 'x' }) } },
    'targets.one.provider',
  ],
  [
    'a cache',
    { targets: { ...TWO.targets, ...model('one', ['a'], { cache: { ttlSeconds: 9 } }) } },
    'targets.one.cache',
  ],
  [
    'targets put together',
    { targets: { ...model('one', ['a', 'b']), ...model('two', ['a', 'b']) } },
    'targets.two.workers',
  ],
  ['admission', { admission: { policy: 'lease' } }, 'admission'],
  ['a seed', { seed: 3 }, 'seed'],
  ['the size of a block', { cache: { blockTokens: 16 } }, 'cache'],
  ['a policy', { continuity: { policy: 'sticky' } }, 'continuity.policy'],
  ['headers that pass', { forward: { headers: ['x-a'] } }, 'forward'],
]

test('what only another process can have is refused by its name, and nothing has changed', async (t) => {
  const { scheduler, reload } = await opened(t, TWO)
  const before = scheduler.status()
  for (const [what, change, field] of REFUSED) {
    const error = t.throws(() => reload({ ...TWO, ...change }), { code: 'WARMPATH_CONFIG' }, what)
    t.true(error?.message.startsWith(`scheduler.${field} has changed`), error?.message)
  }
  t.deepEqual(scheduler.status(), before)
  t.is(reload(TWO), '0 workers came, 0 leave')
})

test('targets that shared their workers are not taken apart', async (t) => {
  const workers = [worker('a'), worker('b')]
  const together = { ...model('one', ['a', 'b']), ...model('two', ['a', 'b']) }
  const { reload } = await opened(t, { workers, targets: together })
  t.throws(() => reload({ workers, targets: TWO.targets ?? {} }), {
    message: /targets\.two\.workers/,
  })
})

test('a worker that somebody has taken away or added meanwhile is as the configuration says', async (t) => {
  const both = { workers: [worker('a'), worker('b')] }
  const { scheduler, reload, status } = await opened(t, both)
  scheduler.removeWorker('a')
  t.is(reload(both), '1 workers came, 0 leave')
  scheduler.removeWorker('b')
  scheduler.addWorker(worker('b', { capacityTokens: 7_000 }))
  t.is(reload({ workers: [worker('a')] }), '0 workers came, 1 leave')
  t.deepEqual(
    status().map(({ id }) => id),
    ['a'],
  )
})

test('a scheduler of its own goes over to other options too; a shared or closed one does not', async (t) => {
  using scheduler = new Scheduler({ workers: [worker('a')] })
  t.deepEqual(scheduler.reconfigure({ workers: [worker('b')] }), {
    workersAdded: ['b'],
    poolsAdded: [],
    poolsReplaced: [],
    poolsRemoved: [],
    workersReplaced: [],
    workersLeaving: ['a'],
    workersChanged: [],
    targetsAdded: [],
    targetsRemoved: [],
    targetsChanged: [],
  })
  t.deepEqual(
    scheduler.status().workers.map(({ id }) => id),
    ['b'],
  )
  using shared = Scheduler.shared('reconfigured', { workers: [worker('a')] })
  t.throws(() => shared.reconfigure({ workers: [worker('b')] }), { code: 'WARMPATH_CONFIG' })
  scheduler.close()
  t.throws(() => scheduler.reconfigure({ workers: [worker('b')] }), { code: 'WARMPATH_CLOSED' })
})

test('a target that joins others shares the cache of those with its model and credential only', async (t) => {
  const both = (names: [string, object][]): SchedulerOptions => ({
    workers: [worker('a')],
    targets: Object.fromEntries(names.map(([name, more]) => [name, { workers: ['a'], ...more }])),
  })
  const [x, y] = [{ model: 'x' }, { model: 'y' }]
  const { scheduler, reload } = await opened(t, both([['one', x]]))
  const cached = async (name: string, session: string) => {
    const turn = await scheduler.submit(chat(session, 'long '.repeat(2_000), { model: name }))
    turn.complete()
    return turn.predictedCachedTokens > 0
  }
  t.false(await cached('one', 's'))
  reload(
    both([
      ['one', x],
      ['twin', x],
      ['other', y],
    ]),
  )
  t.deepEqual([await cached('twin', 't'), await cached('other', 'u')], [true, false])
  // The one that had the group's own cache has gone: it is nobody else's.
  reload(
    both([
      ['other', y],
      ['late', y],
      ['strange', { model: 'z' }],
    ]),
  )
  t.deepEqual([await cached('late', 'v'), await cached('strange', 'w')], [true, false])
  t.true(await cached('other', 'u'))
})

test('a target whose cache would become one of each tenant is refused', async (t) => {
  const hosted = (credential: string): SchedulerOptions => ({
    targets: { claude: { provider: 'anthropic', credential } },
  })
  const { reload } = await opened(t, hosted('a-key'))
  t.throws(() => reload(hosted('pass-through')), {
    message: /^scheduler\.targets\.claude\.credential/,
  })
  t.is(reload(hosted('another-key')), '0 workers came, 0 leave; targets changed: claude')
})

test('a credential that was refused is not held against the next one', async (t) => {
  const strict: Handler = (req, res) => {
    if (req.headers.authorization === 'Bearer new') answering()(req, res)
    else json(res, 401, { error: 'no' })
  }
  const [a, b] = [await startWorker(t, strict), await startWorker(t, answering())]
  const workers = [
    { id: 'a', url: a.url },
    { id: 'b', url: b.url },
  ]
  const config = (credential: string) => ({
    workers,
    targets: { ...model('one', ['a'], { credential }), ...model('two', ['b']) },
    aliases: { auto: ['one', 'two'] },
  })
  const gateway = await openGateway(t, { scheduler: config('old') })
  const { path, request } = API['openai-chat']
  const ask = async () => {
    const answer = await send(gateway.url + path, { body: { ...request, model: 'auto' } })
    return answer.headers['x-warmpath-worker']
  }
  t.is(await ask(), 'b')
  const health = () => gateway.scheduler.status().workers.map((worker) => worker.health)
  t.deepEqual(health(), ['limited', 'up'])
  t.regex(gateway.reload({ scheduler: config('new') }), /targets changed: one/)
  t.deepEqual(health(), ['up', 'up'])
})

test('where the gateway listens cannot change, and is not needed again', async (t) => {
  const scheduler = { workers: [worker('a')] }
  const gateway = await openGateway(t, { scheduler, host: '127.0.0.1' })
  t.is(gateway.reload({ scheduler, host: '127.0.0.1', port: 0 }), '0 workers came, 0 leave')
  for (const [change, message] of [
    [{ host: '::1' }, /^host has changed, which needs a new process/],
    [{ port: 9_999 }, /^port has changed/],
    [{ health: { intervalMs: 77 } }, /^health\.intervalMs has changed/],
  ] as const) {
    t.throws(() => gateway.reload({ scheduler, ...change }), { code: 'WARMPATH_CONFIG', message })
  }
})

test('a worker that was down is up at its new address, and what the old one does says nothing of it', async (t) => {
  const release: (() => void)[] = []
  const old = await startWorker(t, (_, res) => {
    release.push(() => res.destroy())
  })
  const [down, fresh] = ['http://127.0.0.1:9', await startWorker(t, answering())]
  const at = (url: string) => ({ workers: [{ id: 'a', url }] })
  const config = (url: string) => ({ scheduler: at(url), health: { intervalMs: 50 } })
  const gateway = await openGateway(t, config(old.url))
  const { path, request } = API['openai-chat']
  const ask = () => send(gateway.url + path, { body: request })
  const health = () => gateway.scheduler.status().workers[0]?.health
  const broken = ask()
  await until(t, 'the old one has it', () => release.length > 0)
  gateway.reload(config(down))
  t.is((await ask()).status, 502)
  t.is(health(), 'down')
  gateway.reload(config(fresh.url))
  t.is(health(), 'up')
  t.is((await ask()).status, 200)
  for (const each of release) each()
  // It had not begun to answer: the turn goes on at the new one.
  t.is((await broken).status, 200)
  await new Promise((resolve) => setTimeout(resolve, 200))
  t.deepEqual([health(), (await ask()).status], ['up', 200])
})
