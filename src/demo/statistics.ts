/**
 * How is a list of measured values summed up?
 *
 * Quantiles by nearest rank (the smallest value that at least a share q of all values does not
 * exceed), so that each reported figure is one that was really measured. An empty list has no
 * figure: the answer is undefined, never 0. Knows nothing of units.
 */

/** Sorts a copy, once, for any number of quantiles. O(n log n). */
function sorted(values: readonly number[]): number[] {
  return [...values].sort((a, b) => a - b)
}

/**
 * The nearest-rank quantile of values in ascending order.
 * @param q from 0 to 1
 */
function quantile(ascending: readonly number[], q: number): number | undefined {
  const rank = Math.ceil(q * ascending.length)
  return ascending[Math.min(ascending.length, Math.max(1, rank)) - 1]
}

function sum(values: readonly number[]): number {
  let total = 0
  for (const value of values) total += value
  return total
}

function mean(values: readonly number[]): number | undefined {
  return values.length === 0 ? undefined : sum(values) / values.length
}

/**
 * Jain's index: 1 when all shares are equal, 1/n when one has everything.
 * Undefined for an empty list and for shares that are all zero.
 */
function jain(shares: readonly number[]): number | undefined {
  const squares = sum(shares.map((share) => share * share))
  return squares === 0 ? undefined : sum(shares) ** 2 / (shares.length * squares)
}

export { jain, mean, quantile, sorted, sum }
