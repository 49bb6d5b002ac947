/** Events that an engine hands out over HTTP, from TensorRT-LLM's own form to a decision. */
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { Scheduler, type SchedulerOptions } from '../src/index.js'
import { json, startWorker } from './support/http-worker.js'
import { CHAT } from './support/requests.js'

const BLOCK = 4
const TOKENS = Uint32Array.from({ length: 4 * BLOCK + 1 }, (_, at) => at)

/** Stores the blocks of `TOKENS` from one to another. */
const stored = (id: number, from: number, to: number) => ({
  event_id: id,
  window_size: 100,
  data: {
    type: 'stored',
    parent_hash: from === 0 ? null : from,
    blocks: Array.from({ length: to - from }, (_, at) => ({
      type: 'stored_block',
      block_hash: from + at + 1,
      tokens: [...TOKENS.subarray((from + at) * BLOCK, (from + at + 1) * BLOCK)].map((token_id) => {
        return { type: 'unique_token', token_id, token_extra_id: 0 }
      }),
      cache_level: 0,
      priority: 35,
    })),
  },
})

const removed = (id: number, ...block_hashes: number[]) => ({
  event_id: id,
  window_size: 100,
  data: { type: 'removed', block_hashes },
})

async function until(what: string, holds: () => unknown): Promise<void> {
  for (let waited = 0; !holds(); waited += 1) {
    if (waited > 1_000) throw new Error(`never: ${what}`)
    await sleep(10)
  }
}

/** An engine that hands out each list once. */
async function engine(t: Parameters<typeof startWorker>[0]) {
  const lists: unknown[][] = []
  const worker = await startWorker(t, ({ method, path }, res) => {
    if (method !== 'POST' || path !== '/kv_cache_events') return res.writeHead(404).end()
    return json(res, 200, lists.shift() ?? [])
  })
  const options: SchedulerOptions = {
    cache: { blockTokens: BLOCK },
    workers: [
      {
        id: 'a',
        url: worker.url,
        kvEvents: `${worker.url}/kv_cache_events`,
        headers: { 'x-k': 'v' },
      },
    ],
  }
  return { lists, worker, options }
}

const cached = (s: Scheduler) => s.candidates({ path: CHAT, tokens: TOKENS })[0]?.overlapTokens
const first = (s: Scheduler) => s.status().workers[0]

test('what TensorRT-LLM hands out is counted to the block', async (t) => {
  const { lists, worker, options } = await engine(t)
  lists.push([stored(0, 0, 2), stored(1, 2, 4)])
  using s = new Scheduler(options)
  t.is(cached(s), 0)
  await until('all blocks', () => cached(s) === 4 * BLOCK)
  t.is(first(s)?.evidence.trust, 'exact')
  t.is(worker.received[0]?.headers['x-k'], 'v')
  lists.push([removed(2, 4)])
  await until('one less', () => cached(s) === 3 * BLOCK)
  lists.push([removed(5, 3)])
  await until('a gap', () => first(s)?.evidence.doubt === 'gap')
  t.is(cached(s), 0)
  t.like(first(s)?.events?.ranks[0], { sequence: 5, gaps: 1, connected: true, messages: 3 })
})

test('an engine that is gone counts for nothing, and one that comes back is known anew', async (t) => {
  const { lists, worker, options } = await engine(t)
  lists.push([stored(0, 0, 4)])
  using s = new Scheduler(options)
  await until('all blocks', () => cached(s) === 4 * BLOCK)
  const { handler } = worker
  worker.handler = (_, res) => res.destroy()
  await until('no trust', () => first(s)?.evidence.trust === 'none')
  t.is(cached(s), 0)
  t.is(first(s)?.events?.ranks[0]?.connected, false)
  worker.handler = handler
  lists.push([stored(0, 0, 1)])
  await until('its first block', () => cached(s) === BLOCK)
  t.is(first(s)?.evidence.trust, 'exact')
})

test('workers that come are asked, and nobody is asked any more after the end', async (t) => {
  const { lists, worker, options } = await engine(t)
  const s = new Scheduler({ cache: { blockTokens: BLOCK }, workers: [{ url: 'http://other' }] })
  const [added] = options.workers ?? []
  if (added === undefined) return t.fail()
  s.addWorker(added)
  lists.push([stored(0, 0, 4)])
  await until('its blocks', () => s.status().workers[1]?.events?.cachedTokens === 4 * BLOCK)
  s.removeWorker('a')
  await sleep(300)
  const asked = worker.received.length
  await sleep(500)
  t.is(worker.received.length, asked)
  s.close()
  const again = new Scheduler(options)
  again.close()
  await sleep(100)
  t.is(worker.received.length, asked)
})

test('addresses that cannot be are refused, and so is a scheduler that many threads would ask for', (t) => {
  const open = (kvEvents: unknown) =>
    new Scheduler({ workers: [{ url: 'http://a', kvEvents: kvEvents as string }] })
  for (const [kvEvents, message] of [
    ['http://', /^workers\[0\]\.kvEvents: must be an http:\/\/ address/],
    ['http://user:pass@host/x', /must be an http:\/\/ address/],
    [{ endpoint: 'http://host/x', ranks: 2 }, /^workers\[0\]\.kvEvents\.ranks: needs a tcp/],
    [{ endpoint: 'http://host/x', replay: 'tcp://host:1' }, /replay: needs a tcp/],
  ] as const) {
    t.throws(() => open(kvEvents), { code: 'WARMPATH_CONFIG', message })
  }
  const options = { workers: [{ url: 'http://a', kvEvents: 'http://a/kv_cache_events' }] }
  t.throws(() => Scheduler.shared('pulled', options), { message: /not shared/ })
})
