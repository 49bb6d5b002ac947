/**
 * What does a person see while the runs go on?
 *
 * On a terminal one line that is rewritten a few times a second; elsewhere (a log file, a CI job)
 * a whole line every few seconds. Goes to stderr, so that the table on stdout stays clean. Counts
 * what the driver reports; holds no other state.
 */
import type { RouterName, TurnRecord } from './record.js'

/** The part of a stream that is written to. */
interface Screen {
  readonly isTTY?: boolean
  write(text: string): unknown
}

const REWRITE_MS = 200
const LINE_MS = 4000

interface Goal {
  router: RouterName
  turns: number
  sessions: number
  /** Model ms that pass in one wall ms. */
  speed: number
}

class Progress {
  readonly #screen: Screen
  readonly #goal: Goal
  readonly #timer: NodeJS.Timeout
  readonly #began = performance.now()
  #turns = 0
  #failed = 0
  #sessions = 0
  #prompt = 0
  #cached = 0

  constructor(screen: Screen, goal: Goal) {
    this.#screen = screen
    this.#goal = goal
    this.#timer = setInterval(() => this.#show(), screen.isTTY ? REWRITE_MS : LINE_MS).unref()
  }

  turn({ usage, error }: TurnRecord): void {
    this.#turns += 1
    if (error !== undefined) this.#failed += 1
    this.#prompt += usage.promptTokens ?? 0
    this.#cached += usage.cachedTokens ?? 0
  }

  sessionOver(): void {
    this.#sessions += 1
  }

  /** Writes the last state and a line end. */
  stop(): void {
    clearInterval(this.#timer)
    this.#show()
    if (this.#screen.isTTY) this.#screen.write('\n')
  }

  line(): string {
    const { router, turns, sessions, speed } = this.#goal
    const model = ((performance.now() - this.#began) * speed) / 1000
    const hit = this.#prompt === 0 ? 0 : (100 * this.#cached) / this.#prompt
    const failed = this.#failed === 0 ? '' : `, ${this.#failed} failed`
    return `${router.padEnd(12)} ${this.#turns}/${turns} turns, ${this.#sessions}/${sessions} sessions, hit rate ${hit.toFixed(0)} %, model time ${model.toFixed(0)} s${failed}`
  }

  #show(): void {
    // \x1b[K clears what a longer line left behind.
    this.#screen.write(this.#screen.isTTY ? `\r${this.line()}\x1b[K` : `${this.line()}\n`)
  }
}

/** What goes on before there is progress; only where it will be overwritten. */
function announce(screen: Screen, text: string): void {
  if (screen.isTTY) screen.write(`\r${text}\x1b[K`)
}

export { announce, Progress, type Screen }
