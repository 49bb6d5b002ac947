/**
 * What is written down during a run?
 *
 * Plain data, filled by the driver and read by everything that reports. All times are model time
 * in ms since the start of the run: the time that the engines live in, whatever the speed at which
 * it passes on the wall. Absent means not measured, never zero.
 */
import type { AnswerUsage } from './answers.js'

/** The three routers, in the order in which they run and are shown. */
const ROUTERS = ['round-robin', 'least-loaded', 'warmpath'] as const

type RouterName = (typeof ROUTERS)[number]

interface TurnRecord {
  session: string
  /** 0 for a session's first turn. */
  index: number
  sentMs: number
  /** First byte of content at the client; the hold is part of the way there. */
  firstContentMs?: number
  endedMs?: number
  /** How long the router held the turn back before it sent it on. */
  heldMs?: number | undefined
  /** The worker that served it and the id of the decision, where the router names them. */
  worker?: string | undefined
  receipt?: string | undefined
  /** The router's name for the session. */
  routerSession?: string | undefined
  usage: AnswerUsage
  /** Why the turn failed. */
  error?: string | undefined
}

interface SessionRecord {
  id: string
  parent?: string
  startedMs: number
  /** When the last answer ended; absent when the session did not get that far. */
  completedMs?: number
  /** What the session would take with a warm engine to itself, tools included. */
  aloneMs: number
}

interface RunRecord {
  router: RouterName
  turns: readonly TurnRecord[]
  sessions: readonly SessionRecord[]
  /** From the start of the run to the end of its last answer. */
  elapsedMs: number
  /** Reservations that the router still had when every session was over; 0 where it has none. */
  reservationsLeft: number
  /** Prompt tokens as the engines counted them: an account of their own of what clients were told. */
  engineTokens: { prompt: number; cached: number }
  pace: Pace
}

/** Whether the machine kept up with the model clock. */
interface Pace {
  /** Model ms that pass in one wall ms. */
  speed: number
  /** How late engine passes became visible, model ms, 99th percentile of the worst engine. */
  lagP99Ms: number
  /**
   * What a turn's first content waited for beside hold and engine, model ms, mean: sockets, the
   * router's and the driver's own time, at the rate at which model time passes.
   */
  overheadMs: number
}

export { type Pace, ROUTERS, type RouterName, type RunRecord, type SessionRecord, type TurnRecord }
