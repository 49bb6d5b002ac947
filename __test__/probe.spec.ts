/** `warmpath doctor --probe`: a prompt of its own, and whether the engine tells of it. */
import { setTimeout as sleep } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { type Probed, probe, probeAdvice } from '../src/cli/probe.js'
import { Scheduler } from '../src/index.js'
import { json, startWorker } from './support/http-worker.js'
import { Teller } from './support/teller.js'

const TOKENS = Array.from({ length: 70 }, (_, at) => 1000 + at)

interface Case {
  /** Tokens of a block: of the engine, and of the configuration. */
  readonly sizes?: readonly [number, number]
  /** What it answers with, tells of, and renders. */
  readonly answers?: readonly unknown[] | null
  readonly tells?: readonly number[]
  readonly renders?: readonly number[] | number
}

async function probed(t: ExecutionContext, of: Case): Promise<{ found: Probed; body: string }> {
  const [theirs, ours] = of.sizes ?? [16, 16]
  const { answers = TOKENS, tells = TOKENS, renders = TOKENS } = of
  await using teller = await Teller.start(theirs)
  const engine = await startWorker(t, ({ path }, res) => {
    if (path.endsWith('/render') || path === '/tokenize') {
      const fails = typeof renders === 'number'
      return fails ? json(res, renders, {}) : json(res, 200, { token_ids: renders })
    }
    if (answers === null) return json(res, 400, {})
    json(res, 200, { prompt_token_ids: answers, choices: [] })
    void teller.tell(Uint32Array.from(tells))
  })
  using scheduler = new Scheduler({
    cache: { blockTokens: ours },
    workers: [{ id: 'a', url: engine.url, kvEvents: teller.kvEvents }],
    targets: { m: { model: 'org/m' } },
  })
  while (scheduler.status().workers[0]?.evidence.trust !== 'exact') await sleep(5)
  const found = await probe({
    ...{ scheduler, worker: 'a', url: engine.url, headers: { 'x-key': 'k' } },
    ...{ model: 'org/m', target: 'm', blockTokens: ours, asksRenderer: true, waitMs: 1_000 },
  })
  t.is(engine.received[0]?.headers['x-key'], 'k')
  return { found, body: engine.received[0]?.body ?? '' }
}

const advice = (found: Probed, size = 16) => [...probeAdvice(found, size)]

test('an engine that tells of the blocks that it computes needs no advice', async (t) => {
  const { found, body } = await probed(t, {})
  const expected = { promptTokens: 70, expectedTokens: 64, toldTokens: 64 }
  t.deepEqual(found, { ...expected, renderer: { says: 'same' }, error: null })
  t.deepEqual(advice(found), [])
  const sent = JSON.parse(body) as Record<string, unknown>
  t.like(sent, { model: 'org/m', max_tokens: 1, return_token_ids: true, tool_choice: 'none' })
  t.true(body.length > 4 * 16 * 3, 'some blocks')
})

test('blocks of another size, other tokens and silence are found with one prompt', async (t) => {
  const size = await probed(t, { sizes: [32, 16] })
  t.like(size.found, { expectedTokens: 64, toldTokens: 0 })
  t.regex(advice(size.found)[0] ?? '', /tells of 0 of 64 tokens: blocks that are not of 16 tokens/)
  const other = await probed(t, { tells: TOKENS.map((token) => token + 1) })
  t.is(other.found.toldTokens, 0)
  const part = await probed(t, { tells: TOKENS.slice(0, 40) })
  t.is(part.found.toldTokens, 32)
  t.regex(advice(part.found)[0] ?? '', /32 of 64 tokens: the rest is late/)
})

test('a renderer that makes other tokens is told with the first of them', async (t) => {
  const { found } = await probed(t, { renders: [1, ...TOKENS] })
  t.deepEqual(found.renderer, { says: 'other', index: 0, rendered: 1, computed: 1000 })
  t.regex(advice(found)[0] ?? '', /1 for 1000 at 0/)
  const shorter = await probed(t, { renders: TOKENS.slice(0, 69) })
  const end = { says: 'other', index: 69, rendered: null, computed: 1069 }
  t.deepEqual(shorter.found.renderer as unknown, end)
})

test('a renderer that tells no tokens does not agree', async (t) => {
  for (const [status, says] of [
    [500, 'failed'],
    [400, 'refused'],
    [404, 'unsupported'],
  ] as const) {
    const { found } = await probed(t, { renders: status })
    t.deepEqual(found.renderer, { says })
    t.regex(advice(found)[0] ?? '', new RegExp(`tells no tokens \\(${says}\\)`))
  }
  const { found } = await probed(t, { renders: [] })
  t.deepEqual(found.renderer, { says: 'failed' })
  const failed = await probed(t, { answers: null })
  t.is(failed.found.renderer, null, 'not asked')
})

test('an engine that refuses, or tells no tokens, is said to', async (t) => {
  const refused = await probed(t, { answers: null })
  t.deepEqual(advice(refused.found), ['a chat with return_token_ids fails: status 400'])
  const silent = await probed(t, { answers: [] })
  t.is(silent.found.error, 'it does not tell tokens')
  for (const answers of [[-1, 'x'], [1.5], [2 ** 32], [null]]) {
    t.is((await probed(t, { answers })).found.error, 'what it tells are no tokens')
  }
  const short = await probed(t, { answers: [1] })
  t.is(short.found.error, 'it tells 1 tokens of a prompt of more than 48')
})
