/** What may be said of a replay over HTTP. */
import type { Loop } from './schedule.js'

interface EndpointOptions {
  /** Base addresses, driven one after the other. */
  urls: readonly string[]
  model: string
  /** Sent with every request. */
  headers: Readonly<Record<string, string>>
  /** Members of every body. */
  body: Readonly<Record<string, unknown>>
  loop: Loop
  /** How much faster pauses pass than in the trace. */
  speed: number
  /** Requests under way at most. */
  concurrency: number
  patienceMs?: number
  /** Which text the blocks become. */
  seed: number
}

export type { EndpointOptions }
