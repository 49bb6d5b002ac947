/**
 * What is it worth that siblings wait for the first of them?
 *
 * Batches of sub-agents that read one long text: the text of a batch is new, its children come within a
 * fifth of a second, each with a short part of its own. The same batches with and without the wait, at a
 * pace that leaves engines idle and at one that does not.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { built, within } from '../shared.mjs'

const SEEDS = [1, 2, 3]
const BATCHES = 120
const CHILDREN = 8
const BLOCK = 512
/** How often batches come, and how much later a first token may be for it. */
const PACES = { idle: { gapMs: 60_000, late: 1.15 }, busy: { gapMs: 1_200, late: 1 } }

/** mulberry32: the same numbers in [0, 1) from the same seed. */
function random(seed) {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Mooncake's format: a prompt is the numbers of its blocks. Batches come on average every `gapMs`. */
function batches(gapMs, seed) {
  const draw = random(seed)
  const rows = []
  let at = 0
  let block = 0
  const blocks = (count) => Array.from({ length: count }, () => block++)
  for (let batch = 0; batch < BATCHES; batch += 1) {
    at += -Math.log(1 - draw()) * gapMs
    // 16k to 64k tokens that all of them begin with.
    const shared = blocks(32 + Math.floor(draw() * 96))
    for (let child = 0; child < CHILDREN; child += 1) {
      const own = blocks(1 + Math.floor(draw() * 4))
      rows.push({
        timestamp: Math.round(at + draw() * 200),
        input_length: (shared.length + own.length) * BLOCK,
        output_length: 100 + Math.floor(draw() * 300),
        hash_ids: [...shared, ...own],
      })
    }
  }
  rows.sort((a, b) => a.timestamp - b.timestamp)
  return rows.map((row) => `${JSON.stringify(row)}\n`).join('')
}

async function workloadOf(text) {
  const folder = mkdtempSync(join(tmpdir(), 'warmpath-fan-out-'))
  try {
    const path = join(folder, 'batches.jsonl')
    writeFileSync(path, text)
    return await built('workload.js').Workload.read({ paths: [path], format: 'mooncake' })
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** Both ways, all seeds: means of what was computed and of the times to the first token. */
async function both(gapMs) {
  const { DEFAULT_SCORE } = built('index.js')
  const sums = { alone: [0, 0, 0], waiting: [0, 0, 0] }
  for (const seed of SEEDS) {
    const workload = await workloadOf(batches(gapMs, seed))
    for (const [way, fanOut] of [['alone'], ['waiting', {}]]) {
      const report = JSON.parse(
        await workload.simulate({
          label: way,
          policy: { core: { policy: 'none' } },
          score: DEFAULT_SCORE,
          ...(fanOut && { fanOut }),
          workers: 4,
          engine: 'dynamo-poly',
          seed,
        }),
      )
      const { ttft } = report.latency
      const prompts = workload.summary().promptTokens
      const found = [prompts * (1 - report.work.hit_rate), ttft.p50_ms, ttft.p95_ms]
      found.forEach((value, at) => {
        sums[way][at] += value / SEEDS.length
      })
    }
  }
  return sums
}

export async function fanOutClaims({ claim }) {
  for (const [pace, { gapMs, late }] of Object.entries(PACES)) {
    const { alone, waiting } = await both(gapMs)
    const rows = [
      ['computed', 'prompt tokens computed', 'tokens', 0.6],
      ['ttft_p50', 'time to first token with the wait, p50', 'ms', late],
      ['ttft_p95', 'time to first token with the wait, p95', 'ms', late],
    ]
    rows.forEach(([name, text, unit, most], at) => {
      claim({
        text: `batches of ${CHILDREN} siblings every ${gapMs / 1000} s: ${text}`,
        seed: SEEDS.join(', '),
        row: within({
          name: `score.fan_out.${pace}.${name}`,
          value: Math.round(waiting[at]),
          unit,
          peer: `each by itself ${Math.round(alone[at])} ${unit}`,
          ratio: waiting[at] / alone[at],
          goal: `at most ${most} x`,
          most,
        }),
      })
    })
  }
}
