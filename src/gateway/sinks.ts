/**
 * Question: when may a gateway touch the files of its traces?
 *
 * Opening a sink moves the file aside that is there, which another gateway may be writing. So the
 * scheduler gets sinks that are not open yet, and they are opened when the gateway has its address. One
 * that never gets it, or that only looks at its configuration, leaves all files alone.
 */
import type { SchedulerOptions, TraceOptions, TraceRecord, TraceSink } from '../index.js'

type Sink = Extract<NonNullable<TraceOptions['sink']>, unknown[]>[number]

class LateSink implements TraceSink {
  readonly gatherMs?: number
  readonly #sink: TraceSink
  #isOpen = false

  constructor(sink: TraceSink) {
    this.#sink = sink
    if (sink.gatherMs !== undefined) this.gatherMs = sink.gatherMs
  }

  openNow(): void {
    this.#sink.open?.()
    this.#isOpen = true
  }

  wants(): boolean {
    return this.#isOpen && (this.#sink.wants?.() ?? true)
  }

  write(records: readonly TraceRecord[]): void | Promise<void> {
    return this.#sink.write(records)
  }

  close(): void | Promise<void> {
    if (this.#isOpen) return this.#sink.close?.()
  }
}

/** The same options with sinks that are opened by `open`, which throws what one of them throws. */
function openedLater(options: SchedulerOptions): { options: SchedulerOptions; open: () => void } {
  const given = options.trace?.sink
  if (given === undefined) return { options, open: () => {} }
  const late = new Map<Sink, LateSink>()
  const later = (sink: Sink): Sink => {
    if (!isOpened(sink)) return sink
    const known = late.get(sink) ?? new LateSink(sink)
    late.set(sink, known)
    return known
  }
  const sink = Array.isArray(given) ? given.map(later) : later(given)
  const open = () => {
    for (const each of late.values()) each.openNow()
  }
  return { options: { ...options, trace: { ...options.trace, sink } }, open }
}

/** Others, and what is no sink at all, are the scheduler's to take or refuse. */
function isOpened(sink: Sink): sink is TraceSink & { open(): void } {
  if (typeof sink !== 'object' || sink === null || typeof sink.open !== 'function') return false
  const others = [sink.wants, sink.close].filter((method) => method !== undefined)
  return [sink.write, ...others].every((method) => typeof method === 'function')
}

export { openedLater }
