/**
 * The tail of a conversation: what follows the last thing that the model said, and how far back
 * the tool loop reaches that it continues.
 *
 * Knows no dialect: which item is the model's, and which calls an item answers, is passed in.
 */

type IsAnswer = (item: unknown) => boolean
/** The ids of the calls that an item answers. */
type ResultsOf = (item: unknown) => readonly unknown[]

/** Ids of the calls that the tail answers, each once, in the order sent. O(tail). */
function answeredCalls(
  items: readonly unknown[],
  isAnswer: IsAnswer,
  resultsOf: ResultsOf,
): string[] {
  const tail = items.slice(items.findLastIndex(isAnswer) + 1)
  const ids = tail.flatMap(resultsOf)
  return [...new Set(ids.filter((id): id is string => typeof id === 'string' && id !== ''))]
}

/**
 * The model's items of the loop that the tail continues, oldest first: back to the last item before
 * them that is neither the model's nor the result of a tool. O(loop).
 */
function openLoop(
  items: readonly unknown[],
  isAnswer: IsAnswer,
  resultsOf: ResultsOf,
): readonly unknown[] {
  const last = items.findLastIndex(isAnswer)
  const before = items
    .slice(0, last + 1)
    .findLastIndex((item) => !isAnswer(item) && resultsOf(item).length === 0)
  return items.slice(before + 1, last + 1).filter(isAnswer)
}

export { answeredCalls, openLoop }
