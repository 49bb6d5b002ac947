/**
 * Question: how does a request become a turn, at once or after a hold?
 *
 * One native call a submit. A turn that must wait is a promise that settles exactly once: by the core, by
 * the abort signal or by `close`. Whatever throws between the core's answer and the turn gives the
 * reservation back.
 */
import type { Clock } from '../clock.js'
import type { ContinuitySettings } from '../config/index.js'
import { WarmpathError } from '../errors.js'
import type { Exact } from '../exact.js'
import type { Origin } from '../link/frame.js'
import type { Link, LockName, Placement } from '../link.js'
import { published } from '../telemetry/index.js'
import type { Recorder, TurnTrace } from '../trace/index.js'
import { checkRequest } from '../turn/check.js'
import { abortError, waitForGo } from '../turn/hold.js'
import type { ReadRequest, TurnRequest } from '../turn/request.js'
import { type Route, Turn } from '../turn.js'
import type { Intake } from './intake.js'
import type { Terms } from './terms.js'

export interface TurnsParts {
  readonly link: Link
  readonly terms: Terms
  readonly intake: Intake
  readonly exact: Exact
  readonly recorder: Recorder | undefined
  readonly clock: Clock
}

/** A turn that the core has taken in, and what goes with it until it goes. */
interface TakenTurn {
  readonly read: ReadRequest
  readonly placement: Placement
  readonly session: string
  readonly signal: AbortSignal | undefined
  readonly trace: TurnTrace | undefined
}

export class Turns {
  readonly #parts: TurnsParts

  constructor(parts: TurnsParts) {
    this.#parts = parts
  }

  /** See `Scheduler.submit`. */
  async submit(request: TurnRequest): Promise<Turn> {
    const { terms, exact } = this.#parts
    try {
      if (!terms.wantsTokens) return stillWanted(await this.#submit(request, 'given'), request)
      checkRequest(request)
      const known = await exact.know(request, terms.catalog)
      return stillWanted(await this.#submit(known.request, known.origin), request)
    } catch (error) {
      const code = WarmpathError.is(error) ? error.code : 'unknown'
      published.error(code)
      terms.config.logger?.debug({ code }, 'turn refused')
      throw error
    }
  }

  #submit(request: TurnRequest, origin: Origin): Turn | Promise<Turn> {
    const { link, intake, recorder } = this.#parts
    if (link.closed) throw new WarmpathError('WARMPATH_CLOSED', 'the scheduler is closed')
    checkRequest(request)
    const { signal } = request
    if (signal?.aborted) throw abortError(signal)
    const received = recorder?.arrival()
    const isTraced = received !== undefined || recorder?.keepsSteps === true
    const { read, placement } = intake.take(request, origin, isTraced)
    let result: Turn | Promise<Turn>
    try {
      const session = read.identity.session ?? placement.derivedSession ?? ''
      const trace = recorder?.begin({ ...read, ...placement, session, received })
      const taken = { read, placement, session, signal, trace }
      result = isPlaced(placement) ? this.#turn(taken, placement, 0) : this.#hold(request, taken)
    } catch (error) {
      // A logger or a signal of the caller threw. What was settled is read before it is overwritten.
      link.settle()
      link.cancel(placement.reservation)
      throw error
    }
    link.settle()
    return result
  }

  #hold({ onHold }: TurnRequest, taken: TakenTurn): Promise<Turn> {
    const { link, terms, clock } = this.#parts
    const { read, signal } = taken
    const { reservation, promptTokens } = taken.placement
    published.hold(reservation, promptTokens)
    terms.config.logger?.debug({ reservation, promptTokens }, 'turn held')
    const stream = read.facts?.stream ?? false
    const plan = { link, reservation, clock, stream, signal, onHold }
    return waitForGo(plan, (settlement) => this.#turn(taken, settlement, settlement.heldMs))
  }

  #turn(taken: TakenTurn, route: Route, heldMs: number): Turn {
    const { link, terms } = this.#parts
    const { config } = terms
    const { read, session, signal, trace } = taken
    const { reservation, promptTokens, lock } = taken.placement
    const plan = {
      link,
      read,
      session,
      heldMs,
      lock,
      ownerWaitMs: ownerWaitOf(config.continuity, lock),
      forwardHeaders: config.forwardHeaders,
      maxBytes: config.settings.limits.bodyBytes,
      signal,
      logger: config.logger,
      trace,
    }
    const turn = new Turn(plan, reservation, promptTokens, route)
    trace?.go(heldMs)
    published.decision(() => ({
      reservation,
      receipt: route.receipt,
      target: turn.target,
      worker: turn.worker,
      promptTokens,
      predictedCachedTokens: route.predictedCachedTokens,
      heldMs,
    }))
    return turn
  }
}

/** Its client may have gone while its turn was on the way to the caller. Throws ABORTED. */
function stillWanted(turn: Turn, { signal }: TurnRequest): Turn {
  if (!signal?.aborted) return turn
  turn[Symbol.dispose]()
  throw abortError(signal)
}

/** Whether the turn may go at once. */
function isPlaced(placement: Placement): placement is Placement & Route {
  return placement.worker !== undefined
}

/** For how long the owner of such a lock is waited for, in milliseconds. */
function ownerWaitOf(settings: ContinuitySettings, lock: LockName): number {
  const isState = lock === 'provider-state'
  const setting = isState ? settings.stateOwnerDown : settings.toolOwnerDown
  return lock !== 'free' && setting === 'wait' ? settings.ownerWaitMs : 0
}
