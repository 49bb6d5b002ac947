/**
 * Engines' events from a publisher's socket to a decision: libzmq on the one side, recorded messages of
 * real engines between, the scheduler on the other.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { gunzipSync } from 'node:zlib'
import test from 'ava'
import { Publisher } from 'zeromq'

import { Scheduler, type SchedulerOptions, type WorkerStatus } from '../src/index.js'
import { Engine, type Message } from './support/publisher.js'
import { CHAT } from './support/requests.js'

function recorded(name: string): Message[] {
  const file = join(__dirname, 'fixtures/engine-captures', `${name}.jsonl.gz`)
  const lines = gunzipSync(readFileSync(file)).toString().trimEnd().split('\n')
  return lines.map((line) => {
    const { frames } = JSON.parse(line) as { frames: string[] }
    return frames.map((frame) => Buffer.from(frame, 'hex'))
  })
}

const BLOCK = 32
/** The prompt that the recorded engine was sent first has so many whole blocks, and a tail. */
const tokensOf = (seed: number) => Uint32Array.from({ length: 10 * BLOCK }, (_, at) => seed + at)

function scheduler(workers: SchedulerOptions['workers']): Scheduler {
  return new Scheduler({ workers: workers ?? [], cache: { blockTokens: BLOCK } })
}

function worker(of: Scheduler, id = 'a'): WorkerStatus {
  const found = of.status().workers.find((each) => each.id === id)
  if (found === undefined) throw new Error(`no worker ${id}`)
  return found
}

async function until(of: Scheduler, holds: () => boolean): Promise<void> {
  for (let waited = 0; !holds(); waited += 1) {
    if (waited > 600) throw new Error(JSON.stringify(of.status().workers))
    await sleep(20)
  }
}

const isAt = (of: Scheduler, sequence: number, id = 'a') => {
  const stream = worker(of, id).events?.ranks[0]
  return stream?.sequence === sequence && stream.pending === 0
}

/** Token ids of the first store of a recorded stream, read by hand from its MessagePack. */
function firstTokens(message: Message): Uint32Array {
  const payload = message.at(-1) ?? Buffer.alloc(0)
  const label = Buffer.from('token_ids')
  let at = payload.indexOf(label) + label.length
  const marker = payload[at] ?? 0
  const count = marker === 0xdc ? payload.readUInt16BE(at + 1) : marker & 0x0f
  at += marker === 0xdc ? 3 : 1
  const tokens = new Uint32Array(count)
  for (let index = 0; index < count; index += 1) {
    const form = payload[at] ?? 0
    if (form === 0xcd) {
      tokens[index] = payload.readUInt16BE(at + 1)
      at += 3
    } else if (form === 0xcc) {
      tokens[index] = payload[at + 1] ?? 0
      at += 2
    } else {
      tokens[index] = form
      at += 1
    }
  }
  return tokens
}

const ask = (tokens: Uint32Array) => ({ path: CHAT, tokens })

test('what an engine stores is counted to the block, from its socket on', async (t) => {
  const messages = recorded('vllm-0.32.0-map-live')
  await using engine = await Engine.start()
  const kvEvents = { endpoint: engine.events, replay: engine.replay }
  using s = scheduler([
    { id: 'a', url: 'http://a', kvEvents },
    { id: 'b', url: 'http://b' },
  ])
  t.deepEqual(worker(s).evidence, { trust: 'predicted', doubt: 'silent', cause: null, since: 0 })
  t.is(worker(s, 'b').events, null)
  for (const message of messages.slice(0, 3)) await engine.send(message)
  await until(s, () => isAt(s, 2))
  const tokens = firstTokens(messages[0] ?? [])
  const whole = Math.floor((tokens.length - 1) / BLOCK) * BLOCK
  t.true(whole >= 8 * BLOCK)
  const turn = await s.submit(ask(tokens))
  t.is(turn.worker, 'a')
  t.is(turn.predictedCachedTokens, whole)
  const receipt = s.receipt(turn.receiptId)
  t.is(receipt?.trust, 'exact')
  t.like(receipt?.evidence, { trust: 'exact', doubt: null })
  turn.complete({ promptTokens: tokens.length, cachedTokens: whole })
  t.is(worker(s).events?.blockTokens, BLOCK)
})

test('messages that are lost on the way are fetched, and nothing counts until then', async (t) => {
  const messages = recorded('vllm-0.32.0-map-live')
  await using engine = await Engine.start()
  const kvEvents = { endpoint: engine.events, replay: engine.replay }
  using s = scheduler([{ id: 'a', url: 'http://a', kvEvents }])
  await until(s, () => worker(s).evidence.trust === 'exact')
  for (const [at, message] of messages.slice(0, 30).entries()) {
    await engine.send(message, at % 7 === 3)
  }
  await until(s, () => isAt(s, 29))
  const { evidence, events } = worker(s)
  t.like(evidence, { trust: 'exact', doubt: null })
  t.true((events?.ranks[0]?.gaps ?? 0) > 0)
  t.is(s.status().anomalies.unknownParent, 0)
})

test('an engine that is gone counts for nothing, and one that begins anew for what it tells', async (t) => {
  const messages = recorded('vllm-0.32.0-map-live')
  const tokens = firstTokens(messages[0] ?? [])
  const engine = await Engine.start()
  const { events: endpoint, replay } = engine
  using s = scheduler([{ id: 'a', url: 'http://a', kvEvents: { endpoint, replay } }])
  const cached = () => s.peek(ask(tokens))?.overlapTokens
  for (const message of messages.slice(0, 3)) await engine.send(message)
  await until(s, () => isAt(s, 2))
  t.true((cached() ?? 0) > 0)
  await engine[Symbol.asyncDispose]()
  await until(s, () => worker(s).evidence.doubt === 'disconnected')
  t.is(cached(), 0)
  await using next = await Engine.start([endpoint, replay])
  await next.send(messages[0] ?? [])
  await until(s, () => worker(s).evidence.trust === 'exact' && isAt(s, 0))
  t.true((cached() ?? 0) > 0)
  t.is(worker(s).events?.ranks[0]?.restarts, 1)
})

test('a reset that the gateway asked for does not wait for the engine', async (t) => {
  const messages = recorded('vllm-0.32.0-map-live')
  const tokens = firstTokens(messages[0] ?? [])
  await using engine = await Engine.start()
  using s = scheduler([{ id: 'a', url: 'http://a', kvEvents: engine.events }])
  for (const message of messages.slice(0, 3)) await engine.send(message)
  await sleep(50)
  await until(s, () => worker(s).events?.ranks[0]?.connected === true)
  for (const message of messages.slice(3, 8)) await engine.send(message)
  await until(s, () => isAt(s, 7))
  s.resetCache('a')
  t.is(s.peek(ask(tokens))?.overlapTokens, 0)
  t.like(worker(s).evidence, { trust: 'degraded', doubt: 'reset' })
  t.throws(() => s.resetCache('nobody'), { code: 'WARMPATH_UNKNOWN_ID' })
})

/** A publisher a rank, at ports in a row. */
async function ranksOf(ranks: number): Promise<{ base: number; publishers: Publisher[] }> {
  for (let base = 21_000 + (process.pid % 10_000); ; base += 100) {
    const publishers = Array.from({ length: ranks }, () => new Publisher())
    try {
      for (const [rank, publisher] of publishers.entries()) {
        await publisher.bind(`tcp://127.0.0.1:${base + rank}`)
      }
      return { base, publishers }
    } catch (error) {
      for (const publisher of publishers) publisher.close()
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE' || base > 60_000) throw error
    }
  }
}

test('each rank is listened to at its port, and a turn asks for the one that has its prompt', async (t) => {
  const { base, publishers } = await ranksOf(2)
  const kvEvents = { endpoint: `tcp://127.0.0.1:${base}`, ranks: 2 }
  using s = scheduler([{ id: 'a', url: 'http://a', kvEvents }])
  const streams = () => worker(s).events?.ranks ?? []
  await until(s, () => streams().length === 2 && streams().every((rank) => rank.connected))
  await sleep(100)
  const messages = [0, 1].map((rank) => recorded(`vllm-0.32.0-dp2-rank${rank}-live`))
  for (const [rank, publisher] of publishers.entries()) {
    for (const message of messages[rank] ?? []) await publisher.send([...message])
  }
  const last = messages.map((stream) => stream.length - 1)
  await until(s, () => streams().every(({ rank, sequence }) => sequence === last[rank]))
  const tokens = firstTokens(messages[1]?.[0] ?? [])
  const turn = await s.submit(ask(tokens))
  const asked = turn.init.headers['x-data-parallel-rank']
  t.is(asked, String(turn.rank))
  t.true(turn.predictedCachedTokens > 0)
  turn.complete()
  const unknown = await s.submit(ask(tokensOf(900_000)))
  t.is(unknown.init.headers['x-data-parallel-rank'], undefined)
  unknown.complete()
  for (const publisher of publishers) publisher.close()
})

test('an engine whose blocks are of another size is said to be', async (t) => {
  await using engine = await Engine.start()
  const kvEvents = { endpoint: engine.events, replay: engine.replay }
  using s = new Scheduler({ workers: [{ id: 'a', url: 'http://a', kvEvents }] })
  for (const message of recorded('vllm-0.32.0-map-live').slice(0, 12)) await engine.send(message)
  await until(s, () => isAt(s, 11))
  t.like(worker(s).evidence, { trust: 'predicted', doubt: 'block-size' })
  t.is(worker(s).events?.blockTokens, BLOCK)
})

test('a worker that leaves is not listened to any more', async (t) => {
  await using engine = await Engine.start()
  using s = scheduler([{ id: 'b', url: 'http://b' }])
  s.addWorker({ id: 'a', url: 'http://a', kvEvents: engine.events })
  await until(s, () => worker(s).events?.ranks[0]?.connected === true)
  s.removeWorker('a')
  s.addWorker({ id: 'a', url: 'http://a' })
  t.is(worker(s).events, null)
  const code = 'WARMPATH_CONFIG'
  const add = (kvEvents: unknown) => () => {
    s.addWorker({ id: 'c', url: 'http://c', kvEvents: kvEvents as string })
  }
  for (const bad of ['', 'ftp://a:1', 'tcp://a', 'tcp://a:0', 'tcp://a:70000', 'tcp://a b:1', 7]) {
    t.throws(add(bad), { code, message: /^worker\.kvEvents: must be / })
  }
  t.throws(add({ endpoint: 'tcp://a:65535', ranks: 2 }), { code, message: /no port left/ })
  t.throws(add({ endpoint: 'tcp://a:1', ranks: 65 }), { code, message: /ranks: must be a whole/ })
  t.throws(add({ endpoint: 'tcp://a:1', replay: 'x' }), { code, message: /replay: must be tcp/ })
  t.throws(add({ endpoint: 'tcp://a:1', topic: 5 }), { code, message: /topic: must be a string/ })
})

test('a replay socket that cannot be one is refused', (t) => {
  using s = scheduler([{ id: 'b', url: 'http://b' }])
  const code = 'WARMPATH_CONFIG'
  const add = (endpoint: string, replay: string, ranks = 1) => {
    s.addWorker({ id: 'c', url: 'http://c', kvEvents: { endpoint, replay, ranks } })
    s.removeWorker('c')
  }
  for (const host of ['*', '0.0.0.0', '[::]']) {
    t.throws(() => add('tcp://a:5557', `tcp://${host}:5558`), {
      code,
      message: /^worker\.kvEvents\.replay: must name a host/,
    })
  }
  for (const [endpoint, replay, ranks] of [
    ['tcp://a:5557', 'tcp://a:5557', 1],
    ['tcp://a:5557', 'tcp://A:5557', 1],
    ['tcp://a:5557', 'tcp://a:5558', 2],
    ['tcp://a:5558', 'tcp://a:5557', 2],
  ] as const) {
    t.throws(() => add(endpoint, replay, ranks), {
      code,
      message: /^worker\.kvEvents\.replay: must have other ports than the ranks of `endpoint`/,
    })
  }
  t.notThrows(() => add('tcp://a:5557', 'tcp://a:5558'))
  t.notThrows(() => add('tcp://a:5557', 'tcp://a:5559', 2))
  t.notThrows(() => add('tcp://a:5557', 'tcp://b:5557', 2))
  t.notThrows(() => add('tcp://*:5557', 'tcp://a:5557'))
})

test('two workers cannot be listened to at one port', (t) => {
  const both = (one: string, other: string, ranks = 1) => {
    const at = (id: string, endpoint: string) => ({
      id,
      url: `http://${id}`,
      kvEvents: { endpoint, ranks },
    })
    scheduler([at('a', one), at('b', other)]).close()
  }
  const refused = { code: 'WARMPATH_CONFIG', message: /^workers\[1\]\.kvEvents: .*worker "a"/ }
  t.throws(() => both('tcp://*:5557', 'tcp://*:5557'), refused)
  t.throws(() => both('tcp://*:5557', 'tcp://[::]:5557'), refused)
  t.throws(() => both('tcp://*:5557', 'tcp://0.0.0.0:5558', 2), refused)
  t.notThrows(() => both('tcp://127.0.0.1:5557', 'tcp://127.0.0.1:5557'))
})
