/**
 * The bounded queue before one sink: a turn puts its record there and goes on.
 *
 * One write is under way at a time, with everything that gathered meanwhile. A record that finds
 * the queue full is dropped and counted; one whose write failed counts as lost. Neither is said to
 * anybody but `status()` and, the first time in a row, the logger. Who flushes waits for a sink that does
 * not answer only so long; what it has and what waits for it counts as lost then. A timer for records that gather
 * keeps no process alive: when nothing else does, they are written before it ends.
 */
import type { Logger, TraceFunction, TraceSettings, TraceSink } from '../config/index.js'
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
  readonly #giveUpMs: number
  /** Of the write that somebody still hopes for. */
  #underWay: readonly TraceRecord[] = []
  #waiting: TraceRecord[] = []
  #writing: Promise<void> | undefined
  #soon: NodeJS.Immediate | undefined
  #later: NodeJS.Timeout | undefined
  #isFailing = false
  #isClosed = false

  constructor(
    sink: TraceSink | TraceFunction,
    { queue, giveUpMs }: Pick<TraceSettings, 'queue' | 'giveUpMs'>,
    logger: Logger | undefined,
  ) {
    const isFunction = typeof sink === 'function'
    this.#sink = isFunction ? { write: ([record]) => record && sink(record) } : sink
    this.#most = isFunction ? 1 : queue
    this.#capacity = queue
    this.#giveUpMs = giveUpMs
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
    while (this.#waiting.length > 0 || this.#underWay.length > 0) {
      this.#write()
      if (!(await this.#inTime(this.#writing))) this.#giveUp()
    }
  }

  /** After the last record. */
  async close(): Promise<void> {
    await this.flush()
    this.#isClosed = true
    try {
      const isClosed = await this.#inTime(this.#sink.close?.())
      if (!isClosed) this.#failed(0, new Error('it does not close'))
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
    this.#underWay = batch
    try {
      await this.#sink.write(batch)
      if (this.#underWay !== batch) return
      this.counts.written += batch.length
      this.#isFailing = false
    } catch (error) {
      if (this.#underWay === batch) this.#failed(batch.length, error)
    }
    if (this.#underWay === batch) this.#underWay = []
  }

  /** False when it takes too long. The process lives until then: somebody waits for it. */
  async #inTime(work: void | Promise<void>): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<false>((resolve) => {
      timer = setTimeout(() => resolve(false), this.#giveUpMs)
    })
    try {
      return await Promise.race([Promise.resolve(work).then(() => true), late])
    } finally {
      clearTimeout(timer)
    }
  }

  /** What the sink has and what waits for it is lost, whatever it does later. */
  #giveUp(): void {
    const records = this.#underWay.length + this.#waiting.length
    this.#underWay = []
    this.#waiting = []
    this.#failed(records, new Error('it does not answer'))
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
