/**
 * The bounded queue before one sink: a turn puts its record there and goes on.
 *
 * One write is under way at a time, with everything that gathered meanwhile. A record that finds
 * the queue full is dropped and counted; one whose write failed counts as lost. Neither is said to
 * anybody but `status()` and, the first time in a row, the logger. A timer for records that gather
 * keeps no process alive: when nothing else does, they are written before it ends.
 */
import type { Logger, TraceFunction, TraceSink } from '../config/index.js'
import type { TraceRecord } from '../telemetry/index.js'

export interface OutletCounts {
  /** Taken by the sink. */
  written: number
  /** There was no room for them. */
  dropped: number
  /** The sink failed on them. */
  lost: number
}

/** Outlets with records that gather. */
const gathering = new Set<Outlet>()
let isHeard = false

export class Outlet {
  readonly counts: OutletCounts = { written: 0, dropped: 0, lost: 0 }
  readonly #sink: TraceSink
  readonly #most: number
  readonly #capacity: number
  readonly #logger: Logger | undefined
  #waiting: TraceRecord[] = []
  #writing: Promise<void> | undefined
  #soon: NodeJS.Immediate | undefined
  #later: NodeJS.Timeout | undefined
  #isFailing = false
  #isClosed = false

  constructor(sink: TraceSink | TraceFunction, capacity: number, logger: Logger | undefined) {
    const isFunction = typeof sink === 'function'
    this.#sink = isFunction ? { write: ([record]) => record && sink(record) } : sink
    this.#most = isFunction ? 1 : capacity
    this.#capacity = capacity
    this.#logger = logger
  }

  open(): void {
    this.#sink.open?.()
  }

  get waiting(): number {
    return this.#waiting.length
  }

  /** Whether a record would reach anybody now. */
  get wants(): boolean {
    try {
      return this.#sink.wants?.() ?? true
    } catch {
      return true
    }
  }

  /** Whether there is room; a record without room is counted here. */
  admits(): boolean {
    if (this.#waiting.length < this.#capacity && !this.#isClosed) return true
    this.counts.dropped += 1
    return false
  }

  push(record: TraceRecord): void {
    this.#waiting.push(record)
    if (this.#writing !== undefined || this.#soon !== undefined) return
    const gatherMs = this.#sink.gatherMs ?? 0
    if (gatherMs === 0 || 2 * this.#waiting.length >= this.#capacity) this.#writeSoon()
    else this.#writeLater(gatherMs)
  }

  /** Resolves when what was pushed before has been written, or lost. */
  async flush(): Promise<void> {
    while (this.#waiting.length > 0 || this.#writing !== undefined) {
      this.#write()
      await this.#writing
    }
  }

  /** After the last record. */
  async close(): Promise<void> {
    await this.flush()
    this.#isClosed = true
    try {
      await this.#sink.close?.()
    } catch (error) {
      this.#failed(0, error)
    }
  }

  #writeSoon(): void {
    clearTimeout(this.#later)
    this.#later = undefined
    this.#soon = setImmediate(() => this.#write())
  }

  #writeLater(gatherMs: number): void {
    if (this.#later !== undefined) return
    hearTheEnd(this)
    this.#later = setTimeout(() => this.#write(), gatherMs).unref()
  }

  #write(): void {
    clearTimeout(this.#later)
    clearImmediate(this.#soon)
    this.#later = undefined
    this.#soon = undefined
    gathering.delete(this)
    if (this.#writing !== undefined || this.#waiting.length === 0) return
    this.#writing = this.#drain().finally(() => {
      this.#writing = undefined
      if (this.#waiting.length > 0 && this.#soon === undefined) this.#writeSoon()
    })
  }

  /** Never rejects. Gives way between writes, so that a fast sink does not hold up turns. */
  async #drain(): Promise<void> {
    const most = this.#most
    const waiting = this.#waiting
    const batch = waiting.length <= most ? waiting : waiting.slice(0, most)
    this.#waiting = waiting.length <= most ? [] : waiting.slice(most)
    try {
      await this.#sink.write(batch)
      this.counts.written += batch.length
      this.#isFailing = false
    } catch (error) {
      this.#failed(batch.length, error)
    }
  }

  #failed(records: number, cause: unknown): void {
    this.counts.lost += records
    if (!this.#isFailing) this.#logger?.error({ cause, records }, 'a trace sink fails')
    this.#isFailing = true
  }
}

function hearTheEnd(outlet: Outlet): void {
  gathering.add(outlet)
  if (isHeard) return
  isHeard = true
  process.on('beforeExit', () => {
    for (const each of gathering) void each.flush()
  })
}
