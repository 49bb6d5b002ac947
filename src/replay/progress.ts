/**
 * What does a person see while runs go on?
 *
 * On a terminal one line that is rewritten a few times a second; elsewhere a line whenever a run ends
 * and some seconds have passed. Goes to standard error, so that tables on standard output stay clean.
 */
import type { Cell } from './plan.js'
import type { Watcher } from './run.js'
import { caption } from './summary.js'

/** The part of a stream that is written to. */
interface Screen {
  readonly isTTY?: boolean
  write(text: string): unknown
}

const REWRITE_MS = 150
const LINE_MS = 4000

class Progress implements Watcher {
  readonly #screen: Screen
  readonly #shares = new Map<Cell, number>()
  #done = 0
  #total = 0
  #shown = 0

  constructor(screen: Screen) {
    this.#screen = screen
  }

  /** Something that has no share. */
  announce(text: string): void {
    this.#screen.write(this.#screen.isTTY ? `\r${text}\x1b[K` : `${text}\n`)
  }

  begun(cell: Cell, total: number): void {
    this.#total = total
    this.#shares.set(cell, 0)
    this.#show()
  }

  moved(cell: Cell, share: number): void {
    if (!this.#shares.has(cell)) return
    this.#shares.set(cell, share)
    this.#show()
  }

  ended(cell: Cell): void {
    this.#shares.delete(cell)
    this.#done += 1
    this.#show()
  }

  /** Leaves the line behind. */
  stop(): void {
    if (this.#screen.isTTY) this.#screen.write('\r\x1b[K')
  }

  line(): string {
    const under = [...this.#shares].map(
      ([cell, share]) => `${cell.label} (${caption(cell)}) ${Math.round(share * 100)} %`,
    )
    return [`${this.#done}/${this.#total} runs`, ...under].join('  ')
  }

  #show(): void {
    const now = performance.now()
    if (now - this.#shown < (this.#screen.isTTY ? REWRITE_MS : LINE_MS)) return
    this.#shown = now
    this.announce(this.line())
  }
}

export { Progress, type Screen }
