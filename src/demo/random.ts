/**
 * Where do the demo's random choices come from?
 *
 * From SplitMix64 and nothing else, so that a seed names one workload on every machine and in
 * every run. A stream can be forked by a label: what one session draws does not depend on how much
 * another has drawn, so adding a session leaves the others as they were.
 *
 * BigInt arithmetic, about a microsecond a draw; the demo draws a few thousand. Not for secrets.
 */
const MASK = 0xffff_ffff_ffff_ffffn
const GOLDEN = 0x9e37_79b9_7f4a_7c15n

function mix(value: bigint): bigint {
  let z = value
  z = ((z ^ (z >> 30n)) * 0xbf58_476d_1ce4_e5b9n) & MASK
  z = ((z ^ (z >> 27n)) * 0x94d0_49bb_1331_11ebn) & MASK
  return z ^ (z >> 31n)
}

/** A log-normal distribution that is cut off (not redrawn) at both ends. */
interface Lognormal {
  /** The median, in the unit of the draw. */
  median: number
  /** Standard deviation of the logarithm. */
  sigma: number
  /** Smallest and largest value that a draw may give. */
  range: readonly [number, number]
}

/** A seeded stream of numbers; two with the same seed give the same numbers. */
class SplitMix64 {
  #state: bigint

  /** @param seed any integer; taken modulo 2^64 */
  constructor(seed: bigint | number) {
    this.#state = BigInt.asUintN(64, BigInt(seed))
  }

  /** The next 64 bits. */
  next(): bigint {
    this.#state = (this.#state + GOLDEN) & MASK
    return mix(this.#state)
  }

  /** Uniform in [0, 1), 53 bits. */
  uniform(): number {
    return Number(this.next() >> 11n) / 2 ** 53
  }

  /** A whole number, both ends included. */
  between(low: number, high: number): number {
    return low + Math.floor(this.uniform() * (high - low + 1))
  }

  /** Standard normal (Box-Muller; the second value of the pair is dropped). */
  normal(): number {
    const radius = Math.sqrt(-2 * Math.log(1 - this.uniform()))
    return radius * Math.cos(2 * Math.PI * this.uniform())
  }

  /** A whole number from a log-normal distribution. */
  lognormal({ median, sigma, range }: Lognormal): number {
    const drawn = Math.round(median * Math.exp(sigma * this.normal()))
    return Math.min(range[1], Math.max(range[0], drawn))
  }

  /** An independent stream for `label`; does not advance this one. */
  fork(label: string): SplitMix64 {
    let hash = this.#state
    for (const unit of Buffer.from(label)) hash = mix((hash ^ BigInt(unit)) + GOLDEN)
    return new SplitMix64(hash)
  }
}

export { type Lognormal, SplitMix64 }
