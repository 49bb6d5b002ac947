/** A running sample of durations: exact count, sum and maximum, percentiles of the latest ones. */

interface SampleSummary {
  count: number
  sum: number
  max: number
  p50: number
  p95: number
  p99: number
}

class Sample {
  readonly #latest: Float64Array
  #count = 0
  #sum = 0
  #max = 0

  constructor(keep = 4096) {
    this.#latest = new Float64Array(keep)
  }

  add(value: number): void {
    this.#latest[this.#count % this.#latest.length] = value
    this.#count += 1
    this.#sum += value
    this.#max = Math.max(this.#max, value)
  }

  summary(): SampleSummary {
    const latest = this.#latest.slice(0, Math.min(this.#count, this.#latest.length)).sort()
    const at = (share: number) => latest[Math.ceil(share * latest.length) - 1] ?? 0
    return {
      count: this.#count,
      sum: this.#sum,
      max: this.#max,
      p50: at(0.5),
      p95: at(0.95),
      p99: at(0.99),
    }
  }
}

export { Sample, type SampleSummary }
