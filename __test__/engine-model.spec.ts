import test from 'ava'

import { EngineModel, type EngineModelEvent } from '../src/simulation.js'
import { fixture } from './engine-double-client.js'

function run(model: EngineModel, until = 1e9): EngineModelEvent[] {
  const events: EngineModelEvent[] = []
  model.advance(until, (event) => events.push(event))
  return events
}

interface Scenario {
  id: number
  engine: {
    block_size?: number
    num_gpu_blocks?: number
    max_num_seqs?: number
    max_num_batched_tokens?: number
    enable_chunked_prefill?: boolean
    enable_prefix_caching?: boolean
    preemption_mode?: string
    speedup_ratio?: number
    timing_model?: { type: string; prefill_ms: number; decode_ms: number }
  }
  workers: number
  trace: { timestamp: number; input_length: number; output_length: number; hash_ids: number[] }[]
  requests: [
    number,
    number,
    number,
    number,
    number | null,
    number | null,
    number | null,
    ...unknown[],
  ][]
}

function open({ engine: e }: Scenario): EngineModel {
  const fixed = e.timing_model
  return new EngineModel({
    blockSize: e.block_size ?? 64,
    numGpuBlocks: e.num_gpu_blocks ?? 16384,
    maxNumSeqs: e.max_num_seqs ?? 256,
    maxNumBatchedTokens: e.max_num_batched_tokens ?? 8192,
    chunkedPrefill: e.enable_chunked_prefill ?? true,
    prefixCaching: e.enable_prefix_caching ?? true,
    preemption: e.preemption_mode === 'fifo' ? 'oldest' : 'newest',
    speedupRatio: e.speedup_ratio ?? 1,
    timing: fixed
      ? { type: 'fixed', prefillMs: fixed.prefill_ms, decodeMs: fixed.decode_ms }
      : { type: 'polynomial' },
  })
}

test('the recorded scenarios come out the same through the addon', (t) => {
  const rows = fixture('golden', 'engine.jsonl.gz').trim().split('\n')
  t.is(rows.length, 56)
  for (const row of rows) {
    const scenario = JSON.parse(row) as Scenario
    const models = Array.from({ length: scenario.workers }, () => open(scenario))
    const turns = scenario.trace.toSorted((a, b) => a.timestamp - b.timestamp)
    for (const [i, turn] of turns.entries()) {
      const size = scenario.engine.block_size ?? 64
      const prompt = Uint32Array.from(
        { length: turn.input_length },
        (_, k) => turn.hash_ids[Math.floor(k / size)] ?? 0,
      )
      const output = Uint32Array.from({ length: turn.output_length }, (_, k) => 1e9 + i * 1e4 + k)
      models[i % models.length]?.submit(turn.timestamp, i, prompt, output)
    }
    const ends = models.flatMap((model) => run(model)).filter((event) => event.kind === 'ended')
    t.is(ends.length, turns.length)
    const ours = ends
      .filter((e) => e.end === 'complete')
      .map((e) => e.at - (turns[0]?.timestamp ?? 0))
    const theirs = scenario.requests.map((r) => r[6]).filter((at) => at !== null)
    const sorted = (times: number[]) => times.toSorted((a, b) => a - b)
    const apart = sorted(ours).map((time, i) => Math.abs(time - (sorted(theirs)[i] ?? Number.NaN)))
    t.is(ours.length, theirs.length)
    t.true(
      apart.every((ms) => ms < 1e-4),
      `scenario ${scenario.id}: ${Math.max(...apart)} ms apart`,
    )
  }
})

test('an array too small for all events loses none', (t) => {
  const model = new EngineModel({ timing: { type: 'fixed', prefillMs: 10, decodeMs: 2 } })
  model.submit(0, 7, Uint32Array.of(1, 2, 3), new Uint32Array(1000))
  const tokens = run(model).filter((event) => event.kind === 'token')
  t.deepEqual(
    tokens.map((event) => event.produced),
    Array.from({ length: 1000 }, (_, i) => i + 1),
  )
  t.is(tokens.at(-1)?.at, 10 + 999 * 2)
})

test('the next event is where the caller has to look again', (t) => {
  const model = new EngineModel({ timing: { type: 'fixed', prefillMs: 10, decodeMs: 2 } })
  t.is(model.next(), undefined)
  model.submit(5, 1, Uint32Array.of(1), Uint32Array.of(2, 3))
  t.is(model.next(), 5)
  run(model, 5)
  t.is(model.next(), 15)
  t.deepEqual(run(model, 14.9), [])
  t.deepEqual(run(model, 15), [{ kind: 'token', id: 1, at: 15, produced: 1 }])
  t.is(model.next(), 17)
})

test('what was said is found by the next turn', (t) => {
  const model = new EngineModel({ blockSize: 4 })
  model.submit(0, 1, Uint32Array.of(1, 2, 3, 4, 5, 6), Uint32Array.of(7, 8, 9))
  run(model)
  model.submit(1e9, 2, Uint32Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), Uint32Array.of(1))
  const [admitted] = run(model, 2e9)
  t.like(admitted, { kind: 'admitted', cachedTokens: 8 })
  t.like(model.status(), {
    ended: 2,
    usedBlocks: 0,
    hitTokens: 8,
    queryTokens: 16,
    outputTokens: 4,
  })
})

test('a cancelled request ends with the pass under way', (t) => {
  const model = new EngineModel({ timing: { type: 'fixed', prefillMs: 10, decodeMs: 2 } })
  model.submit(0, 1, Uint32Array.of(1), new Uint32Array(100))
  run(model, 11)
  t.true(model.cancel(1))
  t.deepEqual(run(model, 100), [{ kind: 'ended', id: 1, at: 12, produced: 1, end: 'cancelled' }])
  t.false(model.cancel(1))
  t.is(model.status().usedBlocks, 0)
})

test('a request that outgrows the cache ends by itself', (t) => {
  const model = new EngineModel({ blockSize: 16, numGpuBlocks: 4 })
  model.submit(0, 1, new Uint32Array(60), new Uint32Array(60))
  model.submit(0, 2, new Uint32Array(65), new Uint32Array(1))
  model.submit(0, 3, new Uint32Array(10).fill(1), new Uint32Array(3))
  const ends = run(model).filter((event) => event.kind === 'ended')
  t.deepEqual(
    new Map(ends.map((e) => [e.id, [e.end, e.produced]])),
    new Map<number, [string, number]>([
      [2, ['rejected', 0]],
      [1, ['cacheFull', 5]],
      [3, ['complete', 3]],
    ]),
  )
})

test('what no engine can be is refused by name', (t) => {
  const code = 'WARMPATH_INVALID_ARGUMENT'
  t.throws(() => new EngineModel({ blockSize: 0 }), {
    code,
    message: /block_size must be 1 to 65536/,
  })
  t.throws(() => new EngineModel({ speedupRatio: -1 }), { code, message: /speedup_ratio/ })
  const wrong = { blockSizes: 4 }
  t.throws(() => new EngineModel(wrong as object), { code, message: /blockSizes/ })
  const model = new EngineModel()
  const one = Uint32Array.of(1)
  t.throws(() => model.submit(0, 1, new Uint32Array(0), one), { code, message: /prompt/ })
  t.throws(() => model.submit(0, 1, one, new Uint32Array(0)), { code, message: /output/ })
  t.throws(() => model.submit(Number.NaN, 1, one, one), { code, message: /nowMs/ })
  t.throws(() => model.submit(0, 1.5, one, one), { code, message: /id/ })
  t.throws(() => model.advance(-1, () => {}), { code, message: /nowMs/ })
  model.submit(0, 1, one, one)
  t.throws(() => model.submit(0, 1, one, one), { code, message: /request 1 is still/ })
})
