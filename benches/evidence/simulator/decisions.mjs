/** Does a whole fleet come to the recorded decisions of the published router? A Rust test tells. */
import { spawnSync } from 'node:child_process'
import { publicTrace, within } from '../shared.mjs'

const ARGS = ['test', '-p', 'warmpath-sim', '--test', 'golden_decisions', '--locked']
const DECISIONS = 500

export function decisionClaims({ root, claim, skip }) {
  const found = ['mooncake/conversation_trace.jsonl.gz', 'golden/decisions.jsonl'].map(publicTrace)
  if (found.includes(undefined)) return skip('recorded decisions', 'the trace is not here')
  const { status, stdout, error } = spawnSync('cargo', ARGS, { cwd: root, encoding: 'utf8' })
  if (error !== undefined) return skip('recorded decisions', 'cargo is not here')
  const isWhole = status === 0 && /1 passed/.test(stdout)
  claim({
    text: 'choices of the published router on the head of the Mooncake trace whose overlaps, costs and timelines come out equal, ties in the set of the best',
    command: `cargo ${ARGS.join(' ')}`,
    row: within({
      name: 'simulator.recorded_decisions',
      value: isWhole ? DECISIONS : 0,
      unit: 'decisions',
      goal: `all ${DECISIONS}`,
      least: DECISIONS,
    }),
  })
}
