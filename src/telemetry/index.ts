/**
 * What happens, for whoever subscribes on node:diagnostics_channel.
 *
 * `warmpath:decision` a turn may go, `warmpath:hold` a turn waits, `warmpath:end` a reservation
 * ended, `warmpath:error` a submit was refused, `warmpath:disagreement` prompts and
 * an engine's events turned out to speak of different tokens. Messages are built only when somebody listens, so
 * silence costs one property read. They carry no session id, no tenant and no text: receipts link
 * them to what happened.
 *
 * `warmpath:trace` is another matter: whole trace records, session names and all, for who has asked
 * for them with the option `trace`.
 */
import { channel } from 'node:diagnostics_channel'
import type { TraceRecord } from './record.js'

export { metricFamilies } from './families.js'
export {
  type MetricFamily,
  type MetricRegistry,
  type MetricValue,
  metricsText,
  registerMetrics,
} from './metrics.js'
export type {
  TracedBlocks,
  TracedRequest,
  TracedToolCall,
  TracedTurn,
  TracedWorker,
  TraceEvent,
  TraceRecord,
} from './record.js'

export interface DecisionMessage {
  readonly reservation: number
  readonly receipt: number
  readonly target: string
  readonly worker: string
  readonly promptTokens: number
  readonly predictedCachedTokens: number
  readonly heldMs: number
}

export interface HoldMessage {
  readonly reservation: number
  readonly promptTokens: number
}

export interface EndMessage {
  readonly reservation: number
  /** completed, cancelled, failed or dropped. */
  readonly outcome: string
}

export interface ErrorMessage {
  readonly code: string
}

export interface DisagreementMessage {
  readonly worker: string
  /** As the status of the worker says it. */
  readonly cause: string
  readonly ours: number
  readonly theirs: number
}

const decisions = channel('warmpath:decision')
const holds = channel('warmpath:hold')
const ends = channel('warmpath:end')
const errors = channel('warmpath:error')
const disagreements = channel('warmpath:disagreement')
const traces = channel('warmpath:trace')

export const published = {
  decision(message: () => DecisionMessage): void {
    if (decisions.hasSubscribers) decisions.publish(message())
  },
  hold(reservation: number, promptTokens: number): void {
    if (!holds.hasSubscribers) return
    holds.publish({ reservation, promptTokens } satisfies HoldMessage)
  },
  end(reservation: number, outcome: string): void {
    if (ends.hasSubscribers) ends.publish({ reservation, outcome } satisfies EndMessage)
  },
  disagreement(message: DisagreementMessage): void {
    if (disagreements.hasSubscribers) disagreements.publish(message)
  },
  error(code: string): void {
    if (errors.hasSubscribers) errors.publish({ code } satisfies ErrorMessage)
  },
  get wantsTraces(): boolean {
    return traces.hasSubscribers
  },
  trace(record: TraceRecord): void {
    if (traces.hasSubscribers) traces.publish(record)
  },
}
