/**
 * The published simulator's figures: measured now where `WARMPATH_PEER_PYTHON` names a Python with its
 * wheels, else as they were recorded.
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { root } from '../../../scripts/build.mjs'

/** Runs of its router for each setting: its ties are drawn without a seed. */
export const RUNS = 5
/** A hit rate or a time may be so far beyond what the peer had. */
const TOLERANCE = 0.01

export const python = process.env.WARMPATH_PEER_PYTHON

/** Its runs of a trace. */
export function replay(spec) {
  const script = join(root, 'benches', 'evidence', 'peer.py')
  const all = JSON.stringify({ runs: RUNS, ...spec })
  const ran = spawnSync(python, [script, all], { encoding: 'utf8', maxBuffer: 1 << 24 })
  if (ran.status !== 0) throw new Error(`the published simulator failed: ${ran.stderr}`)
  return JSON.parse(ran.stdout)
}

/** A row: within 1 % of its one run, or of the range of its runs. */
export function parity({ name, value, unit, range, isNow }) {
  const [least, most] = [Math.min(...range), Math.max(...range)]
  const when = isNow ? 'in this run' : 'recorded'
  const nearest = Math.min(Math.max(value, least), most)
  return {
    name,
    value,
    unit,
    peer: `Dynamo 1.6.1, ${range.length} run${range.length === 1 ? '' : 's'} ${when}`,
    ratio: value / nearest,
    goal: range.length === 1 ? 'within 1 % of it' : 'within its range and 1 % beyond',
    holds: Math.abs(value / nearest - 1) <= TOLERANCE,
  }
}
