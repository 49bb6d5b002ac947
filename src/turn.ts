/**
 * A turn that may run: where it goes, what is sent, and how its reservation ends.
 *
 * `fetch(turn.url, turn.init)` and `turn.observe(response)` are the whole life of most turns. A
 * turn that is neither observed nor ended is ended when it is disposed or collected, so that
 * forgetting one costs its room for a while and not for ever. The request body is the client's own
 * bytes but for the members that have to change.
 *
 * Cost: `init` is built when it is first read (turn/sent.ts has what a body costs; one that has reasoning
 * taken out of it is written anew). Makes no decision.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Logger } from './config/index.js'
import { sealedPieces, type Usage, withoutSealed } from './dialects/index.js'
import { WarmpathError } from './errors.js'
import { affinityId } from './forward/affinity.js'
import {
  type Change,
  hasOwnCredential,
  requestHeaders,
  upstreamUrl,
  withoutCredentials,
} from './forward/index.js'
import type { Receipt, TurnReason } from './link/report.js'
import { reasonOf, receiptOf } from './link/report.js'
import type { KnownTarget, KnownWorker } from './link/topology.js'
import type { Completion, Link, LockName, Placement } from './link.js'
import { type AffinityKnob, affinityKnob } from './providers/index.js'
import type { TurnTrace } from './trace/index.js'
import { type Behalf, behalfOf, changesFor, takersOf } from './turn/behalf.js'
import { checkAnswer, checkResponse } from './turn/check.js'
import { isEventStream, observeResponse } from './turn/observe.js'
import { type Break, breaksAt, foreignSeals, ownerBook } from './turn/portability.js'
import type { ReadRequest } from './turn/request.js'
import { Reservation } from './turn/reservation.js'
import { type SentBody, sentBody } from './turn/sent.js'
import { AnswerWatch } from './turn/watch.js'

/** What `fetch` takes beside the address. */
export interface TurnInit {
  method: 'POST'
  headers: Record<string, string>
  /** A credential goes to its target only, wherever that may send on: an answer of 3xx is the client's. */
  redirect: 'manual'
  /** Absent when the turn was submitted without a body. */
  body?: string | Uint8Array<ArrayBuffer>
  signal?: AbortSignal
}

/** What an answer means for the turns that follow it. */
export interface AnswerFacts {
  /** Ids of the tool calls it asks for: their results go back to the target that made them. */
  toolCalls?: readonly string[]
  /** What its maker now keeps: `response:ID`, `conversation:ID`, `item:ID`, `file:ID`. */
  state?: readonly string[]
  /**
   * Whether the model has ended its turn and waits for no tool. Default: whether `toolCalls` is
   * empty; unknown when that is not given.
   */
  finished?: boolean
}

/** What a turn is made from; of no use outside this library. */
export interface TurnPlan {
  readonly link: Link
  readonly read: ReadRequest
  readonly session: string
  readonly heldMs: number
  /** What locks the turn. */
  readonly lock: LockName
  /** For how long a fault of the lock's owner may be waited out. */
  readonly ownerWaitMs: number
  readonly forwardHeaders: readonly string[]
  /** Largest JSON answer that is read. */
  readonly maxBytes: number
  readonly signal: AbortSignal | undefined
  readonly logger: Logger | undefined
  /** Absent where no trace is written. */
  readonly trace: TurnTrace | undefined
}

/** A placement that has a worker. */
export type Route = Pick<
  Placement,
  'target' | 'rank' | 'receipt' | 'predictedCachedTokens' | 'why' | 'stripped'
> & { readonly worker: number }

const NO_SEALS: ReadonlySet<string> = new Set()

/** Of one answer; the rest of them is not remembered. */
const MAX_IDS = 1024

interface Remains {
  readonly reservation: Reservation
  readonly logger: Logger | undefined
}

const abandoned = new FinalizationRegistry<Remains>(({ reservation, logger }) => {
  if (reservation.ended || reservation.observing) return
  reservation.drop()
  logger?.warn({ reservation: reservation.id }, 'a turn was forgotten: observe, end or dispose it')
})

const unfinished = new FinalizationRegistry<Remains>(({ reservation, logger }) => {
  if (reservation.ended) return
  reservation.cancel()
  logger?.warn({ reservation: reservation.id }, 'a watch was forgotten: end, fail or cancel it')
})

export class Turn {
  /** Unique among the turns of a scheduler. */
  readonly id: string
  /** The session named by the request, or the name that the core gave it: `prompt-` and a key. */
  readonly session: string
  /** Who the session belongs to: what `identity.tenant` says, or a digest of the credential. */
  readonly tenant: string
  readonly parent?: string
  /** Estimate. */
  readonly promptTokens: number
  /** How long the turn waited for admission. */
  readonly heldMs: number
  readonly #plan: TurnPlan
  readonly #reservation: Reservation
  #route: Route
  #target: KnownTarget
  #worker: KnownWorker
  #init: TurnInit | undefined
  #foreign: ReadonlySet<string> | undefined
  /** Away from whom it was locked to. */
  #isMoved = false
  /** Of the answer that is observed; an object of its own, so that observing does not keep the turn. */
  readonly #seen: { watch?: AnswerWatch } = {}

  constructor(plan: TurnPlan, reservation: number, promptTokens: number, route: Route) {
    const { topology } = plan.link
    this.id = String(reservation)
    this.session = plan.session
    this.tenant = plan.read.tenant
    if (plan.read.identity.parent !== undefined) this.parent = plan.read.identity.parent
    this.promptTokens = promptTokens
    this.heldMs = plan.heldMs
    this.#plan = plan
    this.#route = route
    this.#target = topology.target(route.target)
    this.#worker = topology.worker(route.worker)
    this.#reservation = new Reservation(reservation, plan.link, plan.signal, plan.trace)
    plan.trace?.sent({ ...route, rank: this.rank, model: this.model })
    abandoned.register(this, { reservation: this.#reservation, logger: plan.logger })
  }

  /** Id of the worker that runs the turn. */
  get worker(): string {
    return this.#worker.id
  }

  /** Name of the target chosen among those the request may go to. */
  get target(): string {
    return this.#target.name
  }

  /** Model name sent upstream; empty when the request named none and the target has none. */
  get model(): string {
    return this.#target.model ?? this.#plan.read.model ?? ''
  }

  /** Data-parallel rank of the worker; 0 when it has one, or may choose by itself. */
  get rank(): number {
    return this.#route.rank ?? 0
  }

  get receiptId(): string {
    return String(this.#route.receipt)
  }

  /**
   * Why its model answers, as a code of docs/reasons.md, and whether its session changes its model with
   * it. Undefined where no receipts are kept.
   */
  get reason(): TurnReason | undefined {
    return reasonOf(this.#route.why)
  }

  /** What binds it to where it goes; `free` also where the options have let it go elsewhere. */
  get lock(): LockName {
    return this.#isMoved ? 'free' : this.#plan.lock
  }

  /**
   * For how many milliseconds a fault of its worker may be waited out: it is locked to where it goes,
   * and the options say `wait`. Else 0.
   */
  get ownerWaitMs(): number {
    return this.lock === 'free' ? 0 : this.#plan.ownerWaitMs
  }

  /**
   * What was taken out of what is sent because only its maker could have read it, by its place in the
   * body as the client sent it: sealed reasoning of another model than the one that answers. All of it
   * where the options say `strip` and the maker could not answer; nothing where they say `escape`.
   */
  get stripped(): readonly string[] {
    const { body, dialect } = this.#plan.read
    if (body === undefined) return []
    const pieces = sealedPieces(body, dialect.items)
    const gone = this.#route.stripped ? pieces : pieces.filter(({ id }) => this.#isForeign(id))
    return gone.map(({ path }) => path)
  }

  /** Whether the credential that is sent is the target's or the worker's own and not the client's. */
  get hasOwnCredential(): boolean {
    return hasOwnCredential({ auth: this.#target.auth, worker: this.#worker.headers })
  }

  /** Whether every turn on its worker is sent with one credential, so that its limits are everybody's. */
  get hasOnlyCredential(): boolean {
    const { auth, group } = this.#target
    const { targets } = this.#plan.link.topology
    const others = targets.filter((target) => target.group === group)
    return auth.kind !== 'pass-through' && others.every((one) => isDeepStrictEqual(one.auth, auth))
  }

  get predictedCachedTokens(): number {
    return this.#route.predictedCachedTokens
  }

  get state(): 'running' | 'ended' {
    return this.#reservation.ended ? 'ended' : 'running'
  }

  get url(): string {
    const { path } = this.#plan.read
    const sent = this.hasOwnCredential ? withoutCredentials(path) : path
    return upstreamUrl(this.#worker.url, sent)
  }

  get init(): TurnInit {
    this.#init ??= this.#build()
    return this.#init
  }

  /**
   * The same answer, read on its way through; the reservation ends with it. An answer that is not
   * 2xx ends it at once and is returned as it is. Throws INVALID_ARGUMENT for what is no answer, a
   * body that somebody reads already, or a second answer.
   */
  observe(response: Response): Response {
    checkResponse(response)
    const reservation = this.#reservation
    if (reservation.ended) return response
    this.#refuseSecond()
    if (response.bodyUsed || response.body?.locked) {
      throw new WarmpathError('WARMPATH_INVALID_ARGUMENT', 'the body is in use')
    }
    const seen = this.#seen
    return observeResponse(response, {
      ...this.#reading(),
      logger: this.#plan.logger,
      begun: (watch) => {
        seen.watch = watch
      },
    })
  }

  /**
   * What `observe` is, for those who pass an answer on themselves, such as from node's own streams:
   * tell the watch each piece, pass on what it gives back, and tell it how the answer ended. Undefined
   * when there is nothing to tell: an answer that is not 2xx ends the reservation at once, and a turn
   * that has ended observes nothing. Throws INVALID_ARGUMENT for a second answer.
   */
  watch(answer: {
    readonly status: number
    readonly contentType: string | undefined
  }): AnswerWatch | undefined {
    checkAnswer(answer)
    const reservation = this.#reservation
    if (reservation.ended) return undefined
    this.#refuseSecond()
    if (answer.status < 200 || answer.status > 299) {
      reservation.fail()
      return undefined
    }
    const isStream = isEventStream(answer.contentType)
    const watch = new AnswerWatch({ ...this.#reading(), isStream, stop: () => undefined })
    unfinished.register(watch, { reservation, logger: this.#plan.logger })
    this.#seen.watch = watch
    return watch
  }

  /**
   * Moves the turn to its next candidate after a failure: `url`, `init`, `worker` and `target`
   * change. False, and nothing changes, when none is left or some of an answer was seen already. After
   * a `passing` fault the session stays bound to its target; a `lasting` one (a quota, a credential
   * that is refused) binds it to the target that answers instead.
   */
  next(fault: 'passing' | 'lasting' = 'passing'): boolean {
    const { link } = this.#plan
    if (link.closed || !this.#reservation.movable) return false
    let placement: Placement
    try {
      placement = link.reroute(this.#reservation.id, fault === 'lasting')
    } catch (error) {
      if (isLastCandidate(error)) return false
      throw error
    }
    const { worker } = placement
    if (worker === undefined) return false
    const before = this.#target.name
    this.#route = { ...placement, worker }
    this.#target = link.topology.target(placement.target)
    this.#worker = link.topology.worker(worker)
    this.#isMoved ||= this.#target.name !== before || this.#route.stripped
    this.#init = undefined
    this.#foreign = undefined
    this.#plan.trace?.sent({ ...this.#route, rank: this.rank, model: this.model })
    return true
  }

  /** The first token of the answer was seen; for those who do not use `observe`. */
  firstToken(): void {
    this.#reservation.firstToken()
  }

  /**
   * The answer is complete; for those who do not use `observe`, which finds all of this out by
   * itself. What is left out, or is no such value, counts as unknown.
   */
  complete(usage?: Usage, answer?: AnswerFacts): void {
    this.#reservation.complete(completionOf(usage, answer))
  }

  /** The upstream failed. `reason`, when it is an AbortError, says that the client went away. */
  fail(reason?: unknown): void {
    if (reason instanceof Error && reason.name === 'AbortError') this.#reservation.cancel()
    else this.#reservation.fail()
  }

  /**
   * What to append to an answer that is a stream and broke off, so that its client sees an error and
   * not a short answer: in the dialect of the request, going on from what was passed.
   */
  errorEvent(code: string, message: string): string {
    return this.#plan.read.dialect.errorEvent(code, message, this.#seen.watch?.facts())
  }

  /**
   * What sending this turn to the target of that name would break. Empty: nothing that is known.
   * Throws UNKNOWN_ID.
   */
  portability(target: string): Break[] {
    const { link, read } = this.#plan
    const known = link.topology.targetByName(target)
    return breaksAt(read, this.promptTokens, known, ownerBook(link, read.tenant))
  }

  /** Why the turn went where it went; undefined when the record has been overwritten. */
  receipt(): Receipt | undefined {
    return receiptOf(this.#plan.link, this.receiptId)
  }

  /** Ends the reservation unless an answer is being observed. */
  [Symbol.dispose](): void {
    this.#reservation.drop()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this[Symbol.dispose]()
  }

  #refuseSecond(): void {
    if (!this.#reservation.observing) return
    throw new WarmpathError('WARMPATH_INVALID_ARGUMENT', 'this turn observes an answer already')
  }

  #reading() {
    return {
      dialect: this.#plan.read.dialect,
      reservation: this.#reservation,
      maxBytes: this.#plan.maxBytes,
      ...takersOf(this.#behalf(), this.promptTokens, (tokens) => {
        this.#reservation.learnTokens(tokens)
      }),
    }
  }

  #build(): TurnInit {
    const { read, forwardHeaders, signal } = this.#plan
    const body = this.#body()
    const affinity = this.#affinity('header')
    return {
      method: 'POST',
      headers: requestHeaders({
        client: read.headers,
        auth: this.#target.auth,
        worker: {
          ...rankHeader(this.#route.rank),
          ...(affinity && { [affinity.name]: affinity.value }),
          ...this.#worker.headers,
        },
        extra: forwardHeaders,
      }),
      redirect: 'manual',
      ...(body === undefined ? {} : { body }),
      ...(signal === undefined ? {} : { signal }),
    }
  }

  #body(): SentBody | undefined {
    const { body, raw, dialect } = this.#plan.read
    if (body === undefined) return undefined
    const { stripped } = this.#route
    const foreign = this.#foreignSeals()
    if (!stripped && foreign.size === 0) return sentBody(body, raw, this.#changes())
    const bare = withoutSealed(body, dialect.items, stripped ? undefined : foreign)
    return sentBody(bare, undefined, this.#changes())
  }

  /** Of the body, besides what is taken out of it. */
  #changes(): Change[] {
    const { model } = this
    const changes: Change[] = []
    if (model !== '' && this.#plan.read.facts?.model !== model) {
      changes.push({ name: 'model', value: model })
    }
    const affinity = this.#affinity('body')
    if (affinity !== undefined) changes.push(affinity)
    changes.push(...changesFor(this.#behalf()))
    return changes
  }

  /** What the provider is to be told in this place, unless the client has. */
  #affinity(place: AffinityKnob['place']): { name: string; value: string } | undefined {
    const { affinity, provider, auth, name } = this.#target
    const { read } = this.#plan
    const knob = affinity ? affinityKnob(provider, read.dialect.name) : undefined
    if (knob?.place !== place) return undefined
    const given = place === 'header' ? read.headers.get(knob.name) : read.body?.[knob.name]
    if (given !== undefined && given !== null) return undefined
    const salt = auth.kind === 'header' ? auth.value : name
    return { name: knob.name, value: affinityId(salt, this.tenant, this.session) }
  }

  #isForeign(id: string | undefined): boolean {
    return id !== undefined && this.#foreignSeals().has(id)
  }

  /** What another model has sealed; looked at once a target, and only where there are several. */
  #foreignSeals(): ReadonlySet<string> {
    const { read, link } = this.#plan
    this.#foreign ??=
      link.topology.targets.length < 2 || this.reason?.reason === 'escaped'
        ? NO_SEALS
        : foreignSeals(read, this.#target, ownerBook(link, read.tenant))
    return this.#foreign
  }

  #behalf(): Behalf {
    return behalfOf(this.#plan.read, this.#target.tokens)
  }
}

/** Only what is well formed: the figures of an answer may come from anywhere. */
function completionOf(usage: Usage | undefined, answer: AnswerFacts | undefined): Completion {
  const toolCalls: unknown = answer?.toolCalls
  const finished = answer?.finished ?? (Array.isArray(toolCalls) ? toolCalls.length === 0 : null)
  return {
    usage: typeof usage === 'object' && usage !== null ? usage : undefined,
    finished: typeof finished === 'boolean' ? finished : undefined,
    toolCalls: idsOf(toolCalls),
    state: idsOf(answer?.state),
  }
}

function idsOf(value: unknown): string[] {
  if (!Array.isArray(value)) return []
  return value.filter((id) => typeof id === 'string' && id !== '').slice(0, MAX_IDS)
}

function isLastCandidate(error: unknown): boolean {
  return (
    WarmpathError.is(error) &&
    (error.code === 'WARMPATH_NO_WORKER' || error.code === 'WARMPATH_OWNER_UNAVAILABLE')
  )
}

/** What vLLM takes as the rank to run on. */
function rankHeader(rank: number | undefined): Record<string, string> {
  return rank === undefined ? {} : { 'x-data-parallel-rank': String(rank) }
}
