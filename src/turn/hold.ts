/**
 * The promise of a turn that waits for admission.
 *
 * It settles exactly once, by whichever comes first: the core's settlement, the abort signal, or an
 * `onHold` that throws or rejects. Whoever loses finds the waiter gone. After an abort the reservation is given
 * back in the same call, also when the core had just let the turn go.
 */
import type { Clock } from '../clock.js'
import { type ErrorCode, WarmpathError } from '../errors.js'
import { type HoldState, type Link, Outcome, type Settlement } from '../link.js'
import { onAbort } from './abort.js'
import type { Hold } from './request.js'

export interface HoldPlan {
  readonly link: Link
  readonly reservation: number
  readonly clock: Clock
  /** The client asked for a stream. */
  readonly stream: boolean
  readonly signal: AbortSignal | undefined
  readonly onHold: ((hold: Hold) => void) | undefined
}

const REFUSALS: ReadonlyMap<number, readonly [ErrorCode, string]> = new Map([
  [Outcome.closed, ['WARMPATH_CLOSED', 'the scheduler was closed while the turn was held']],
  [Outcome.holdLimit, ['WARMPATH_HOLD_LIMIT', 'the turn was held for the longest time allowed']],
  [
    Outcome.ownerUnavailable,
    ['WARMPATH_OWNER_UNAVAILABLE', 'what the turn leans on is kept by a worker that is down'],
  ],
  [
    Outcome.stateLost,
    ['WARMPATH_STATE_LOST', 'what the turn leans on was kept by a worker that has been removed'],
  ],
  [Outcome.noWorker, ['WARMPATH_NO_WORKER', 'no worker is left that could take the held turn']],
])

/**
 * Resolves with what `go` makes of the settlement. What is thrown here and not by the promise comes
 * before anybody waits; the reservation is the caller's then.
 */
export function waitForGo<T>(plan: HoldPlan, go: (settlement: Settlement) => T): Promise<T> {
  const { link, reservation, signal, onHold } = plan
  const since = plan.clock()
  const { promise, resolve, reject } = deferred<T>()
  const leave = (error: unknown): void => {
    unhear()
    link.forget(reservation)
    link.cancel(reservation)
    reject(error)
  }
  const moved = ({ position, reason, class: inClass, expectedMs }: HoldState): void => {
    try {
      const heldMs = plan.clock() - since
      const heard: unknown = onHold?.({
        id: String(reservation),
        position,
        reason,
        class: inClass,
        expectedMs,
        heldMs,
        stream: plan.stream,
      })
      if (heard instanceof Promise) heard.catch(leave)
    } catch (error) {
      leave(error)
    }
  }
  const settle = (settlement: Settlement): void => {
    unhear()
    if (settlement.outcome !== Outcome.go) {
      reject(holdError(settlement))
      return
    }
    try {
      // The room may come from another turn of the same signal, while that aborts.
      if (signal?.aborted) throw abortError(signal)
      resolve(go(settlement))
    } catch (error) {
      link.cancel(reservation)
      reject(error)
    }
  }
  const unhear = onAbort(signal, () => leave(signal && abortError(signal)))
  link.wait(reservation, onHold === undefined ? { settle } : { settle, moved })
  return promise
}

function deferred<T>() {
  let resolve!: (value: T) => void
  let reject!: (error: unknown) => void
  const promise = new Promise<T>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}

export function abortError(signal: AbortSignal): WarmpathError {
  return new WarmpathError('WARMPATH_ABORTED', 'the client went away', { cause: signal.reason })
}

function holdError(settlement: Settlement): WarmpathError {
  const { outcome, heldMs } = settlement
  const [code, message] = REFUSALS.get(outcome) ?? ['WARMPATH_PANIC', `outcome ${outcome}`]
  const retryAfterSeconds = retryAfter(settlement)
  return new WarmpathError(code, message, {
    detail: { heldMs },
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  })
}

/**
 * The longest time that is told, in seconds. The clients of OpenAI and Anthropic take less than a minute at
 * its word, and of what is longer nothing: they come back within a second or so.
 */
const MOST_SECONDS = 59
/** By when a worker that is gone may be back: a gateway asks such a one every two seconds. */
const BACK_SECONDS = 5

/**
 * In how many whole seconds a repeat is worth trying. After the limit when the turn would have gone; where
 * nobody has gone yet, so that nobody knows, in as long again as it has waited.
 */
function retryAfter({ outcome, expectedMs, heldMs }: Settlement): number | undefined {
  if (outcome === Outcome.ownerUnavailable || outcome === Outcome.noWorker) return BACK_SECONDS
  if (outcome !== Outcome.holdLimit) return undefined
  return Math.min(Math.max(Math.ceil((expectedMs ?? heldMs) / 1000), 1), MOST_SECONDS)
}
