/**
 * The one place that calls the native scheduler.
 *
 * Every call fills the caller-owned `out` array; this file knows its layout and does what each call
 * asks for besides its result: hands settlements to the turns that wait for them, re-reads names
 * when the epoch moved, and keeps the one timer (which never keeps a process alive). Waiters run
 * after all of `out` has been read, since they may call back into the scheduler.
 *
 * Cost: a call adds four array reads; re-arming the timer happens only when the core wants to be
 * woken earlier. Trusts the layout of `out`; makes no decision.
 */
import { type Clock, micros } from './clock.js'
import type { ModelPrice } from './config/index.js'
import { countOf, type Usage } from './dialects/index.js'
import { fromNative, WarmpathError } from './errors.js'
import { FrameWriter, packIds, type TurnFrame } from './link/frame.js'
import { Topology } from './link/topology.js'
import { native, type SchedulerHandle } from './native.js'

/** Where a turn was put, or that it waits (`worker` is absent). */
export interface Placement {
  readonly reservation: number
  readonly target: number
  readonly worker: number | undefined
  /** The data-parallel rank to ask for; absent where the engine may choose. */
  readonly rank: number | undefined
  readonly receipt: number
  /** Estimated. */
  readonly promptTokens: number
  readonly predictedCachedTokens: number
  /** Why this model, as `reasonOf` reads it. */
  readonly why: number
  /** What locks the turn. */
  readonly lock: LockName
  /** Whether what cannot travel has to be taken out of what is sent. */
  readonly stripped: boolean
  /** The core's own name of a session that the request did not name, as receipts show it. */
  readonly derivedSession: string | undefined
}

/** What locks a turn, by the core's numbers. */
export const LOCKS = ['free', 'tool-loop', 'provider-state', 'both'] as const
export type LockName = (typeof LOCKS)[number]

export const Outcome = {
  go: 0,
  closed: 2,
  holdLimit: 3,
  ownerUnavailable: 4,
  noWorker: 5,
  stateLost: 6,
} as const

/** What a session has sent before of a body. */
export interface Recalled {
  /** For the submit of this turn. */
  readonly ticket: number
  /** Items whose segments are known, and all that stands before them. */
  readonly items: number
}

/** How a held turn's wait ended. */
export interface Settlement {
  readonly outcome: number
  readonly target: number
  readonly worker: number
  readonly rank: number | undefined
  readonly receipt: number
  readonly predictedCachedTokens: number
  readonly why: number
  readonly heldMs: number
  /** Whether what cannot travel has to be taken out of what is sent. */
  readonly stripped: boolean
  /** Of a turn that reached the limit: how much longer it should have had to wait, where anybody knows. */
  readonly expectedMs: number | undefined
}

/** How a turn waits at the moment. */
export interface HoldState {
  /** From 1. */
  readonly position: number
  readonly reason: HoldReason
  /** The class of the queue that it waits in, where there are several. */
  readonly class: string | undefined
  /** How much longer it should take; undefined where nobody knows. */
  readonly expectedMs: number | undefined
}

/**
 * What a held turn waits for: the `owner` of its lock, a worker below `max-running` or `max-sessions`,
 * behind other tenants (`tenant-share`) or higher classes (`priority`), what the policy holds for (`room`), or
 * the first token of a turn that computes the beginning of its prompt (`leader`).
 */
export type HoldReason =
  | 'owner'
  | 'max-running'
  | 'max-sessions'
  | 'tenant-share'
  | 'priority'
  | 'room'
  | 'leader'

export interface Waiter {
  settle(settlement: Settlement): void
  /** Present when somebody wants to know; called when something of it has changed. */
  moved?(state: HoldState): void
}

/** What the answer of a turn told. */
export interface Completion {
  readonly usage?: Usage | undefined
  /** Whether the model ended its turn without open tool calls; absent = unknown. */
  readonly finished?: boolean | undefined
  readonly toolCalls?: readonly string[]
  readonly state?: readonly string[]
}

/** What a scheduler was told, as a trace has it. */
export interface ToldSteps {
  readonly scheduler: string
  readonly steps: readonly object[]
}

/** A native call that fills `out`. */
type Call = (handle: SchedulerHandle, now: number, out: Float64Array) => unknown

interface Waiting {
  readonly waiter: Waiter
  /** What was told last. */
  told: HoldState | undefined
}

const OUT = {
  wakeAt: 0,
  epoch: 1,
  settled: 2,
  more: 3,
  reservation: 4,
  target: 5,
  worker: 6,
  rank: 7,
  receipt: 8,
  promptTokens: 9,
  predicted: 10,
  why: 12,
  keyHigh: 13,
  keyLow: 14,
  stripped: 16,
  lock: 17,
  size: 18,
} as const
const SETTLEMENT = 11
const SETTLEMENTS = 32
const LOOK_EVERY_MS = 1000
const MAX_DELAY_MS = 0x7fff_ffff
/** What a submit answers when the text of the whole prompt is needed after all. */
const AGAIN = 2
/** A recalled body is one number: its ticket times this, and its items. */
const TICKET = 2 ** 21
const MEMBERS = { messages: 0, input: 1 } as const

/** Links that somebody waits at: they live until the last hold is settled. */
const awaited = new Set<Link>()

export class Link {
  readonly #handle: SchedulerHandle
  readonly #clock: Clock
  readonly #writer: FrameWriter
  readonly #out = new Float64Array(OUT.size + SETTLEMENT * SETTLEMENTS)
  readonly #usage = new Float64Array(4)
  readonly #state = new Float64Array(OUT.size + SETTLEMENT)
  readonly #waiting = new Map<number, Waiting>()
  /** The queue's, where turns have waited in any. */
  #classes: readonly string[] | undefined
  /** Prices that were set while it ran, by target. */
  readonly prices = new Map<string, ModelPrice>()
  #newcomers: number[] = []
  #watchers = 0
  #lookedAt = 0
  #topology: Topology
  #timer: NodeJS.Timeout | undefined
  #armedFor = Number.POSITIVE_INFINITY
  #closed = false

  constructor(open: (wake: () => void) => SchedulerHandle, clock: Clock, maxBytes: number) {
    this.#clock = clock
    this.#writer = new FrameWriter(maxBytes)
    // Native code keeps what it may call alive: a scheduler that everybody forgot shall not be.
    const self = new WeakRef(this)
    this.#handle = guarded(() => open(() => self.deref()?.poll()))
    this.#topology = new Topology(native.topology(this.#handle))
  }

  get topology(): Topology {
    return this.#topology
  }

  /** The topology with what other threads did to it. */
  fresh(): Topology {
    this.poll()
    return this.#topology
  }

  get closed(): boolean {
    return this.#closed
  }

  /**
   * Holds a body against the last one of its session. Absent when there is nothing to hold it against;
   * else the frame of this turn is of what is not known, with the ticket.
   */
  recall(
    tenant: string,
    session: string,
    raw: Uint8Array,
    member: keyof typeof MEMBERS,
  ): Recalled | undefined {
    const { bytes, tenantBytes } = this.#writer.names(tenant, session)
    const found = guarded(() =>
      native.recallBody(this.#handle, bytes, tenantBytes, raw, MEMBERS[member]),
    )
    if (found === 0) return undefined
    const ticket = Math.floor(found / TICKET)
    return { ticket, items: found - ticket * TICKET }
  }

  /**
   * Takes a reservation. Call `wait` for a held one, then `settle`. Absent when a recalled prompt has
   * to come again with the text of all of it.
   */
  submit(frame: TurnFrame): Placement | undefined {
    this.#open()
    const writer = this.#writer
    writer.write(frame)
    const now = micros(this.#clock)
    const { head, ids, prompt } = writer
    let answer: number
    try {
      answer = native.submitTurn(this.#handle, now, head, ids, prompt, this.#out)
    } catch (error) {
      throw fromNative(error)
    }
    if (answer !== AGAIN) return this.#placement()
    this.settle()
    return undefined
  }

  /** Of the turn submitted last: how long each segment of its text is, in bytes. */
  segmentBytes(): Uint32Array {
    return this.#writer.segmentBytes()
  }

  /**
   * Fills `out` with the block hashes of a turn that has not ended, keyed unless `key` is empty, and
   * returns how many there are in it. `cuts`: bytes of a block, then of each segment of the text.
   */
  hashes(reservation: number, cuts: Uint32Array, key: Uint8Array, out: BigUint64Array): number {
    return guarded(() => native.turnHashes(this.#handle, reservation, cuts, key, out))
  }

  /** What the scheduler was told since the last call; absent where it keeps nothing. */
  takeSteps(): ToldSteps | undefined {
    const text = guarded(() => native.takeSteps(this.#handle))
    return text === null ? undefined : (JSON.parse(text) as ToldSteps)
  }

  /** Does what the last call asked for besides its result. */
  settle(): void {
    const out = this.#out
    const due: [Waiter, Settlement][] = []
    for (;;) {
      const count = out[OUT.settled] ?? 0
      for (let at = 0; at < count; at += 1) this.#collect(OUT.size + SETTLEMENT * at, due)
      if (out[OUT.more] !== 1) break
      guarded(() => native.pollScheduler(this.#handle, micros(this.#clock), out))
    }
    this.#refresh()
    this.#arm(out[OUT.wakeAt] ?? -1)
    for (const [waiter, settlement] of due) waiter.settle(settlement)
    if (this.#watchers > 0) this.#look()
  }

  /** The waiter hears from the next `settle` on. */
  wait(reservation: number, waiter: Waiter): void {
    this.#waiting.set(reservation, { waiter, told: undefined })
    awaited.add(this)
    if (waiter.moved === undefined) return
    this.#watchers += 1
    this.#newcomers.push(reservation)
  }

  forget(reservation: number): void {
    const waiting = this.#waiting.get(reservation)
    if (waiting === undefined) return
    this.#waiting.delete(reservation)
    if (this.#waiting.size === 0) awaited.delete(this)
    if (waiting.waiter.moved !== undefined) this.#watchers -= 1
  }

  /** Tokens of the prompt as the first of the frame's targets is believed to count them. */
  promptTokens(frame: TurnFrame): number {
    this.#open()
    const writer = this.#writer
    writer.write(frame)
    const { head, ids, prompt } = writer
    return guarded(() => native.promptTokens(this.#handle, head, ids, prompt))
  }

  candidates(frame: TurnFrame): string {
    this.#open()
    const writer = this.#writer
    writer.write(frame)
    const now = micros(this.#clock)
    const { head, ids, prompt } = writer
    const found = guarded(() => native.candidates(this.#handle, now, head, ids, prompt, this.#out))
    this.settle()
    return found
  }

  /**
   * Moves a reservation to its next candidate, and its session too where the fault lasts. Throws
   * NO_WORKER or OWNER_UNAVAILABLE.
   */
  reroute(reservation: number, lasts: boolean): Placement {
    this.#open()
    guarded(() =>
      native.rerouteTurn(this.#handle, micros(this.#clock), reservation, lasts, this.#out),
    )
    const placement = this.#placement()
    this.settle()
    return placement
  }

  firstToken(reservation: number): void {
    this.#tell((handle, now, out) => native.firstToken(handle, now, reservation, out))
  }

  /** What tokens the turn's prompt is, by the word of the engine that answers it. */
  learnTokens(reservation: number, tokens: Uint32Array): void {
    this.read((handle, now) => native.learnTokens(handle, now, reservation, tokens))
  }

  complete(reservation: number, { usage, finished, toolCalls, state }: Completion): void {
    const counts = this.#usage
    counts[0] = countOf(usage?.promptTokens) ?? -1
    counts[1] = countOf(usage?.cachedTokens) ?? -1
    counts[2] = countOf(usage?.completionTokens) ?? -1
    counts[3] = finished === undefined ? -1 : Number(finished)
    const { lengths, bytes } = packIds(toolCalls ?? [], state ?? [])
    this.#tell((handle, now, out) =>
      native.completeTurn(handle, now, reservation, counts, lengths, bytes, out),
    )
  }

  /** Ends a turn that will not be answered, held or running. */
  cancel(reservation: number): void {
    this.#tell((handle, now, out) => native.cancelTurn(handle, now, reservation, false, out))
  }

  /** Ends a turn whose upstream has failed. */
  fail(reservation: number): void {
    this.#tell((handle, now, out) => native.cancelTurn(handle, now, reservation, true, out))
  }

  /** Runs what is due and delivers what other threads settled. */
  poll(): void {
    if (!this.#closed) this.#tell((handle, now, out) => native.pollScheduler(handle, now, out))
  }

  /** A change of the fleet or of what is known of sessions. */
  call(run: Call): void {
    this.#open()
    this.#tell(run)
  }

  /** A call that settles nothing. */
  read<T>(run: (handle: SchedulerHandle, now: number) => T): T {
    return guarded(() => run(this.#handle, micros(this.#clock)))
  }

  /** Settles every hold of this handle as closed. Turns that run may still end. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#tell((handle, now, out) => native.closeScheduler(handle, now, out))
  }

  #tell(run: Call): void {
    guarded(() => run(this.#handle, micros(this.#clock), this.#out))
    this.settle()
  }

  #open(): void {
    if (this.#closed) throw new WarmpathError('WARMPATH_CLOSED', 'the scheduler is closed')
  }

  #refresh(): void {
    if (this.#out[OUT.epoch] === this.#topology.epoch) return
    this.#topology = new Topology(native.topology(this.#handle))
  }

  #placement(): Placement {
    const out = this.#out
    this.#refresh()
    const worker = out[OUT.worker] ?? -1
    const high = out[OUT.keyHigh] ?? 0
    const low = out[OUT.keyLow] ?? 0
    return {
      reservation: out[OUT.reservation] ?? 0,
      target: out[OUT.target] ?? 0,
      worker: worker < 0 ? undefined : worker,
      rank: known(out[OUT.rank]),
      receipt: out[OUT.receipt] ?? 0,
      promptTokens: out[OUT.promptTokens] ?? 0,
      predictedCachedTokens: out[OUT.predicted] ?? 0,
      why: out[OUT.why] ?? -1,
      lock: LOCKS[out[OUT.lock] ?? 0] ?? 'free',
      stripped: out[OUT.stripped] === 1,
      derivedSession: high === 0 && low === 0 ? undefined : `prompt-${hex(high)}${hex(low)}`,
    }
  }

  /** Settlements that nobody waits for belong to turns whose client is gone. */
  #collect(at: number, due: [Waiter, Settlement][]): void {
    const [reservation = 0, outcome = 0, target = 0, worker = 0, asked] = this.#out.subarray(at)
    const rank = known(asked)
    const waiting = this.#waiting.get(reservation)
    if (waiting === undefined) return
    this.forget(reservation)
    const receipt = this.#out[at + 5] ?? 0
    const predictedCachedTokens = this.#out[at + 6] ?? 0
    const heldMs = (this.#out[at + 7] ?? 0) / 1000
    const why = this.#out[at + 8] ?? -1
    const stripped = this.#out[at + 9] === 1
    const expectedMs = millis(this.#out[at + 10])
    const settlement = {
      outcome,
      target,
      worker,
      rank,
      receipt,
      predictedCachedTokens,
      why,
      heldMs,
      stripped,
      expectedMs,
    }
    due.push([waiting.waiter, settlement])
  }

  /** Tells watchers their place: new ones at once, all once a second (O(held) a look-up). */
  #look(): void {
    if (this.#closed) return
    const now = this.#clock()
    const isDue = now - this.#lookedAt >= LOOK_EVERY_MS
    if (isDue) this.#lookedAt = now
    const looked = isDue ? [...this.#waiting.keys()] : this.#newcomers
    this.#newcomers = []
    for (const reservation of looked) {
      const waiting = this.#waiting.get(reservation)
      if (waiting?.waiter.moved === undefined) continue
      const state = this.#holdState(reservation)
      if (state === undefined || isAsTold(state, waiting.told)) continue
      waiting.told = state
      waiting.waiter.moved(state)
    }
  }

  #holdState(reservation: number): HoldState | undefined {
    const state = this.#state
    if (!native.holdState(this.#handle, reservation, state)) return undefined
    const [position = 0, why = 0, expected, inClass = -1] = state
    if (position === 0) return undefined
    reasons ??= native.holdReasons() as HoldReason[]
    if (inClass >= 0) this.#classes ??= native.holdClasses(this.#handle)
    const reason = reasons[why] ?? 'room'
    return { position, reason, class: this.#classes?.[inClass], expectedMs: millis(expected) }
  }

  #arm(wakeAt: number): void {
    const wanted = wakeAt < 0 ? Number.POSITIVE_INFINITY : wakeAt / 1000
    const look = this.#watchers > 0 ? this.#lookedAt + LOOK_EVERY_MS : Number.POSITIVE_INFINITY
    const at = Math.min(wanted, look)
    if (this.#closed || at >= this.#armedFor) return
    clearTimeout(this.#timer)
    this.#armedFor = at
    const delay = Math.min(Math.max(Math.ceil(at - this.#clock()), 1), MAX_DELAY_MS)
    const self = new WeakRef(this)
    this.#timer = setTimeout(() => {
      const link = self.deref()
      if (link === undefined) return
      link.#armedFor = Number.POSITIVE_INFINITY
      link.poll()
    }, delay).unref()
  }
}

let reasons: readonly HoldReason[] | undefined

/** Whether nothing has changed; an expected wait that shrinks as time passes has not. */
function isAsTold(now: HoldState, told: HoldState | undefined): boolean {
  if (told === undefined || now.position !== told.position || now.reason !== told.reason)
    return false
  const [is, was] = [now.expectedMs, told.expectedMs]
  if (is === undefined || was === undefined) return is === was
  return is <= was * 1.25 + LOOK_EVERY_MS
}

/** The addon writes -1 for nobody. */
function known(number: number | undefined): number | undefined {
  return number === undefined || number < 0 ? undefined : number
}

/** Of microseconds that are not told where nobody knows. */
function millis(number: number | undefined): number | undefined {
  const micros = known(number)
  return micros === undefined ? undefined : micros / 1000
}

function guarded<T>(run: () => T): T {
  try {
    return run()
  } catch (error) {
    throw fromNative(error)
  }
}

function hex(word: number): string {
  return word.toString(16).padStart(8, '0')
}
