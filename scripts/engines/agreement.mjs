/**
 * Whether what was believed is what the engine said, and why not where it is not.
 *
 * A block that was believed and is not there must have been removed before the answer by a message that
 * came after the decision; one that is there and was not believed must have been stored so, by another
 * turn. Both are looked up in what the engine published, as a subscriber of its own has written it down.
 */
import { BLOCK_TOKENS } from './vllm.mjs'

/** A message may be here a little before the scheduler has it. */
const SLACK_MS = 50

export function judge(record, relay) {
  const { predicted, cachedTokens, decided, to, trust, origin } = record
  if (origin !== 'engine') return 'no tokens'
  if (trust !== 'exact') return 'not exact'
  if (predicted === cachedTokens) return 'right'
  // What the engine did before it had answered, and nobody here could know when it was decided.
  const unknown = { madeUntil: to, cameAfter: decided - SLACK_MS }
  if (predicted > cachedTokens) {
    return relay.said('BlockRemoved', unknown) > 0 ? 'removed meanwhile' : 'over-promise'
  }
  if (cachedTokens - predicted <= BLOCK_TOKENS) return 'last block'
  // Its own blocks come in one message, or two when an answer fills one.
  return relay.said('BlockStored', unknown) > 2 ? 'stored meanwhile' : 'under-promise'
}

/**
 * Of turns that are known by earlier answers: how many and how far, and what was believed and not there. What
 * was answered last is cached too and not known, so that less may be believed than there is.
 */
export function tallyKnown(records, relays) {
  const known = records.filter((r) => r.origin === 'answers' && r.exactTokens > 0)
  const short = known.filter((r) => r.trust === 'exact' && r.predicted > r.cachedTokens)
  const isRemoved = ({ decided, to, worker }) =>
    relays.get(worker).said('BlockRemoved', { madeUntil: to, cameAfter: decided - SLACK_MS }) > 0
  const sum = (of) => known.reduce((all, record) => all + of(record), 0)
  return {
    turns: records.length,
    known: known.length,
    share: known.length / Math.max(1, records.length),
    exactShare:
      sum((r) => r.exactTokens) /
      Math.max(
        1,
        sum((r) => r.promptTokens),
      ),
    foreseen:
      sum((r) => Math.min(r.predicted, r.cachedTokens)) /
      Math.max(
        1,
        sum((r) => r.cachedTokens),
      ),
    removedMeanwhile: short.filter(isRemoved).length,
    overPromises: short.filter((r) => !isRemoved(r)).length,
    shown: records.filter((r) => r.hasTokens).length,
  }
}

export function tally(records, relays) {
  const counts = {}
  for (const record of records) {
    record.verdict = judge(record, relays.get(record.worker))
    counts[record.verdict] = (counts[record.verdict] ?? 0) + 1
  }
  const judged = records.filter(({ verdict }) => !['no tokens', 'not exact'].includes(verdict))
  const right = counts.right ?? 0
  return {
    counts,
    turns: records.length,
    judged: judged.length,
    right,
    share: right / Math.max(1, judged.length),
    unexplained: (counts['over-promise'] ?? 0) + (counts['under-promise'] ?? 0),
    overPromises: counts['over-promise'] ?? 0,
    workers: [...new Set(judged.map(({ worker }) => worker))].sort(),
    otherLengths: judged.filter((r) => r.knownTokens !== r.promptTokens).length,
  }
}
