/**
 * The tail of a conversation: what follows the last thing that the model said, and how far back
 * the tool loop reaches that it continues.
 *
 * Knows no dialect: which item is the model's, and which calls an item answers, is passed in.
 */

import { sealsOf } from './seals.js'

/**
 * Seals of a loop that are looked at. A loop may not change its owner on the way, so the newest
 * name it; a few more are kept for answers that passed unseen.
 */
const MAX_LOOP_SEALS = 8

type IsAnswer = (item: unknown) => boolean
/** The ids of the calls that an item answers. */
type ResultsOf = (item: unknown) => readonly unknown[]

/** Ids of the calls that the tail answers, each once, in the order sent. O(tail). */
function answeredCalls(
  items: readonly unknown[],
  isAnswer: IsAnswer,
  resultsOf: ResultsOf,
): string[] {
  const ids = new Set<string>()
  for (let at = items.findLastIndex(isAnswer) + 1; at < items.length; at += 1) {
    for (const id of resultsOf(items[at])) if (typeof id === 'string' && id !== '') ids.add(id)
  }
  return [...ids]
}

/**
 * The newest sealed reasoning of the loop that the tail continues, oldest first: of the model's items
 * back to the last item before them that is neither the model's nor the result of a tool. O(loop), and
 * less where there are many seals.
 */
function loopSeals(items: readonly unknown[], isAnswer: IsAnswer, resultsOf: ResultsOf): string[] {
  const seals: string[] = []
  let at = items.findLastIndex(isAnswer)
  for (; at >= 0 && seals.length < MAX_LOOP_SEALS; at -= 1) {
    const item = items[at]
    if (isAnswer(item)) seals.unshift(...sealsOf(item))
    else if (resultsOf(item).length === 0) break
  }
  return seals.length === 0 ? seals : [...new Set(seals)].slice(-MAX_LOOP_SEALS)
}

export { answeredCalls, loopSeals }
