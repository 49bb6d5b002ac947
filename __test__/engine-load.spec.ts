/** Metrics of engines: what a scheduler learns of them, and what it does when they do not answer. */
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { readMetrics } from '../src/engines/index.js'
import { Scheduler, type SchedulerOptions } from '../src/index.js'
import { type Handler, startWorker } from './support/http-worker.js'
import { chat } from './support/requests.js'

interface Figures {
  running?: number
  waiting?: number
  used?: number
  blocks?: number
}

const vllm =
  ({ running = 0, waiting = 0, used = 0, blocks = 101 }: Figures): Handler =>
  ({ path }, res) => {
    if (path !== '/metrics') return res.writeHead(404).end()
    const labels = `block_size="16",num_gpu_blocks="${blocks}"`
    const lines = [
      `vllm:cache_config_info{${labels}} 1`,
      `vllm:num_requests_running{engine="0"} ${running}`,
      `vllm:num_requests_waiting{engine="0"} ${waiting}`,
      `vllm:kv_cache_usage_perc{engine="0"} ${used}`,
    ]
    return res.end(lines.join('\n'))
  }

function scheduler(url: string, more: Partial<SchedulerOptions> = {}): Scheduler {
  return new Scheduler({
    workers: [{ id: 'a', url: `${url}/v1`, headers: { 'x-key': 'k' } }],
    metrics: { intervalMs: 100, timeoutMs: 100 },
    ...more,
  })
}

const worker = (s: Scheduler) => s.status().workers[0]

async function until(holds: () => unknown): Promise<void> {
  for (let waited = 0; !holds(); waited += 1) {
    if (waited > 500) throw new Error('it never came')
    await sleep(10)
  }
}

test('a capacity that nobody wrote is read, and read again when it has changed', async (t) => {
  const engine = await startWorker(t, vllm({}))
  using s = scheduler(engine.url)
  t.is(worker(s)?.capacityTokens, null)
  await until(() => worker(s)?.capacityTokens === 1600)
  t.is(engine.received[0]?.path, '/metrics')
  t.is(engine.received[0]?.headers['x-key'], 'k')
  t.like(worker(s)?.engine, { engine: 'vllm', capacityTokens: 1600, blockTokens: 16, failures: 0 })
  engine.handler = vllm({ blocks: 51 })
  await until(() => worker(s)?.capacityTokens === 800)
  s.setCapacity('a', 5000)
  const asked = engine.received.length
  await until(() => engine.received.length > asked + 3)
  t.is(worker(s)?.capacityTokens, 5000, 'whoever says it by hand knows better')
  s.setCapacity('a', undefined)
  await until(() => worker(s)?.capacityTokens === 800)
})

test('a capacity that is written stays', async (t) => {
  const engine = await startWorker(t, vllm({}))
  using s = scheduler(engine.url, { workers: [{ id: 'a', url: engine.url, capacityTokens: 7 }] })
  await until(() => engine.received.length > 2)
  t.is(worker(s)?.capacityTokens, 7)
})

test('what an engine does for others counts as load, after it has been seen twice', async (t) => {
  const engine = await startWorker(t, vllm({ running: 3, waiting: 2, used: 0.5 }))
  using s = scheduler(engine.url)
  await using turn = await s.submit(chat('s'))
  await until(() => worker(s)?.untracked.requests)
  const own = worker(s)?.activeTokens ?? 0
  t.deepEqual(worker(s)?.untracked, { requests: 4, tokens: 800 - own })
  const [row] = s.candidates(chat('other'))
  t.is(row?.requests, 5)
  t.is(row?.activeTokens, 800)
  engine.handler = vllm({ running: 1, used: 0.01 })
  await until(() => worker(s)?.untracked.requests === 0)
  t.is(turn.worker, 'a')
})

test('a single answer of another moment is no load', async (t) => {
  let answers = 0
  const engine = await startWorker(t, (req, res) => {
    answers += 1
    return vllm({ running: answers % 2, used: 0.5 })(req, res)
  })
  using s = scheduler(engine.url)
  for (let waited = 0; answers < 6 && waited < 500; waited += 1) {
    t.deepEqual(worker(s)?.untracked, { requests: 0, tokens: 0 })
    await sleep(10)
  }
  t.true(answers >= 6)
})

test('an engine that stops answering does nothing for others, and is asked ever less often', async (t) => {
  const engine = await startWorker(t, vllm({ running: 3, used: 0.5 }))
  using s = scheduler(engine.url)
  await until(() => worker(s)?.untracked.requests === 3)
  engine.handler = () => undefined
  await until(() => worker(s)?.engine?.failures === 2)
  t.deepEqual(worker(s)?.untracked, { requests: 0, tokens: 0 })
  t.is(worker(s)?.engine?.lastError, 'no answer in time')
  t.is(worker(s)?.capacityTokens, 1600)
  const asked = engine.received.length
  await sleep(300)
  t.true(engine.received.length <= asked + 1)
})

test('metrics are found where TensorRT-LLM has them, and what is none is said', async (t) => {
  const engine = await startWorker(t, ({ path }, res) => {
    if (path !== '/prometheus/metrics') return res.writeHead(404).end()
    return res.end('trtllm_kv_cache_max_blocks 10\ntrtllm_kv_cache_tokens_per_block 32\n')
  })
  using s = scheduler(engine.url)
  await until(() => worker(s)?.capacityTokens === 320)
  engine.handler = (_, res) => res.end('<html>')
  await until(() => worker(s)?.engine?.failures)
  t.is(worker(s)?.engine?.lastError, 'no metrics of an engine')
})

test('workers that come are asked and those that go are not, and providers never', async (t) => {
  const engine = await startWorker(t, vllm({}))
  const hosted = await startWorker(t, vllm({}))
  using _hosted = scheduler(engine.url, {
    workers: [{ id: 'h', url: hosted.url }],
    targets: { m: { provider: 'openai', credential: 'key', workers: ['h'] } },
  })
  await sleep(300)
  t.is(hosted.received.length, 0)
  using own = scheduler(engine.url)
  own.addWorker({ id: 'b', url: hosted.url })
  await until(() => hosted.received.length > 0)
  own.removeWorker('b')
  await sleep(250)
  const asked = hosted.received.length
  await sleep(250)
  t.is(hosted.received.length, asked)
})

test('nobody is asked unless it is wanted, and a closed scheduler asks nobody', async (t) => {
  const engine = await startWorker(t, vllm({}))
  using off = scheduler(engine.url, { metrics: false })
  const closed = scheduler(engine.url)
  closed.close()
  await sleep(250)
  t.is(engine.received.length, 0)
  t.false('engine' in (worker(off) ?? {}))
  t.throws(() => scheduler('http://a', { metrics: { intervalMs: 1 } }), {
    message: /^metrics\.intervalMs/,
  })
})

test('figures that cannot be are not believed, and cost nobody but their engine', async (t) => {
  const said =
    (lines: string[]): Handler =>
    (_, res) =>
      res.end(lines.join('\n'))
  const capacity = (value: string) => [
    `sglang:max_total_num_tokens ${value}`,
    'sglang:num_running_reqs 1',
  ]
  const engine = await startWorker(t, said(capacity('1')))
  using s = scheduler(engine.url)
  const told = async (lines: string[]) => {
    engine.handler = said(lines)
    const at = worker(s)?.engine?.at ?? 0
    await until(() => (worker(s)?.engine?.at ?? 0) > at && engine.received.length > 2)
    await sleep(150)
    return worker(s)
  }
  t.is((await told(capacity('12345.678')))?.capacityTokens, 12_345)
  for (const odd of ['Infinity', '1e308', '-7', '0', 'NaN']) {
    t.is((await told(capacity(odd)))?.engine?.capacityTokens, null, odd)
  }
  const percent = await told([...capacity('1000'), 'sglang:token_usage 95'])
  t.is(percent?.engine?.used, null)
  const many = Array.from({ length: 250_000 }, () => 'vllm:kv_cache_usage_perc 0.5')
  t.is((await told(many))?.engine?.used, 0.5)
  const begun = performance.now()
  readMetrics(`vllm:x{${'a'.repeat(100_000)}} 1\n${'x 1\n'.repeat(1_000_000)}`)
  t.true(performance.now() - begun < 2_000)
})

test('a key among the headers goes to its engine, wherever that sends on', async (t) => {
  const elsewhere = await startWorker(t, (_, res) => res.end(''))
  const engine = await startWorker(t, (_, res) => {
    res.writeHead(302, { location: `${elsewhere.url}/metrics` }).end()
  })
  using s = scheduler(engine.url)
  await until(() => engine.received.length > 2)
  t.is(elsewhere.received.length, 0)
  t.regex(worker(s)?.engine?.lastError ?? '', /status 302/)
})
