/**
 * Does the hit rate on recorded coding sessions agree with that of the published simulator?
 *
 * The files go in the order in which the peer takes them (by the BLAKE3 hash of their names, listed in
 * claude-code.json), and like there nothing starts before its recorded time. Of the 96 files its reader
 * refuses eight, whose headers do not name every model; `all` is with their headers mended, `accepted`
 * without them. The small sets are the 40 smallest files, at a quarter of the cache without the one that
 * outgrows it, since the peer's replay then ends.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { root } from '../../../scripts/build.mjs'
import { built, publicTrace } from '../shared.mjs'
import { parity, python, replay } from './peer.mjs'

const BLOCK = 64
const LARGE = 1 << 20
const QUARTER = LARGE / 4
const SETS = {
  smallest40: { cache: LARGE, workers: [4, 8], text: 'the 40 smallest sessions' },
  smallest39: { cache: QUARTER, workers: [4, 8], text: '39 of them, a quarter of the cache' },
  accepted88: { cache: LARGE, workers: [8], text: 'the 88 sessions that its reader takes' },
  all96: { cache: LARGE, workers: [8], text: 'all 96 sessions' },
}
const POLICIES = {
  'round-robin': { mode: 'round_robin', policy: 'round-robin' },
  kv: { mode: 'kv_router', policy: { core: { policy: 'none' } } },
}
const SEED = 1

const recorded = join(root, 'benches', 'evidence', 'simulator', 'claude-code.json')

export async function claudeCodeClaims({ claim, say, skip }) {
  const folder = publicTrace('claude-code-sessions')
  if (folder === undefined)
    return skip('coding sessions beside the peer', 'the sessions are not here')
  const { files, runs } = JSON.parse(readFileSync(recorded, 'utf8'))
  const { Workload } = built('workload.js')
  for (const [set, { cache, workers, text }] of Object.entries(SETS)) {
    const paths = files[set].map((name) => join(folder, name))
    const isNow = python !== undefined
    if (isNow) say(`replaying ${text} with the published simulator`)
    const theirs = isNow ? peerRuns(set, paths) : runs[set]
    const workload = await Workload.read({ paths, format: 'weka' })
    for (const count of workers) {
      for (const [label, { mode, policy }] of Object.entries(POLICIES)) {
        const report = JSON.parse(
          await workload.simulate({
            label,
            policy,
            workers: count,
            engine: 'dynamo-poly',
            cacheTokens: cache,
            keepTimes: true,
            seed: SEED,
          }),
        )
        const alike = theirs.filter((run) => run.workers === count && run.mode === mode)
        claim({
          text: `${label} on recorded coding sessions, ${text}, ${count} workers, hit`,
          seed: SEED,
          row: parity({
            name: `simulator.claude_code.${set}.w${count}.${label}.hit`,
            value: report.work.hit_rate,
            unit: 'share',
            range: alike.map(({ hit }) => hit),
            isNow,
          }),
        })
      }
    }
  }
}

/** The peer's runs of a set, from plain files with whole headers. */
function peerRuns(set, paths) {
  const { cache, workers } = SETS[set]
  const trace = mkdtempSync(join(tmpdir(), 'warmpath-peer-'))
  try {
    for (const path of paths) {
      const name = path.replace(/^.*[/\\]/, '').replace(/\.gz$/, '')
      writeFileSync(join(trace, name), mended(gunzipSync(readFileSync(path)).toString('utf8')))
    }
    return replay({ trace, format: 'weka', block: BLOCK, cache, workers })
  } finally {
    rmSync(trace, { recursive: true })
  }
}

/** The same session with every model in its header. */
function mended(text) {
  const session = JSON.parse(text)
  const models = (requests) =>
    requests.flatMap((each) => (each.requests ? models(each.requests) : (each.model ?? [])))
  const known = session.models ?? []
  const missing = new Set(models(session.requests).filter((model) => !known.includes(model)))
  if (missing.size === 0) return text
  return JSON.stringify({ ...session, models: [...known, ...missing] })
}

/** What is recorded: all sets, run by the peer now. */
export function record() {
  const folder = publicTrace('claude-code-sessions')
  const { files } = JSON.parse(readFileSync(recorded, 'utf8'))
  const runs = Object.keys(SETS).map((set) => {
    const paths = files[set].map((name) => join(folder, name))
    return [set, peerRuns(set, paths)]
  })
  writeFileSync(recorded, `${JSON.stringify({ files, runs: Object.fromEntries(runs) }, null, 1)}\n`)
}
