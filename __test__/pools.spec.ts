/**
 * A store that two engines share, from its master's socket to a decision: libzmq on the one side, messages
 * as a master writes them between, the scheduler on the other.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'

import { diagnosePool, renderPools } from '../src/cli/diagnosis.js'
import { renderStatus } from '../src/cli/render.js'
import {
  type Candidate,
  jsonl,
  type PoolOptions,
  type PoolStatus,
  Scheduler,
  type SchedulerOptions,
} from '../src/index.js'
import { verifyDecisions } from '../src/workload.js'
import { Master } from './support/master.js'
import { Engine } from './support/publisher.js'
import { CHAT } from './support/requests.js'
import { folder } from './support/trace.js'

const BLOCK = 16
const BLOCKS = 8
/** Eight whole blocks and a tail. */
const TOKENS = Uint32Array.from({ length: BLOCKS * BLOCK + 3 }, (_, at) => 1_000 + at)
/** Two ranks, keys and values together, as vLLM writes them. */
const LAYOUT = { tensorParallel: 2 }

/** The whole hash of a block; engines publish its last 8 bytes. */
const digest = (block: number) => createHash('sha256').update(`block ${block}`).digest()
const keysOf = (block: number, model = 'qwen') =>
  [0, 1].map((rank) => {
    const hash = digest(block).toString('hex')
    return `${model}@tp_rank:${rank}@pcp0@dcp0@pp_rank:0@group:0@${hash}`
  })
const pages = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, at) => keysOf(from + at)).flat()

/** An engine's batch: an array, its event an array. */
function batch(event: Buffer): Buffer {
  const time = Buffer.alloc(9)
  time[0] = 0xcb
  time.writeDoubleBE(1_789_095_808.5, 1)
  return Buffer.concat([Buffer.from([0x93]), time, Buffer.from([0x91]), event, Buffer.from([0])])
}

const text = (value: string) =>
  Buffer.concat([Buffer.from([0xa0 | value.length]), Buffer.from(value)])
const named = (block: number) => Buffer.concat([Buffer.from([0xcf]), digest(block).subarray(-8)])
const names = (from: number, to: number) => {
  const all = Array.from({ length: to - from }, (_, at) => named(from + at))
  return Buffer.concat([Buffer.from([0xdc, 0, all.length]), ...all])
}

function stored(from: number, to: number): Buffer {
  const tokens = [...TOKENS.slice(from * BLOCK, to * BLOCK)].map((token) => {
    return Buffer.from([0xcd, token >> 8, token & 0xff])
  })
  const count = Buffer.from([0xdc, tokens.length >> 8, tokens.length & 0xff])
  const parent = from === 0 ? Buffer.from([0xc0]) : named(from - 1)
  const head = Buffer.concat([Buffer.from([0x95]), text('BlockStored'), names(from, to), parent])
  return batch(Buffer.concat([head, count, ...tokens, Buffer.from([BLOCK])]))
}

function removed(from: number, to: number): Buffer {
  return batch(Buffer.concat([Buffer.from([0x92]), text('BlockRemoved'), names(from, to)]))
}

/** An engine, and the messages that it has sent. */
class Told implements AsyncDisposable {
  #sequence = 0
  private constructor(readonly engine: Engine) {}

  static async start(): Promise<Told> {
    return new Told(await Engine.start())
  }

  get kvEvents() {
    return { endpoint: this.engine.events, replay: this.engine.replay }
  }

  async send(payload: Buffer): Promise<number> {
    const sequence = Buffer.alloc(8)
    sequence.writeBigUInt64BE(BigInt(this.#sequence))
    await this.engine.send([Buffer.alloc(0), sequence, payload])
    this.#sequence += 1
    return this.#sequence - 1
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.engine[Symbol.asyncDispose]()
  }
}

/** Two workers of a group, of which the first one's engine tells, and their store. */
class World implements AsyncDisposable {
  private constructor(
    readonly told: Told,
    readonly master: Master,
    readonly scheduler: Scheduler,
    readonly options: (pools: PoolOptions[]) => SchedulerOptions,
  ) {}

  static async open(
    master: Master,
    more: Partial<PoolOptions> = {},
    logger?: SchedulerOptions['logger'],
  ): Promise<World> {
    const told = await Told.start()
    const options = (pools: PoolOptions[]): SchedulerOptions => ({
      workers: [
        { id: 'a', url: 'http://a', kvEvents: told.kvEvents },
        { id: 'b', url: 'http://b' },
      ],
      cache: { blockTokens: BLOCK },
      pools,
      ...(logger && { logger }),
    })
    const pool = { id: 'store', events: master.events, layout: LAYOUT, ...more }
    const world = new World(told, master, new Scheduler(options([pool])), options)
    await world.until(() => world.scheduler.status().workers[0]?.evidence.trust === 'exact')
    return world
  }

  pool(): PoolStatus {
    const [pool] = this.scheduler.status().pools
    if (pool === undefined) throw new Error('no pool')
    return pool
  }

  async until(holds: () => boolean): Promise<void> {
    for (let waited = 0; !holds(); waited += 1) {
      if (waited > 1_500) throw new Error(JSON.stringify(this.scheduler.status(), null, 1))
      await sleep(20)
    }
  }

  async connected(): Promise<void> {
    await this.until(() => this.pool().stream?.connected === true)
    // A subscription takes its way after the connection.
    await sleep(100)
  }

  /** Everything that was sent has been taken in. */
  async heard(): Promise<void> {
    await this.until(() => {
      const { stream } = this.pool()
      return stream?.sequence === this.master.sequence && stream.pending === 0
    })
    this.scheduler.poll()
  }

  async tell(payload: Buffer): Promise<void> {
    const sequence = await this.told.send(payload)
    await this.until(() => {
      const stream = this.scheduler.status().workers[0]?.events?.ranks[0]
      return stream?.sequence === sequence && stream.pending === 0
    })
    this.scheduler.poll()
  }

  row(id: string): Candidate {
    const rows = this.scheduler.candidates({ path: CHAT, tokens: TOKENS })
    const row = rows.find(({ worker }) => worker === id)
    if (row === undefined) throw new Error(`no ${id}`)
    return row
  }

  /** Blocks of the prompt that count at each worker: its own, and those of the store. */
  credit(): [a: [number, number], b: [number, number]] {
    const of = (id: string): [number, number] => {
      const { overlapTokens, hostTokens, diskTokens, poolTokens } = this.row(id)
      return [(overlapTokens + hostTokens + diskTokens) / BLOCK, poolTokens / BLOCK]
    }
    return [of('a'), of('b')]
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.scheduler.close()
    await this.told[Symbol.asyncDispose]()
  }
}

test('whole pages count behind what a worker has, up to a hole, and as long as they are whole', async (t) => {
  await using master = await Master.start()
  await using world = await World.open(master)
  await world.connected()
  t.like(world.pool().evidence, { trust: 'none', doubt: 'silent' })
  await world.tell(stored(0, BLOCKS))
  await master.put(pages(0, 6))
  await world.heard()
  t.deepEqual(world.credit(), [
    [8, 0],
    [0, 6],
  ])
  t.like(world.pool().evidence, { trust: 'exact', doubt: null })
  t.like(world.pool(), { id: 'store', pages: 6, wholePages: 6, unplacedPages: 0, refused: 0 })
  t.like(world.pool().stream, { connected: true, objects: 12, gaps: 0, passedOver: {} })
  await world.tell(removed(2, 5))
  t.deepEqual(world.credit()[0], [2, 4], 'on from where its own ends, and nothing twice')
  const [lost = '', kept = ''] = keysOf(3)
  await master.remove([lost])
  await world.heard()
  t.deepEqual(world.credit(), [
    [2, 1],
    [0, 3],
  ])
  t.like(world.pool(), { pages: 6, wholePages: 5 })
  await master.remove([kept])
  await master.put([kept])
  await world.heard()
  t.deepEqual(world.credit()[1], [0, 3], 'one of two objects is no page')
  await master.put([lost])
  await world.heard()
  t.deepEqual(world.credit(), [
    [2, 4],
    [0, 6],
  ])
  const turn = await world.scheduler.submit({ path: CHAT, tokens: TOKENS })
  const receipt = world.scheduler.receipt(turn.receiptId)
  const chosen = receipt?.candidates.find((row) => row.chosen)
  t.is(receipt?.trust, 'exact')
  const own = (chosen?.overlapTokens ?? 0) + (chosen?.poolTokens ?? 0)
  t.deepEqual([own, turn.predictedCachedTokens], [6 * BLOCK, 6 * BLOCK])
  turn.complete({ promptTokens: TOKENS.length, cachedTokens: 3 * BLOCK })
  t.is(world.pool().promisedTokens, chosen?.poolTokens ?? 0)
  t.is(world.pool().readTokens, 3 * BLOCK - (chosen?.overlapTokens ?? 0))
})

test('pages that nobody has told the content of wait for an engine', async (t) => {
  await using master = await Master.start()
  await using world = await World.open(master)
  await world.connected()
  await master.put(pages(0, 4))
  await world.heard()
  t.like(world.pool(), { wholePages: 4, unplacedPages: 4 })
  t.deepEqual(world.credit()[1], [0, 0])
  await world.tell(stored(0, 3))
  t.deepEqual(world.credit()[1], [0, 3])
  t.is(world.pool().unplacedPages, 1)
})

test('a gap voids what is known before the next decision', async (t) => {
  await using master = await Master.start()
  await using world = await World.open(master)
  await world.connected()
  await world.tell(stored(0, BLOCKS))
  await master.put(pages(0, 6))
  await world.heard()
  t.deepEqual(world.credit()[1], [0, 6])
  await master.remove(keysOf(1), true)
  await master.put(keysOf(0))
  await world.until(() => world.pool().stream?.gaps === 1)
  t.deepEqual(world.credit()[1], [0, 1], 'what was told since')
  t.like(world.pool().evidence, { trust: 'degraded', doubt: 'gap' })
  const turn = await world.scheduler.submit({ path: CHAT, tokens: TOKENS, headers: {} })
  turn.complete()
  await master.raw(Buffer.from('nothing of this kind'))
  await world.until(() => world.pool().stream?.unreadable === 1)
  t.deepEqual(world.credit()[1], [0, 0])
  t.like(world.pool().evidence, { trust: 'degraded', doubt: 'unreadable' })
})

test('an engine that tells of what is not known is in doubt until it is empty', async (t) => {
  await using master = await Master.start()
  await using world = await World.open(master)
  const bare = (kind: string) => batch(Buffer.concat([Buffer.from([0x91]), text(kind)]))
  const evidence = () => world.scheduler.status().workers[0]?.evidence
  const doubted = { trust: 'degraded', doubt: 'unknown-event' }
  await world.tell(stored(0, 6))
  t.is(world.credit()[0][0], 6)
  await world.tell(bare('BlockLent'))
  t.like(evidence(), doubted)
  t.is(world.credit()[0][0], 0, 'which blocks it took nobody knows')
  await world.tell(stored(0, 4))
  await world.tell(bare('BlockLent'))
  t.is(world.credit()[0][0], 4, 'it goes on so')
  t.like(evidence(), doubted)
  const { events } = world.scheduler.status().workers[0] ?? {}
  t.deepEqual(events?.ranks[0]?.passedOver, { 'unknown-event': 2 })
  await world.tell(bare('AllBlocksCleared'))
  await world.tell(stored(0, 5))
  t.like(evidence(), { trust: 'exact', doubt: null })
  t.is(world.credit()[0][0], 5)
  await world.tell(bare('BlockLent'))
  t.like(evidence(), doubted)
})

test('a master that is gone counts for nothing, and one that begins anew for what it tells', async (t) => {
  const first = await Master.start()
  await using world = await World.open(first)
  await world.connected()
  await world.tell(stored(0, BLOCKS))
  await first.put(pages(0, 6))
  await world.heard()
  await first[Symbol.asyncDispose]()
  await world.until(() => world.pool().evidence.doubt === 'disconnected')
  t.deepEqual(world.credit()[1], [0, 0])
  t.is(world.pool().evidence.trust, 'none')
  await using next = await Master.start({ at: first.events })
  await world.connected()
  t.deepEqual(world.credit()[1], [0, 0], 'nothing of before, whoever is there now')
  await next.put(pages(0, 2))
  await world.until(() => world.pool().wholePages === 2)
  t.deepEqual(world.credit()[1], [0, 2])
  t.like(world.pool().evidence, { trust: 'exact', doubt: null })
})

test('another layout, another address or another store is known nothing of, at once', async (t) => {
  await using master = await Master.start()
  await using world = await World.open(master)
  const { scheduler } = world
  await world.connected()
  await world.tell(stored(0, BLOCKS))
  await master.put(pages(0, 6))
  await world.heard()
  const pool = { id: 'store', events: master.events, layout: LAYOUT }
  t.like(scheduler.reconfigure(world.options([{ ...pool, http: master.http }])), {
    poolsAdded: [],
    poolsReplaced: [],
    poolsRemoved: [],
  })
  t.deepEqual(world.credit()[1], [0, 6], 'who is asked is no part of it')
  const one = { ...pool, layout: { tensorParallel: 1 } }
  t.deepEqual(scheduler.reconfigure(world.options([one])).poolsReplaced, ['store'])
  t.deepEqual(world.credit()[1], [0, 0])
  await world.connected()
  await master.put(pages(0, 2))
  await world.heard()
  t.deepEqual(world.credit()[1], [0, 2])
  t.is(world.pool().foreign, 2, 'there is no second rank now')
  t.deepEqual(scheduler.reconfigure(world.options([])).poolsRemoved, ['store'])
  t.deepEqual([world.credit()[1], scheduler.status().pools], [[0, 0], []])
  t.deepEqual(scheduler.reconfigure(world.options([{ ...pool, id: 'other' }])).poolsAdded, [
    'other',
  ])
  await world.connected()
  await master.put(pages(0, 1))
  await world.heard()
  t.deepEqual(world.credit()[1], [0, 1])
})

test('objects of another model are not counted where the space is written, and doubted where not', async (t) => {
  await using master = await Master.start()
  await using world = await World.open(master, { space: 'qwen' })
  await world.connected()
  await world.tell(stored(0, BLOCKS))
  await master.put([...keysOf(0), ...keysOf(1, 'llama'), 'session-42'])
  await world.heard()
  t.deepEqual(world.credit()[1], [0, 1])
  t.deepEqual(world.pool().stream?.passedOver, { 'other-object': 1, 'other-space': 2 })
  await using unnamed = await World.open(master)
  await unnamed.connected()
  await unnamed.tell(stored(0, BLOCKS))
  await master.put([...keysOf(0), ...keysOf(1, 'llama')])
  await unnamed.heard()
  t.deepEqual(unnamed.credit()[1], [0, 0])
  t.like(unnamed.pool().evidence, { trust: 'none', doubt: 'ambiguous' })
})

test('a build without events is known by what its master says, and not waited for', async (t) => {
  await using master = await Master.start({ publishes: false })
  const lines: string[] = []
  const silent = () => {}
  const warn = (fields: object, message: string) => lines.push(JSON.stringify([fields, message]))
  const logger = { debug: silent, info: silent, warn, error: silent }
  await using world = await World.open(master, { http: master.http }, logger)
  await world.until(() => world.pool().evidence.doubt === 'no-events')
  t.like(world.pool(), {
    evidence: { trust: 'none' },
    master: { publishes: false, failures: 0 },
  })
  t.deepEqual(world.credit()[1], [0, 0])
  t.deepEqual([...new Set(master.asked)], ['/kv_events/status'], 'there is nothing else to ask for')
  await world.until(() => master.asked.length > 1)
  t.is(lines.length, 1, 'it is said once')
  t.regex(lines[0] ?? '', /"store".*no events/)
})

test('a master that does not answer is asked less often, and changes nothing', async (t) => {
  await using master = await Master.start()
  master.failing = 503
  await using world = await World.open(master, { http: master.http })
  await world.until(() => world.pool().master?.failures === 1)
  t.like(world.pool().master, { publishes: null, lastError: 'status 503', at: null })
  await world.connected()
  await world.tell(stored(0, BLOCKS))
  await master.put(pages(0, 2))
  await world.heard()
  t.deepEqual(world.credit()[1], [0, 2])
})

test('what is gone without an event is found, and whatever was believed with it', async (t) => {
  await using master = await Master.start()
  await using world = await World.open(master, { http: master.http })
  await world.connected()
  await world.tell(stored(0, BLOCKS))
  await master.put(pages(0, 8))
  await world.heard()
  t.deepEqual(world.credit()[1], [0, 8])
  master.lose([keysOf(6)[0] ?? ''])
  await world.until(() => (world.pool().master?.gone ?? 0) > 0)
  t.deepEqual(world.credit()[1], [0, 6], 'one of many is that one')
  t.like(world.pool().evidence, { trust: 'exact', doubt: null })
  master.lose()
  await world.until(() => world.pool().evidence.doubt === 'stale')
  t.deepEqual(world.credit()[1], [0, 0])
  t.is(world.pool().pages, 0)
  await master.put(pages(0, 3))
  await world.heard()
  t.deepEqual(world.credit()[1], [0, 3])
})

test('status and doctor have a row for each pool, and say what to change', async (t) => {
  await using master = await Master.start()
  await using world = await World.open(master, { pages: 3, http: master.http })
  await world.connected()
  await world.until(() => world.pool().master?.publishes === true)
  await world.tell(stored(0, 2))
  await master.put([...pages(0, 2), ...pages(6, 9)])
  await world.heard()
  const row = diagnosePool(world.pool())
  t.like(row, { pool: 'store', events: 'flowing', publishes: true, objects: 10, trust: 'exact' })
  t.deepEqual(row.advice, ['it has more pages than are remembered: raise `pages`'])
  t.regex(
    renderPools([row]),
    /POOL +EVENTS[\s\S]*store +flowing +1 +exact +10 +3 +3 +1\n\nstore: it has/,
  )
  const shown = renderStatus(world.scheduler.status())
  t.regex(shown, /pool +trust +whole[\s\S]*store +exact +3 +3 +10 +4 +1 +0 +0/)
  const wrong = { ...world.pool(), refused: 0, wholePages: 0, unplacedPages: 0, foreign: 5 }
  t.deepEqual(diagnosePool(wrong).advice, [
    "5 objects are of another layout: compare it with the engines'",
    'none of its pages is whole: compare `layout` with the engines',
  ])
  await using none = await Master.start({ publishes: false })
  await using other = await World.open(none, { http: none.http })
  await other.until(() => other.pool().evidence.doubt === 'no-events')
  const off = diagnosePool(other.pool())
  t.regex(off.advice.join(), /^its master publishes no events: build it with ENABLE_KV_EVENTS/)
  t.regex(renderPools([off]), /store +off +- +none \(no-events\)/)
  t.is(renderPools([]), '')
})

test('stores that come and go are steps of a recording, without their addresses', async (t) => {
  const path = join(folder(t), 'all.jsonl')
  const options = (pools: PoolOptions[]): SchedulerOptions => ({
    workers: [{ id: 'a', url: 'http://a', kvEvents: 'tcp://127.0.0.1:9' }],
    cache: { blockTokens: BLOCK },
    pools,
  })
  const one = { id: 'one', events: 'tcp://127.0.0.1:10' }
  const trace = { sink: jsonl({ path }), receipts: 'full' } as const
  const scheduler = new Scheduler({ ...options([one]), trace })
  const turn = async () => {
    const taken = await scheduler.submit({ path: CHAT, tokens: TOKENS })
    taken.complete({ promptTokens: TOKENS.length })
  }
  await turn()
  scheduler.reconfigure(options([{ ...one, layout: LAYOUT }]))
  await turn()
  scheduler.reconfigure(options([]))
  await turn()
  scheduler.close()
  await scheduler.flush()
  const text = readFileSync(path, 'utf8')
  t.is(text.match(/"do":"add-pool"/g)?.length, 1)
  t.is(text.match(/"do":"remove-pool"/g)?.length, 2)
  t.false(text.includes('127.0.0.1:10'))
  const verified = await verifyDecisions([path])
  t.deepEqual([verified.difference, verified.gaps], [null, []])
  t.is(verified.of, 3)
})

const WORKERS = [{ id: 'a', url: 'http://a', kvEvents: 'tcp://a:1' }]
const POOL = { id: 'store', events: 'tcp://m:5557' }
const refused: [string, Partial<SchedulerOptions>, string][] = [
  ['no list', { pools: {} as PoolOptions[] }, 'pools: must be an array'],
  ['no id', { pools: [{ events: 'tcp://m:1' } as PoolOptions] }, 'pools[0].id: '],
  ['one id twice', { pools: [POOL, POOL] }, 'pools[1].id: ids must be unique'],
  ['two of a group', { pools: [POOL, { ...POOL, id: 'x' }] }, 'pools[1].target: workers share one'],
  [
    'no events',
    { workers: [{ id: 'a', url: 'http://a' }], pools: [POOL] },
    'pools[0].target: needs',
  ],
  ['no such target', { pools: [{ ...POOL, target: 'x' }] }, 'pools[0].target: must be one of'],
  [
    'a port to listen at',
    { pools: [{ ...POOL, events: 'tcp://*:1' }] },
    'pools[0].events: must name',
  ],
  ['no address', { pools: [{ ...POOL, http: 'm:9003' }] }, 'pools[0].http: must be an absolute'],
  [
    'too many objects',
    { pools: [{ ...POOL, layout: { tensorParallel: 64, pipelineParallel: 17 } }] },
    'pools[0].layout: must come to at most 1024 objects',
  ],
  [
    'copies of no rank',
    { pools: [{ ...POOL, layout: { tensorParallel: 8, copies: 3 } }] },
    'pools[0].layout.copies: must divide',
  ],
]
for (const [what, options, message] of refused) {
  test(`a pool that cannot be is refused with its field: ${what}`, (t) => {
    const error = t.throws(() => Scheduler.check({ workers: WORKERS, ...options }), {
      code: 'WARMPATH_CONFIG',
    })
    t.true(error?.message.startsWith(message), error?.message)
  })
}

test('a pool belongs to the workers of its target', (t) => {
  const workers = [...WORKERS, { id: 'b', url: 'http://b', kvEvents: 'tcp://b:1' }]
  const targets = { one: { workers: ['a'] }, two: { workers: ['b'] } }
  const pools = [{ ...POOL, target: 'two' }]
  t.deepEqual(Scheduler.check({ workers, targets, pools }), { workers: 2, targets: 2 })
  t.throws(() => Scheduler.check({ workers, targets, pools: [POOL] }), {
    message: /^pools\[0\]\.target: must name a target/,
  })
})
