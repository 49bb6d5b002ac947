/**
 * Workers that fail, through the gateway: who waits, who goes elsewhere, who stays there.
 *
 * The engine doubles take only tool results and response ids that they have issued themselves, so a
 * switch in the middle of a loop shows as a request that they refuse.
 */
import test, { type ExecutionContext } from 'ava'
import type { PriceOptions, SchedulerOptions } from '../src/index.js'
import type { Fault } from '../src/testing/index.js'
import { at, CLIENTS, type Client, type Json, parseSse } from './engine-double-client.js'
import { type Gateway, openGateway, startDouble, until } from './gateway-support.js'
import { send } from './support/http-client.js'
import { json, startWorker } from './support/http-worker.js'
import { API } from './support/wire-apis.js'

const NAMES = ['small', 'large'] as const
type Name = (typeof NAMES)[number]

interface FleetOptions {
  readonly continuity?: SchedulerOptions['continuity']
  readonly graceMs?: number
  readonly credential?: string
  readonly prices?: Readonly<Record<Name, PriceOptions>>
  readonly faults?: (session: string, turn: number) => Fault | undefined
}

const PRICES = {
  small: { input: 1, cached: 0.1, output: 4 },
  large: { input: 10, cached: 1, output: 50 },
}

/** Two models behind one name, each with a worker of its own. */
async function fleet(t: ExecutionContext, options: FleetOptions = {}) {
  const { continuity = { policy: 'bound' }, graceMs, credential, faults, prices = PRICES } = options
  const doubles = await Promise.all(
    NAMES.map((id) =>
      startDouble(t, {
        id,
        model: `model-${id}`,
        speed: 500,
        ...(faults && {
          faults: (headers) => faults(String(headers['x-session-id']), Number(headers['x-turn'])),
        }),
      }),
    ),
  )
  const target = (name: Name) => ({
    model: `model-${name}`,
    workers: [name],
    grade: name,
    price: prices[name],
    ...(credential !== undefined && { credential }),
  })
  const gateway = await openGateway(t, {
    scheduler: {
      workers: doubles.map(({ url }, n) => ({ id: NAMES[n] ?? '', url })),
      targets: { small: target('small'), large: target('large') },
      aliases: { auto: [...NAMES] },
      forward: {
        headers: ['x-double-tool', 'x-double-output-tokens', 'x-session-id', 'x-turn'],
      },
      continuity,
    },
    health: { intervalMs: 50 },
    ...(graceMs !== undefined && { retry: { graceMs } }),
  })
  const [small, large] = doubles
  if (small === undefined || large === undefined) throw new Error('two doubles were started')
  return { gateway, small, large, doubles }
}

/** One conversation; `say` sends its next turn. */
class Session {
  #body: Json | undefined
  #turn = 0

  constructor(
    readonly gateway: Gateway,
    readonly id: string,
    readonly client: Client,
    readonly stream = false,
  ) {}

  async say(more: { calls?: boolean; base?: Name } = {}) {
    const { client, gateway, stream } = this
    this.#body ??= client.first(`Tell me of ${this.id}. ${'It goes on. '.repeat(120)}`, {
      model: 'auto',
      stream,
    })
    const answer = await send(gateway.url + client.path, {
      headers: {
        'x-session-id': this.id,
        'x-turn': String(this.#turn),
        'x-double-output-tokens': '8',
        ...(more.calls && { 'x-double-tool': 'ls {"path":"."}' }),
        ...(more.base && { 'x-warmpath-base': more.base }),
      },
      body: this.#body,
    })
    const target = String(answer.headers['x-warmpath-target'])
    if (answer.status === 200) {
      const spoken = stream
        ? client.heard(parseSse(answer.body))
        : client.spoken(JSON.parse(answer.body))
      this.#body = client.next(this.#body, spoken, 'And then?')
      this.#turn += 1
      return { status: 200, target, calls: spoken.calls.length, answer }
    }
    return { status: answer.status, target, calls: 0, answer }
  }
}

/** What a task does: two loops of tools, and plain turns around them. */
const TASK = [false, true, true, false, true, false, false]

test('32 sessions are hit by a 503 in the middle of a loop: 32 go on with the same owner to their end', async (t) => {
  const hit = new Set<string>()
  // Each session once at one of its results; which one differs.
  const inLoop = [2, 3, 5]
  const faults = (session: string, turn: number): Fault | undefined => {
    if (hit.has(session) || turn !== inLoop[Number(session.slice(1)) % 3]) return undefined
    hit.add(session)
    return '503'
  }
  const { gateway, doubles } = await fleet(t, { faults, continuity: { policy: 'single-turn' } })
  const ends = await Promise.all(
    Array.from({ length: 32 }, async (_, n) => {
      const client = CLIENTS[n % CLIENTS.length] as Client
      const session = new Session(gateway, `s${n}`, client, n % 2 === 0)
      let owner: string | undefined
      let done = 0
      for (const [turn, calls] of TASK.entries()) {
        const base = NAMES[(n + turn) % 2] ?? 'small'
        const said = await session.say({ calls, base })
        if (said.status !== 200) break
        if (owner !== undefined) t.is(said.target, owner, `${session.id} at ${turn}`)
        else t.is(said.target, base)
        owner = calls ? said.target : undefined
        t.is(said.calls, calls ? 1 : 0)
        done += 1
      }
      return done === TASK.length
    }),
  )
  t.is(ends.filter(Boolean).length, 32)
  t.is(hit.size, 32)
  const status = doubles.map((double) => double.status())
  t.is(
    status.reduce((sum, { faults }) => sum + faults['503'], 0),
    32,
  )
  t.deepEqual(
    status.map(({ foreign, refused }) => [foreign, refused]),
    [
      [0, 0],
      [0, 0],
    ],
  )
})

test('a response that an account keeps: after a 503 the same account answers', async (t) => {
  const { gateway, small, doubles } = await fleet(t, { continuity: { policy: 'single-turn' } })
  const ask = (more: Json, base: Name) =>
    send(`${gateway.url}/v1/responses`, {
      headers: { 'x-session-id': 'r', 'x-warmpath-base': base },
      body: { model: 'auto', input: 'Go on.', ...more },
    })
  let id = String(at(JSON.parse((await ask({}, 'small')).body), 'id'))
  for (let turn = 0; turn < 8; turn += 1) {
    small.fail('503', 1)
    const answer = await ask({ previous_response_id: id }, 'large')
    t.is(answer.status, 200, answer.body)
    t.is(answer.headers['x-warmpath-target'], 'small')
    id = String(at(JSON.parse(answer.body), 'id'))
  }
  t.is(small.status().faults['503'], 8)
  t.deepEqual(
    doubles.map((double) => double.status().foreign),
    [0, 0],
  )
})

for (const client of CLIENTS) {
  test(`${client.name}: what the setting says happens when an owner does not come back`, async (t) => {
    for (const [toolLoop, status, target] of [
      ['wait', 503, 'small'],
      ['fail', 503, 'small'],
      // The double knows the call of another one for what it is.
      ['strip', 400, 'large'],
      ['escape', 400, 'large'],
    ] as const) {
      const continuity = { policy: 'bound', ownerDown: { toolLoop, waitSeconds: 0.4 } } as const
      const { gateway, small, large } = await fleet(t, { continuity })
      const session = new Session(gateway, 's', client)
      await session.say({ calls: true })
      small.fail('503', 1_000)
      const { answer } = await session.say()
      t.is(answer.status, status, answer.body)
      t.is(answer.headers['x-warmpath-target'], target)
      const reason = { wait: 'tool-loop', fail: 'tool-loop', strip: 'stripped', escape: 'escaped' }
      t.is(answer.headers['x-warmpath-reason'], reason[toolLoop])
      t.is(large.status().requests, status === 400 ? 1 : 0, 'never a silent switch')
      if (status !== 503) continue
      t.is(answer.headers['retry-after'], '5')
      t.regex(answer.body, /WARMPATH_OWNER_UNAVAILABLE/)
      t.is(typeof client.error(JSON.parse(answer.body)), 'string')
      const asked = small.status().faults['503']
      t.is(asked > 1, toolLoop === 'wait', `${toolLoop}: asked ${asked} times`)
    }
  })

  test(`${client.name}: an owner that is away is waited for, and one that is gone is another error`, async (t) => {
    const { gateway, small } = await fleet(t)
    const session = new Session(gateway, 's', client)
    t.is((await session.say({ calls: true })).target, 'small')
    gateway.scheduler.setHealth('small', 'down')
    const waiting = session.say({ calls: true })
    await until(t, 'the turn waits', () => gateway.scheduler.status().holds === 1)
    gateway.scheduler.setHealth('small', 'up')
    const back = await waiting
    t.deepEqual([back.status, back.target], [200, 'small'])
    gateway.scheduler.setHealth('small', 'down')
    const lost = session.say()
    await until(t, 'the turn waits', () => gateway.scheduler.status().holds === 1)
    gateway.scheduler.removeWorker('small')
    for (const { answer } of [await lost, await session.say()]) {
      t.is(answer.status, 409, answer.body)
      t.regex(answer.body, /WARMPATH_STATE_LOST/)
      t.is(answer.headers['retry-after'], undefined)
    }
    t.is(small.status().foreign, 0)
  })
}

/** A session that lives on the first target, and where its turns go after that has failed once. */
async function after(t: ExecutionContext, fault: Fault, retryAfter?: string) {
  const { gateway, small } = await fleet(t, { graceMs: 500, credential: 'sk-ours' })
  const [client] = CLIENTS
  const session = new Session(gateway, 's', client as Client)
  const targets = [(await session.say()).target]
  small.fail(fault, 1, retryAfter === undefined ? {} : { retryAfter })
  const struck = await session.say()
  t.is(struck.status, 200, struck.answer.body)
  targets.push(struck.target)
  const told = ['continuity', 'reason'].map((name) => struck.answer.headers[`x-warmpath-${name}`])
  const health = () => gateway.scheduler.status().workers.find(({ id }) => id === 'small')?.health
  const marked = health()
  if (marked === 'limited' && fault === '429') {
    await until(t, 'the quota is over', () => health() === 'up')
  } else if (marked === 'limited') gateway.scheduler.setHealth('small', 'up')
  targets.push((await session.say()).target)
  const fresh = await new Session(gateway, 'new', client as Client).say()
  return { targets, told, marked, fresh: fresh.target, requests: small.status().requests }
}

for (const [name, fault, retryAfter, marked, third] of [
  ['an outage', '503', undefined, 'up', 'small'],
  ['an outage with a time', '503', '2', 'up', 'small'],
  ['a 429 without a time', '429', undefined, 'up', 'small'],
  ['a 429 for a moment', '429', '0.4', 'up', 'small'],
  ['a 429 for longer', '429', '1', 'limited', 'large'],
  ['a credential that is refused', '401', undefined, 'limited', 'large'],
] as const) {
  test(`${name}: ${third === 'small' ? 'a detour' : 'the session moves and is not stolen back'}`, async (t) => {
    const found = await after(t, fault, retryAfter)
    t.deepEqual(found.targets, ['small', 'large', third])
    t.is(found.marked, marked)
    const expected = third === 'small' ? ['stay', 'detour'] : ['switch', 'moved']
    t.deepEqual(found.told, expected)
    t.is(found.fresh, 'small', 'who is new takes what is first')
  })
}

test('a 429 with a time is obeyed by everybody until then, and a date is read too', async (t) => {
  const { gateway, small } = await fleet(t, { graceMs: 100 })
  const [client] = CLIENTS
  small.fail('429', 1, { retryAfter: new Date(Date.now() + 60_000).toUTCString() })
  t.is((await new Session(gateway, 'a', client as Client).say()).target, 'large')
  t.is((await new Session(gateway, 'b', client as Client).say()).target, 'large')
  t.is(small.status().requests, 1)
})

test('a refusal of our credential is no word of the client`s, and tells how long it lasts', async (t) => {
  const secret = 'Incorrect API key provided: sk-ours'
  const worker = await startWorker(t, (_, res) => json(res, 401, { error: { message: secret } }))
  const gateway = await openGateway(t, {
    scheduler: {
      workers: [
        { id: 'a', url: worker.url },
        { id: 'b', url: worker.url },
      ],
      targets: {
        one: { workers: ['a'], credential: 'sk-ours' },
        two: { workers: ['b'], credential: 'sk-ours' },
      },
      aliases: { auto: ['one', 'two'] },
    },
  })
  const { path, request } = API['openai-chat']
  const ask = (model: string) => send(gateway.url + path, { body: { ...request, model } })
  const first = await ask('auto')
  t.is(first.status, 502)
  t.false(first.body.includes('sk-ours'))
  t.regex(first.body, /target \\"two\\" refuses the gateway's credential \(401\)/)
  const limited = await ask('one')
  t.is(limited.status, 503)
  t.true(Number(limited.headers['retry-after']) > 50)
})

test('a refusal of the credential that the client has sent is the client`s', async (t) => {
  const { gateway, small, large } = await fleet(t, { credential: 'pass-through' })
  const [client] = CLIENTS
  small.fail('401', 1)
  t.is((await new Session(gateway, 'a', client as Client).say()).status, 401)
  t.is(large.status().requests, 0)
})

test('the quota of a client that brings its own credential is nobody else`s', async (t) => {
  const { gateway, small } = await fleet(t, { graceMs: 100, credential: 'pass-through' })
  const [client] = CLIENTS
  small.fail('429', 1, { retryAfter: '60' })
  t.is((await new Session(gateway, 'a', client as Client).say()).target, 'large')
  t.is((await new Session(gateway, 'b', client as Client).say()).target, 'small')
})

test('a locked turn outlasts a busy moment and passes a quota on', async (t) => {
  const { gateway, small, large } = await fleet(t, { graceMs: 500 })
  const [client] = CLIENTS
  const session = new Session(gateway, 's', client as Client)
  await session.say({ calls: true })
  small.fail('429', 3)
  t.deepEqual((({ status, target }) => [status, target])(await session.say({ calls: true })), [
    200,
    'small',
  ])
  small.fail('429', 1, { retryAfter: '120' })
  const { answer } = await session.say()
  t.deepEqual([answer.status, answer.headers['retry-after']], [429, '120'])
  t.is(large.status().requests, 0)
})

for (const [name, prices, expected] of [
  [
    'a little cheaper does not steal a warm session',
    {
      small: { input: 1, cached: 0.1, output: 4 },
      large: { input: 1.01, cached: 0.101, output: 4.04 },
    },
    'large',
  ],
  ['far cheaper gets it back, even cold', PRICES, 'small'],
] as const) {
  test(`a target that is up again: ${name}`, async (t) => {
    const continuity = { policy: 'lookahead', lambda: 0 } as const
    const { gateway, small } = await fleet(t, { graceMs: 200, continuity, prices })
    const session = new Session(gateway, 's', CLIENTS[0] as Client)
    small.fail('429', 1, { retryAfter: '1' })
    t.is((await session.say()).target, 'large')
    const isUp = () => gateway.scheduler.status().workers.every(({ health }) => health === 'up')
    await until(t, 'all are up', isUp)
    t.is((await session.say()).target, expected)
  })
}
