/** `warmpath doctor` and what it reads: recorded metrics of engines, then engines that answer. */
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import test, { type ExecutionContext } from 'ava'
import { diagnose, renderDiagnosis } from '../src/cli/diagnosis.js'
import { readMetrics } from '../src/engines/index.js'
import { Scheduler } from '../src/index.js'
import { startWorker } from './support/http-worker.js'

function recorded(version: string): string {
  const name = `vllm-${version}-http-metrics.txt.gz`
  return gunzipSync(readFileSync(join(__dirname, 'fixtures/engine-captures', name))).toString()
}

test('the recorded metrics of vLLM are read: one block of a hundred holds nothing', (t) => {
  for (const version of ['0.23.0', '0.32.0']) {
    t.deepEqual(
      readMetrics(recorded(version)),
      {
        engine: 'vllm',
        running: 0,
        waiting: 0,
        used: 0,
        capacityTokens: 99 * 32,
        blockTokens: 32,
        prefixCaching: true,
      },
      version,
    )
  }
})

test('ranks are summed, and what other engines call the same is known', (t) => {
  const ranks = [
    'vllm:num_requests_running{engine="0"} 3',
    'vllm:num_requests_running{engine="1"} 4.0',
    'vllm:gpu_cache_usage_perc{engine="0"} 0.25',
    'vllm:gpu_cache_usage_perc{engine="1"} 0.75',
    'vllm:cache_config_info{block_size="16",num_gpu_blocks="11",engine="0"} 1',
    'vllm:cache_config_info{block_size="16",num_gpu_blocks="21",engine="1"} 1',
    'vllm:odd{label="a \\" } 5',
    'no sample',
  ]
  const two = { engine: 'vllm', running: 7, used: 0.75, capacityTokens: 480, blockTokens: 16 }
  t.deepEqual<unknown, unknown>(readMetrics(ranks.join('\n')), two)
  const early = 'vllm:cache_config_info{block_size="None",num_gpu_blocks="None"} 1.0'
  t.deepEqual(readMetrics(early), { engine: 'vllm' })
  const sglang = [
    'sglang:num_running_reqs{dp_rank="0"} 2',
    'sglang:num_queue_reqs 5',
    'sglang:token_usage 0.5',
    'sglang:max_total_num_tokens 4096',
    'sglang:page_size 64',
  ]
  const its = { engine: 'sglang', running: 2, waiting: 5, used: 0.5 }
  const sized = { ...its, capacityTokens: 4096, blockTokens: 64 }
  t.deepEqual<unknown, unknown>(readMetrics(sglang.join('\n')), sized)
  const tensorrt = 'trtllm_kv_cache_max_blocks 10\ntrtllm_kv_cache_tokens_per_block 32\n'
  const third = { engine: 'tensorrt-llm', capacityTokens: 320, blockTokens: 32 }
  t.deepEqual(readMetrics(tensorrt), third as ReturnType<typeof readMetrics>)
  t.is(readMetrics('process_cpu_seconds_total 5\n'), undefined)
})

test('what is wrong is said with what to change', (t) => {
  using scheduler = new Scheduler({
    workers: [
      { id: 'a', url: 'http://a', capacityTokens: 100, kvEvents: 'tcp://127.0.0.1:1' },
      { id: 'b', url: 'http://b' },
    ],
  })
  const [a, b] = scheduler.status().workers
  if (a === undefined || b === undefined) return t.fail()
  const metrics = { engine: 'vllm', capacityTokens: 3168, blockTokens: 32, prefixCaching: false }
  const found = { worker: a, health: 'ECONNREFUSED', metrics: { ...metrics, engine: 'vllm' } }
  const row = diagnose({ ...(found as Parameters<typeof diagnose>[0]), blockTokens: 64 })
  t.deepEqual(row.advice, [
    'it does not answer: ECONNREFUSED',
    'set its capacityTokens to 3168',
    'turn prefix caching on in the engine',
    'set cache.blockTokens to 32',
    `rank 0 has no events: ${a.events?.ranks[0]?.lastError ?? 'no connection yet'}`,
  ])
  const healthy = diagnose({ worker: b, health: 'ok', blockTokens: 64 })
  t.deepEqual([healthy.advice, healthy.events], [[], 'none'])
  t.regex(
    renderDiagnosis([healthy]),
    /^WORKER +HEALTH[^\n]*\nb +ok [\s\S]*\n\nnothing to change\n$/,
  )
  const late = { trust: 'degraded', doubt: 'joined-late', cause: null, since: 0 } as const
  const told = diagnose({
    worker: { ...b, evidence: late, events: a.events },
    health: 'ok',
    blockTokens: 64,
  })
  t.regex(told.advice.at(-1) ?? '', /replay endpoint/)
  for (const [replay, doubt, words] of [
    ['lacks', 'gap', /replay endpoint/],
    ['has', 'joined-late', /longer buffer/],
    ['has', 'gap', /longer buffer/],
    ['never', 'joined-late', /start the engine anew/],
    ['never', 'gap', /event_buffer_max_size/],
    ['never', 'unreadable', /report it/],
    ['has', 'unknown-event', /not known here: report it/],
  ] as const) {
    const worker = { ...b, evidence: { ...late, doubt }, events: a.events }
    const { advice } = diagnose({ worker, health: 'ok', blockTokens: 64, replay })
    t.regex(advice.at(-1) ?? '', words, `${replay} ${doubt}`)
  }
  for (const [cause, words] of [
    ['bos', /33 here, 34 there.*beginning of sequence/],
    ['tools', /tokenise the tools/],
    ['template', /chat template/],
    ['salt', /cache_salt/],
    ['key-order', /keys keep their order/],
    ['tokens', /vocabulary/],
  ] as const) {
    const disagreement = { cause, ours: 33, theirs: 34, since: 0 }
    const events = a.events && { ...a.events, ranks: [], disagreement }
    const { advice } = diagnose({ worker: { ...b, events }, health: 'ok', blockTokens: 64 })
    t.is(advice.length, 1)
    t.regex(advice[0] ?? '', words)
  }
})

const COMMAND = join(__dirname, '../src/cli/doctor.mts')
const SCRIPT = `
  import { doctorCommand } from ${JSON.stringify(COMMAND)}
  await doctorCommand().parseAsync(process.argv.slice(1), { from: 'user' })`

function doctor(t: ExecutionContext, config: string, ...more: string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'warmpath-doctor-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'config.yaml')
  writeFileSync(file, config)
  const args = ['--import=tsx', '--input-type=module', '--eval', SCRIPT, '--']
  args.push('--config', file, '--wait', '0', '--json', ...more)
  return new Promise<{ code: unknown; out: string }>((resolve) => {
    execFile(process.execPath, args, (error, out) => resolve({ code: error?.code ?? 0, out }))
  })
}

test('the command asks, says, and ends by what it found', async (t) => {
  const worker = await startWorker(t, (_request, response) => response.end(recorded('0.32.0')))
  const run = (capacityTokens: number) => {
    const workers = [{ id: 'a', url: `${worker.url}/v1`, capacityTokens }]
    return doctor(t, JSON.stringify({ scheduler: { workers } }))
  }
  const right = await run(3168)
  t.is(right.code, 0)
  t.like(JSON.parse(right.out).workers[0], {
    worker: 'a',
    health: 'ok',
    engine: 'vllm',
    advice: [],
  })
  const wrong = await run(5)
  t.is(wrong.code, 1)
  t.deepEqual(JSON.parse(wrong.out).workers[0].advice, ['set its capacityTokens to 3168'])
})

test('why a worker does not answer is said as the system says it', async (t) => {
  const worker = await startWorker(t, (_request, response) => response.end())
  await worker.close()
  const refused = `{ id: refused, url: '${worker.url}' }`
  const barred = "{ id: barred, url: 'http://127.0.0.1:1' }"
  const { code, out } = await doctor(t, `scheduler: { workers: [${refused}, ${barred}] }`)
  t.is(code, 1)
  const rows: { worker: string; health: string }[] = JSON.parse(out).workers
  t.deepEqual(
    rows.map(({ worker, health }) => [worker, health]),
    [
      ['refused', 'ECONNREFUSED'],
      ['barred', 'bad port'],
    ],
  )
})

test('an engine is asked with the headers of its turns, and for its health where a gateway asks', async (t) => {
  const worker = await startWorker(t, ({ path, headers }, response) => {
    const isKnown = path === '/ready' || path === '/metrics'
    response.writeHead(headers.authorization !== 'Bearer k' ? 401 : isKnown ? 200 : 500)
    response.end(path === '/metrics' ? recorded('0.32.0') : '')
  })
  const run = (headers: object) =>
    doctor(
      t,
      JSON.stringify({
        health: { path: '/ready' },
        scheduler: {
          workers: [{ id: 'a', url: `${worker.url}/v1`, headers, capacityTokens: 3168 }],
        },
      }),
    )
  const right = await run({ authorization: 'Bearer k' })
  t.is(right.code, 0)
  t.like(JSON.parse(right.out).workers[0], { health: 'ok', engine: 'vllm' })
  const wrong = await run({})
  t.is(wrong.code, 1)
  t.deepEqual(JSON.parse(wrong.out).workers[0].advice, ['it does not answer: status 401'])
})

test('TensorRT-LLM has its metrics elsewhere, and its events are left to a gateway', async (t) => {
  const worker = await startWorker(t, ({ path }, response) => {
    if (path === '/kv_cache_events') return response.end('[]')
    if (path !== '/health' && path !== '/prometheus/metrics') response.writeHead(404)
    response.end(path.endsWith('/metrics') ? 'trtllm_num_requests_running 3\n' : '')
  })
  const events = () => worker.received.filter(({ path }) => path === '/kv_cache_events').length
  const config = JSON.stringify({
    scheduler: {
      workers: [{ id: 'a', url: worker.url, kvEvents: `${worker.url}/kv_cache_events` }],
    },
  })
  const left = await doctor(t, config, '--wait', '0.3', '--probe')
  const row = JSON.parse(left.out).workers[0]
  t.like(row, { engine: 'tensorrt-llm', running: 3, events: 'not asked', probe: null, advice: [] })
  t.deepEqual([left.code, events()], [0, 0])
  t.regex(
    renderDiagnosis([row]),
    /not asked for events: a, which hands them out once; --take-events/,
  )
  const taken = await doctor(t, config, '--wait', '0.3', '--take-events')
  t.not(JSON.parse(taken.out).workers[0].events, 'not asked')
  t.true(events() > 0)
})

test('a probe says of each worker what it cannot use', async (t) => {
  const modelless = 'what it answers at /v1/models names no model'
  const cases: [string | undefined, string | undefined, RegExp][] = [
    ['<html>', '', new RegExp(modelless)],
    ['null', '', new RegExp(modelless)],
    ['{"data":{}}', '', new RegExp(modelless)],
    ['{"data":[{"id":5}]}', '', new RegExp(modelless)],
    [undefined, '', /it names no model at \/v1\/models: status 404/],
    ['{"data":[{"id":"m"}]}', '<html>', /its answer is no JSON/],
    ['{"data":[{"id":"m"}]}', 'null', /it does not tell tokens/],
    ['{"data":[{"id":"m"}]}', undefined, /no answer within 10 seconds/],
  ]
  const urls = await Promise.all(
    cases.map(async ([models, chat]) => {
      const worker = await startWorker(t, ({ path }, response) => {
        if (path === '/v1/models') {
          if (models === undefined) response.writeHead(404)
          return response.end(models)
        }
        if (path !== '/v1/chat/completions') return response.end()
        if (chat !== undefined) response.end(chat)
      })
      return worker.url
    }),
  )
  const workers = urls.map((url, at) => ({ id: `${at}`, url, kvEvents: 'tcp://127.0.0.1:1' }))
  const began = performance.now()
  const { code, out } = await doctor(t, JSON.stringify({ scheduler: { workers } }), '--probe')
  t.true(performance.now() - began < 40_000)
  t.is(code, 1)
  const rows: { advice: string[] }[] = JSON.parse(out).workers
  t.is(rows.length, cases.length)
  for (const [at, [, , words]] of cases.entries()) {
    t.regex(rows[at]?.advice.at(-1) ?? '', words, `${at}`)
  }
})

test('the help says which files are read', async (t) => {
  t.regex((await doctor(t, '', '--help')).out, /configuration file of the gateway \(JSON or YAML\)/)
})
