/**
 * How long would a session take if it were alone?
 *
 * The measure that a session's progress is held against: its tools, and for each turn one prefill
 * of what is new in the prompt plus its output at the pace of an otherwise empty engine. The
 * timing is the engine double's own (a published fit of one pass: quadratic in the new tokens for
 * a prefill, 5.74 ms a token for a decode with an empty cache), restated here because a session's
 * yardstick must not depend on what a run did to it.
 *
 * A sub-agent's time counts in its parent's, which waits for it.
 */
import type { SessionPlan, TurnPlan } from './workload.js'

/** ms of a pass that computes `tokens` prompt tokens of one request. */
function prefillMs(tokens: number): number {
  return 4.209989e-7 * tokens * tokens + 1.518344e-2 * tokens + 16.50142
}

/** ms of a pass that gives one token to each running request, cache nearly empty. */
const DECODE_MS = 5.74

function turnMs(newTokens: number, turn: TurnPlan): number {
  const tool = turn.spawns === undefined ? turn.toolMs : aloneMs(turn.spawns)
  return prefillMs(newTokens) + (turn.outputTokens - 1) * DECODE_MS + tool
}

/** Model ms of the whole session, from its first turn sent to its last answer. O(turns). */
function aloneMs(session: SessionPlan): number {
  let total = 0
  let newTokens = session.shared.tokens + session.taskTokens
  for (const turn of session.turns) {
    total += turnMs(newTokens, turn)
    newTokens = turn.resultTokens
  }
  return total
}

export { aloneMs }
