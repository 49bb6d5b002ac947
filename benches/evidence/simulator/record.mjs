/**
 * `node benches/evidence/simulator/record.mjs`: runs the published simulator on the recorded coding
 * sessions and keeps its figures, for machines that have no wheels of it. Needs `WARMPATH_PEER_PYTHON`.
 */
import { record } from './claude-code.mjs'

record()
