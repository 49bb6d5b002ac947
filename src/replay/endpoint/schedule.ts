/**
 * When is each turn due?
 *
 * `trace`: as the trace says: at its time, or after what it waits for. `closed`: the same, but what has
 * a time of its own is due at once. `open`: at the time at which it would come if answers took no
 * time, whatever becomes of the others. Pauses pass `speed` times as fast as in the trace.
 */
import type { WorkloadTurns } from '../../workload.js'

type Loop = 'trace' | 'closed' | 'open'

interface ScheduleOptions {
  turns: WorkloadTurns
  loop: Loop
  speed: number
  due: (turn: number) => void
}

interface Waiter {
  turn: number
  moment: 'start' | 'end'
  delayMs: number
}

/** Longest sleep of a Node timer. */
const MOST_SLEEP_MS = 2 ** 31 - 1

class Schedule {
  readonly #options: ScheduleOptions
  readonly #pending: Int32Array
  readonly #readyMs: Float64Array
  readonly #waiters = new Map<number, Waiter[]>()
  readonly #timers = new Set<NodeJS.Timeout>()
  readonly #began = performance.now()
  #left: number

  constructor(options: ScheduleOptions) {
    const { turns, loop } = options
    const count = turns.session.length
    this.#options = options
    this.#left = count
    this.#pending = new Int32Array(count)
    this.#readyMs = new Float64Array(count)
    if (loop === 'open') return
    for (const [turn, waits] of turns.waits.entries()) {
      this.#pending[turn] = waits.length
      for (const { turn: other, moment, delayMs } of waits) {
        const list = this.#waiters.get(other) ?? []
        list.push({ turn, moment, delayMs })
        this.#waiters.set(other, list)
      }
    }
  }

  /** Whether every turn has ended. */
  get isOver(): boolean {
    return this.#left === 0
  }

  begin(): void {
    const { turns, loop } = this.#options
    const times = loop === 'open' ? arrivals(turns) : turns.atMs
    for (const [turn, at] of times.entries()) {
      if (at !== null) this.#later(turn, loop === 'closed' ? 0 : at)
    }
  }

  started(turn: number): void {
    this.#reached(turn, 'start')
  }

  ended(turn: number): void {
    this.#left -= 1
    this.#reached(turn, 'end')
  }

  /** Nothing is due any more. */
  stop(): void {
    for (const timer of this.#timers) clearTimeout(timer)
    this.#timers.clear()
    this.#waiters.clear()
  }

  #reached(turn: number, reached: 'start' | 'end'): void {
    const now = (performance.now() - this.#began) * this.#options.speed
    for (const { turn: waiter, moment, delayMs } of this.#waiters.get(turn) ?? []) {
      if (moment !== reached) continue
      this.#readyMs[waiter] = Math.max(this.#readyMs[waiter] ?? 0, now + delayMs)
      const left = (this.#pending[waiter] ?? 0) - 1
      this.#pending[waiter] = left
      if (left === 0) this.#later(waiter, (this.#readyMs[waiter] ?? now) - now)
    }
  }

  /** @param ms of the trace */
  #later(turn: number, ms: number): void {
    const sleep = Math.min(MOST_SLEEP_MS, Math.max(0, ms / this.#options.speed))
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      this.#options.due(turn)
    }, sleep)
    this.#timers.add(timer)
  }
}

/** When each turn would come if answers took no time. */
function arrivals({ atMs, waits }: WorkloadTurns): number[] {
  const found: number[] = []
  for (const [turn, at] of atMs.entries()) {
    const after = (waits[turn] ?? []).map((wait) => (found[wait.turn] ?? 0) + wait.delayMs)
    found.push(at ?? Math.max(0, ...after))
  }
  return found
}

export { arrivals, type Loop, Schedule }
