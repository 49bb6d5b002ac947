/**
 * What is session affinity worth beside a score that counts what is cached?
 *
 * The sessions of the other parts, with and without it, in caches that hold them and in caches that do not.
 * No goal is set: the figures are why it is off unless it is asked for.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../../scripts/build.mjs'
import { built, publicTrace } from '../shared.mjs'

const SEED = 1
const MODES = ['off', 'soft', 'hard']
const CACHES = { tight: 1 << 18, roomy: 1 << 20 }

export async function stayingClaims({ claim, skip }) {
  const folder = publicTrace('claude-code-sessions')
  if (folder === undefined) return skip('affinity on coding sessions', 'they are not here')
  const list = join(root, 'benches', 'evidence', 'simulator', 'claude-code.json')
  const { files } = JSON.parse(readFileSync(list, 'utf8'))
  const paths = files.smallest39.map((name) => join(folder, name))
  const workload = await built('workload.js').Workload.read({ paths, format: 'weka' })
  const { DEFAULT_SCORE } = built('index.js')
  for (const [size, cacheTokens] of Object.entries(CACHES)) {
    let off
    for (const mode of MODES) {
      const report = JSON.parse(
        await workload.simulate({
          label: mode,
          policy: { core: { policy: 'none' } },
          score: DEFAULT_SCORE,
          affinity: { mode },
          workers: 4,
          engine: 'dynamo-poly',
          cacheTokens,
          keepTimes: true,
          seed: SEED,
        }),
      )
      off ??= report
      if (mode === 'off') continue
      const text = `39 recorded coding sessions, caches of ${cacheTokens >> 10}k tokens, affinity ${mode}`
      const [found, without] = [report, off].map((each) => each.work.hit_rate)
      claim({
        text: `${text}: hit`,
        seed: SEED,
        row: {
          name: `score.staying.${size}.${mode}.hit`,
          value: found,
          unit: 'share',
          peer: `off ${(100 * without).toFixed(1)} %`,
          ratio: found / without,
        },
      })
      const [p95, before] = [report, off].map((each) => each.latency.ttft.p95_ms)
      claim({
        text: `${text}: time to first token, p95`,
        seed: SEED,
        row: {
          name: `score.staying.${size}.${mode}.ttft_p95`,
          value: p95,
          unit: 'ms',
          peer: `off ${Math.round(before)} ms`,
          ratio: p95 / before,
        },
      })
    }
  }
}
