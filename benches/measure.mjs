/** Small statistics for benches on machines that others use too. */

export function least(values) {
  return values.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY)
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

/** Nanoseconds a call of `run`: the least mean over short windows of a tenth of a millisecond. */
export function leastCall(run, forMs = 200) {
  for (let i = 0; i < 2_000; i++) run()
  let best = Number.POSITIVE_INFINITY
  let calls = 16
  const end = performance.now() + forMs
  while (performance.now() < end) {
    const begun = process.hrtime.bigint()
    for (let i = 0; i < calls; i++) run()
    const took = Number(process.hrtime.bigint() - begun)
    best = Math.min(best, took / calls)
    calls = Math.max(1, Math.min(100_000, Math.round(100_000 / best)))
  }
  return best
}

/** A row of a bench's result; `holds` follows from the goal. */
export function row(name, value, unit, goal) {
  const rounded = Number(value.toPrecision(4))
  if (goal === undefined) return { name, value: rounded, unit }
  return { name, value: rounded, unit, goal: `at most ${goal}`, holds: value <= goal }
}
