/**
 * How fast are the demo's engines, and how long would a session take if it had one to itself?
 *
 * The engine doubles take their times from a published fit of one engine pass: quadratic in the new
 * tokens for a prefill, and for a decode 5.74 ms a token with an empty cache to 34 ms with a full
 * one. The demo's contexts are about a tenth of what coding agents really carry (7 k tokens a
 * prompt on average; a hundred thousand is common), so that 64 of them fit through the loopback
 * interface of a small machine. To keep what a lost context costs in proportion to the rest of a
 * turn, a prefill takes PREFILL_COST times as long as the fit says; a decode takes what it says.
 *
 * The time alone is the measure that a session's progress is held against: its tools, and for each
 * turn one prefill of what is new in the prompt plus its output on an otherwise empty engine. It is
 * restated here because a yardstick must not depend on what a run did to a session. A sub-agent's
 * time counts in its parent's, which waits for it.
 */
import type { SessionPlan, TurnPlan } from './workload.js'

/** How many times as long as published a prefill takes: contexts here are a tenth of real ones. */
const PREFILL_COST = 10

/** Timing of the engine doubles: every cost divided by the first, decodes by the second as well. */
const ENGINE_TIMING = {
  speedupRatio: 1 / PREFILL_COST,
  decodeSpeedupRatio: PREFILL_COST,
} as const

/** ms of a pass that computes `tokens` prompt tokens of one request. */
function prefillMs(tokens: number): number {
  return PREFILL_COST * (4.209989e-7 * tokens * tokens + 1.518344e-2 * tokens + 16.50142)
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

export { aloneMs, ENGINE_TIMING, PREFILL_COST }
