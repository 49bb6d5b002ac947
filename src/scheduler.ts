/**
 * The facade: a request in, a turn out, and the fleet's administration.
 *
 * One native call a submit. This file only sequences: `request.ts` reads what came, the catalog
 * says which targets the model name means, the link asks the core, and a `Turn` carries the answer.
 * A turn that must wait is a promise that settles exactly once: by the core, by the abort signal or
 * by `close`. Nothing here keeps a process alive.
 */
import { checkString, refuseArgument } from './argument.js'
import { type Clock, steadyClock, systemClock } from './clock.js'
import {
  ADDED_WORKER_FIELDS,
  addedTargets,
  asksForImages,
  Catalog,
  type ContinuitySettings,
  isPulled,
  modelCard,
  nativeModel,
  nativeOptions,
  nativeWorker,
  type PriceOptions,
  type ResolvedConfig,
  resolve,
  type SchedulerOptions,
  type WorkerOptions,
  workerEntry,
} from './config/index.js'
import { type DialectName, TextSink } from './dialects/index.js'
import { EngineLoad } from './engine-load.js'
import { EnginePull } from './engine-pull.js'
import { fromNative, WarmpathError } from './errors.js'
import { Exact, type Known } from './exact.js'
import {
  type DrainOptions,
  deadlineOf,
  departWorker,
  type ShedOptions,
  shedOf,
} from './fleet/depart.js'
import { Fleet, type Reconfigured, refuseFixed } from './fleet.js'
import { hasOwnCredential, requestHeaders } from './forward/index.js'
import { type HeadersLike, readHeaders } from './identity/index.js'
import { NO_TEXT, type Origin, PromptKind, type TurnFrame } from './link/frame.js'
import {
  type Candidate,
  candidatesOf,
  countsOf,
  type Receipt,
  receiptOf,
  type Status,
  statusOf,
} from './link/report.js'
import {
  checkRestoreOptions,
  type Restored,
  type RestoreOptions,
  readSnapshot,
  writeSnapshot,
} from './link/snapshot.js'
import type { KnownTarget, KnownWorker } from './link/topology.js'
import { Link, type LockName, type Placement } from './link.js'
import { Health, native } from './native.js'
import { PoolWatch } from './pool-watch.js'
import { type MetricFamily, metricFamilies, published } from './telemetry/index.js'
import {
  keptSteps,
  openRecorder,
  type Recorder,
  type TraceStatus,
  type TurnTrace,
} from './trace/index.js'
import { checkRequest } from './turn/check.js'
import { abortError, waitForGo } from './turn/hold.js'
import { canStrip, needsOf } from './turn/needs.js'
import { type Break, breaksAt, ownerBook } from './turn/portability.js'
import {
  type NamedSession,
  type ReadRequest,
  type Recall,
  type RequestRules,
  readRequest,
  readWhole,
  routeOf,
  sessionOf,
  type TurnRequest,
  tenantOf,
  tenantRule,
} from './turn/request.js'
import { sentBody } from './turn/sent.js'
import { refuseStrangers } from './turn/strangers.js'
import {
  knownSession,
  type SessionLike,
  type StartedTool,
  type ToolOwner,
  toolEnded,
  toolStarted,
} from './turn/tools.js'
import { type Route, Turn } from './turn.js'

/** A worker that joins a running scheduler. */
export type AddedWorker = WorkerOptions & {
  /** Targets that it serves: all of one group. May be left out when there is only one group. */
  targets?: string[]
}

/** A worker, and how to reach it with what is no turn. */
export interface Destination {
  readonly worker: string
  readonly target: string
  /** What the model is called there; absent when no name was given and the target has none. */
  readonly model?: string
  /** Base address of the worker. */
  readonly url: string
  /** Whether its headers have the target's or the worker's credential in place of the client's. */
  readonly hasOwnCredential: boolean
  /** Headers of a request to it on behalf of a client. */
  headers(client?: HeadersLike): Record<string, string>
  /**
   * The body of a request to it, with the model called as it is there. `raw` is what `body` was parsed
   * from, without content encodings: sent on as it came, but for that name. O(bytes).
   */
  body(body: Record<string, unknown>, raw?: Uint8Array | string): string | Uint8Array<ArrayBuffer>
}

/** A turn that the core has taken in. */
interface TakenTurn {
  readonly read: ReadRequest
  readonly placement: Placement
  readonly session: string
  readonly signal: AbortSignal | undefined
  readonly trace: TurnTrace | undefined
}

const shared = new Map<string, Scheduler>()

export class Scheduler {
  readonly #clock: Clock
  readonly #fleet: Fleet
  #config: ResolvedConfig
  #catalog: Catalog
  /** Whether any target's prompts are known by tokens. */
  #wantsTokens: boolean
  readonly #link: Link
  readonly #rules: RequestRules
  /** Whether anybody looks at whether a prompt has images. */
  readonly #asksForImages: boolean
  readonly #sharedName: string | undefined
  readonly #recorder: Recorder | undefined
  readonly #engineLoad: EngineLoad | undefined
  readonly #enginePull: EnginePull
  readonly #poolWatch: PoolWatch
  readonly #exact: Exact
  readonly #recall: Recall = (...body) => this.#link.recall(...body)
  /** Where prompts lie; absent while one does. */
  #sink: TextSink | undefined

  /**
   * Throws CONFIG with the path of the field and what is allowed there. `sharedName` is for
   * `Scheduler.shared`, which also remembers the instance.
   */
  constructor(options: SchedulerOptions, sharedName?: string) {
    const config = resolve(options)
    this.#config = config
    this.#catalog = new Catalog(config.targets, config.aliases)
    this.#sharedName = sharedName
    this.#asksForImages = asksForImages(config)
    const { bodyBytes } = config.settings.limits
    this.#rules = { bodyBytes, tenant: tenantRule(config.identity.tenant) }
    const { clock, logger } = config
    this.#clock =
      clock === undefined
        ? systemClock
        : steadyClock(clock, (cause) => logger?.error({ cause }, 'the clock fails: no time passes'))
    const text = nativeOptions(config, keptSteps(config))
    this.#link = new Link(
      (wake) =>
        sharedName === undefined
          ? native.openScheduler(text, wake)
          : native.sharedScheduler(sharedName, text, wake),
      this.#clock,
      bodyBytes,
    )
    this.#poolWatch = new PoolWatch(this.#link, logger)
    try {
      checkTargets(sharedName, this.#link, config)
      if (sharedName !== undefined) refusePulled(config)
      this.#fleet = new Fleet(this.#link, config)
      this.#exact = new Exact({
        link: this.#link,
        settings: config.tokens,
        bodyBytes,
        forwardHeaders: config.forwardHeaders,
        logger,
      })
      this.#wantsTokens = wantsTokens(config)
      this.#enginePull = new EnginePull(this.#link)
      this.#enginePull.look()
      this.#poolWatch.look(config.pools)
      this.#engineLoad = config.metrics && new EngineLoad(this.#link, config.metrics, logger)
      this.#recorder = openRecorder(config, this.#link, this.#clock)
    } catch (error) {
      this.#engineLoad?.close()
      this.#poolWatch.close()
      this.#link.close()
      throw error
    }
  }

  /**
   * The scheduler of that name in this process, also across worker threads and reloaded modules.
   * The first caller's workers and settings count; the options of the others are checked, and the
   * target names of all must be equal. Throws CONFIG as the constructor does.
   */
  static shared(name: string, options: SchedulerOptions): Scheduler {
    checkString(name, 'name')
    const known = shared.get(name)
    if (known !== undefined) {
      checkTargets(name, known.#link, resolve(options))
      return known
    }
    const scheduler = new Scheduler(options, name)
    shared.set(name, scheduler)
    return scheduler
  }

  /**
   * Finds out whether a scheduler can be opened with these options. Nothing is opened, connected or
   * listened to. Says how many workers and targets they come to. Throws CONFIG as the constructor does,
   * but for sinks that cannot be opened.
   */
  static check(options: SchedulerOptions): { readonly workers: number; readonly targets: number } {
    const config = resolve(options)
    checkNative(config)
    return { workers: config.workers.length, targets: config.targets.length }
  }

  /**
   * Goes over to other options while turns run: workers, targets and pools come and go, aliases change, and so
   * do the credential, price, grade, dialect and context size of a target and the headers and capacity
   * of a worker. Sessions and what is known of caches stay. A worker that goes finishes its turns first.
   * One that has another address, other events or other targets is replaced at once by one that has
   * nothing cached; turns of the old one end where they are. A target that goes keeps the turns that it
   * has; sessions that are bound to it are bound anew by their next turn.
   *
   * Everything else has to be as it was: the model, provider and cache of a target, which targets share
   * their workers, and all other options but the logger and the sinks of a trace. Throws CONFIG with the
   * field, also for a shared scheduler, and nothing has changed then. O(workers + targets).
   */
  reconfigure(options: SchedulerOptions): Reconfigured {
    if (this.#sharedName !== undefined) {
      throw new WarmpathError('WARMPATH_CONFIG', 'options: those of a shared scheduler stay')
    }
    if (this.#link.closed) throw new WarmpathError('WARMPATH_CLOSED', 'the scheduler is closed')
    const next = resolve(options)
    refuseFixed(this.#config, next)
    checkNative(next)
    const { workers, targets, pools, aliases, groups } = next
    const changes = this.#fleet.goOver(next)
    this.#config = { ...this.#config, workers, targets, pools, aliases, groups }
    this.#catalog = new Catalog(targets, aliases)
    this.#wantsTokens = wantsTokens(next)
    this.#enginePull.look()
    this.#poolWatch.look(pools)
    return changes
  }

  /**
   * Decides where a turn runs and takes its reservation; waits while it is held. Rejects with
   * NO_WORKER, OWNER_UNAVAILABLE, HOLD_LIMIT, ABORTED, CLOSED, UNKNOWN_MODEL, UNSUPPORTED_PATH,
   * INVALID_BODY and their kin; the turn then occupies nothing. O(body + workers of the group).
   */
  async submit(request: TurnRequest): Promise<Turn> {
    try {
      if (!this.#wantsTokens) return await this.#submit(request, 'given')
      checkRequest(request)
      const known = await this.#exact.know(request, this.#catalog)
      return await this.#submit(known.request, known.origin)
    } catch (error) {
      const code = WarmpathError.is(error) ? error.code : 'unknown'
      published.error(code)
      this.#config.logger?.debug({ code }, 'turn refused')
      throw error
    }
  }

  /**
   * Whether a request that is no turn, such as a count of tokens, leans on what a provider stores for
   * somebody else: see `identity.unknownState`. Throws UNKNOWN_ID then. O(body).
   */
  checkState(request: TurnRequest): void {
    checkRequest(request)
    this.#withSink((sink) => this.#refuseStrangers(readRequest(request, this.#rules, sink)))
  }

  /** Workers that could take the turn now, cheapest first. Takes no reservation. */
  candidates(request: TurnRequest): Candidate[] {
    checkRequest(request)
    const found = this.#withSink((sink) => {
      const frame = this.#frame(request, readRequest(request, this.#rules, sink))
      return this.#link.candidates(frame)
    })
    return candidatesOf(found, this.#link.topology)
  }

  /** Where `submit` would send the turn now if it goes at once. Takes no reservation. */
  peek(request: TurnRequest): Candidate | undefined {
    return this.candidates(request)[0]
  }

  /**
   * What sending this request to the target of that name would break, before it breaks: tool calls and
   * provider state of others, sealed reasoning, tools, images, length of prompt and answer. Empty:
   * nothing that is known. Takes no reservation. O(body). Throws UNKNOWN_ID.
   */
  portability(request: TurnRequest, target: string): Break[] {
    checkRequest(request)
    checkString(target, 'target')
    const known = this.#link.fresh().targetByName(target)
    return this.#withSink((sink) => {
      const read = readRequest(request, this.#rules, sink)
      const tokens = this.#link.promptTokens(this.#frameOf(request, read, [known.name]))
      return breaksAt(read, tokens, known, ownerBook(this.#link, read.tenant))
    })
  }

  /**
   * Sets what a target's model costs from the next turn on, in US dollars a million tokens; what it
   * does not say of the cache is what is published. Throws UNKNOWN_ID, and CONFIG with the field.
   */
  setPrice(target: string, price: PriceOptions): void {
    checkString(target, 'target')
    const { index, card, provider, model } = this.#link.fresh().targetByName(target)
    const { price: set } = modelCard({ price }, `targets.${target}`, {
      provider,
      model: model ?? target,
    })
    if (set === undefined) refuseArgument('price', 'an object with input and output')
    const json = JSON.stringify(nativeModel({ ...card, price: set }))
    this.#link.read((handle) => native.setModel(handle, index, json))
    this.#link.prices.set(target, set)
  }

  /**
   * Until `removeWorker`: `reconfigure` leaves it alone, and its options may not name it. Throws CONFIG for
   * a bad field, DUPLICATE_ID for a name that is taken.
   */
  addWorker(worker: AddedWorker): void {
    const entry = workerEntry(worker, 'worker', ADDED_WORKER_FIELDS)
    const json = JSON.stringify(nativeWorker(entry, this.#groupOf(addedTargets(worker.targets))))
    this.#link.call((handle, now, out) => native.addWorker(handle, now, json, out))
    this.#enginePull.look()
    this.#config.logger?.info({ worker: entry.name }, 'worker added')
  }

  /** The base address that a worker has now; undefined for one that is not there. */
  workerUrl(id: string): string | undefined {
    checkString(id, 'id')
    const topology = this.#link.fresh()
    return topology.hasWorker(id) ? topology.workerById(id).url : undefined
  }

  /**
   * Sets how many tokens a worker's cache holds; undefined when it is not known any more. What is
   * believed to be there beyond that is forgotten, and turns that now have room start. Throws
   * UNKNOWN_ID, INVALID_ARGUMENT.
   */
  setCapacity(id: string, tokens: number | undefined): void {
    checkString(id, 'id')
    if (tokens !== undefined && !(Number.isSafeInteger(tokens) && tokens > 0)) {
      refuseArgument('tokens', 'a whole number of at least 1, or undefined')
    }
    const { index } = this.#link.fresh().workerById(id)
    this.#link.call((handle, now, out) => native.setCapacity(handle, now, index, tokens, out))
  }

  /**
   * No new turns; what runs goes on. With a deadline: nobody new, and each session that is there goes
   * elsewhere with its first turn that breaks nothing (no tool loop open, lease run out); at the deadline
   * the rest. Throws UNKNOWN_ID, and INVALID_ARGUMENT for one with a deadline that is not up.
   */
  drainWorker(id: string, options: DrainOptions = {}): void {
    const seconds = deadlineOf(options)
    if (seconds === undefined) this.#setHealth(id, 'draining')
    else departWorker(this.#link, { id, seconds, sessions: 0 })
  }

  /**
   * So many sessions go elsewhere, as from a worker that drains, and nobody new comes; when they have, or at
   * the deadline, it is as before. Throws UNKNOWN_ID, and INVALID_ARGUMENT for one that is not up.
   */
  shedSessions(id: string, options: ShedOptions): void {
    departWorker(this.#link, shedOf(id, options))
  }

  /** Forgets the worker and its cache. Its name may be used again. Throws UNKNOWN_ID. */
  removeWorker(id: string): void {
    this.#setHealth(id, 'removed')
  }

  /**
   * `down`: it does not answer; sessions go elsewhere for now and come back. `limited`: it takes nothing
   * from us for a while, because of a quota or a credential; sessions stay where they go meanwhile.
   */
  setHealth(id: string, health: 'up' | 'down' | 'limited'): void {
    if (health !== 'up' && health !== 'down' && health !== 'limited') {
      refuseArgument('health', "'up', 'down' or 'limited'")
    }
    this.#setHealth(id, health)
  }

  /**
   * The worker's cache has been emptied on somebody's word: nothing of it counts from now on, however
   * late the engine's own event comes. Throws UNKNOWN_ID.
   */
  resetCache(id: string): void {
    checkString(id, 'id')
    const { index } = this.#link.fresh().workerById(id)
    this.#link.call((handle, now, out) => native.resetCache(handle, now, index, out))
  }

  /** The record of a decision; undefined when it has been overwritten or never was. */
  receipt(id: string): Receipt | undefined {
    checkString(id, 'id')
    return receiptOf(this.#link, id)
  }

  status(): Status & { readonly trace?: TraceStatus } {
    const core = statusOf(this.#link)
    const load = this.#engineLoad
    const workers =
      load && core.workers.map((each) => ({ ...each, engine: load.statusOf(each.id) ?? null }))
    const pools = core.pools.map((each) => ({
      ...each,
      master: this.#poolWatch.statusOf(each.id) ?? null,
    }))
    const status = { ...core, workers: workers ?? core.workers, pools }
    return this.#recorder === undefined ? status : { ...status, trace: this.#recorder.status() }
  }

  /**
   * Resolves when every trace record so far has been written or lost; after `close`, when the sinks
   * are closed too. At once without a trace.
   */
  async flush(): Promise<void> {
    await this.#recorder?.flush()
  }

  /**
   * The session has ended and its room may be given away: that of a turn, or one by its name and
   * tenant as `turn.session` and `turn.tenant` tell them. Unknown sessions are ignored.
   */
  endSession(session: SessionLike, tenant = ''): void {
    const known = knownSession(session, tenant)
    if (this.#link.closed) return
    this.#link.call((handle, now, out) =>
      native.endSession(handle, now, known.tenant, known.session, out),
    )
  }

  /**
   * A session runs a tool between two turns; `expectedSeconds`: for about how long, if that is known.
   * Its room is kept until then where that is worth it (`lease`). Unknown sessions, and those with a turn
   * under way, are passed over. Throws INVALID_ARGUMENT.
   */
  toolStarted(session: SessionLike, tool: StartedTool = {}): void {
    toolStarted(this.#link, session, tool)
  }

  /** Its tool has ended: the session's next turn comes at once, and its room is kept for that. */
  toolEnded(session: SessionLike, tool: ToolOwner = {}): void {
    toolEnded(this.#link, session, tool)
  }

  /**
   * What has happened so far and what is under way, as metrics of Prometheus: see `registerMetrics`. Read
   * from counters when it is called; O(workers).
   */
  metrics(): MetricFamily[] {
    return metricFamilies(countsOf(this.#link), statusOf(this.#link).workers)
  }

  /**
   * What the scheduler knows, as bytes for `restore` after a restart: cached prefixes, sessions and where
   * they stay, owners of tool calls and provider state. Nothing in flight. Chunk by chunk, while turns go on;
   * together the chunks are the state at the last one. Throws SNAPSHOT_SUPERSEDED when another one is
   * begun meanwhile.
   */
  snapshot(): AsyncGenerator<Uint8Array, void, undefined> {
    return writeSnapshot(this.#link)
  }

  /**
   * Takes over what a snapshot holds, as far as it is still to be believed: what has become too old
   * meanwhile is left out, and so are workers and targets that are not configured any more, and what was
   * cached in blocks of another size; `dropped` says how much. Before the first turn. Throws
   * SNAPSHOT_INVALID, SNAPSHOT_VERSION, SNAPSHOT_NOT_FRESH; nothing has changed then.
   */
  restore(bytes: Uint8Array, options: RestoreOptions = {}): Restored {
    if (!(bytes instanceof Uint8Array)) refuseArgument('bytes', 'a Uint8Array')
    return readSnapshot(this.#link, bytes, checkRestoreOptions(options))
  }

  /** Names that a client may ask for; empty in the short form, which takes any. */
  models(): string[] {
    return this.#catalog.models()
  }

  /** The tenant that a request with these headers belongs to; empty when it names none. */
  tenantOf(headers: HeadersLike): string {
    return tenantOf(readHeaders(headers), this.#rules)
  }

  /**
   * The session that a request with these headers and this parsed body names, found where those of turns
   * are; undefined where it names none. For `toolStarted`, `toolEnded` and `endSession`.
   */
  sessionOf(headers: HeadersLike, body?: unknown): NamedSession | undefined {
    return sessionOf(readHeaders(headers), body, this.#rules)
  }

  /**
   * Where to send what is no turn, such as a count of tokens: the worker with least in flight of
   * the first target that `model` means and that has one up. Takes no reservation. O(workers).
   * Throws UNKNOWN_MODEL, UNSUPPORTED_PATH, NO_WORKER.
   */
  destination(model?: string, dialect?: DialectName): Destination {
    if (model !== undefined) checkString(model, 'model')
    const topology = this.#link.fresh()
    const up = this.status().workers.filter((worker) => worker.health === 'up')
    for (const name of this.#catalog.servingAny(model, dialect)) {
      const target = topology.targetByName(name)
      const [least] = up
        .filter(({ id }) => topology.workerById(id).group === target.group)
        .sort((a, b) => a.inFlight - b.inFlight)
      if (least) return this.#destination(topology.workerById(least.id), target, model)
    }
    throw new WarmpathError('WARMPATH_NO_WORKER', 'no worker is up that could take this request')
  }

  /** Which worker keeps a stored response of the Responses API; undefined too when that has gone. */
  responseOwner(responseId: string, tenant = ''): Destination | undefined {
    checkString(responseId, 'responseId')
    checkString(tenant, 'tenant')
    const topology = this.#link.fresh()
    const state = `response:${responseId}`
    const owner = this.#link.read((handle) => native.stateOwner(handle, tenant, state))
    if (owner === null) return undefined
    const [target, worker] = [topology.target(owner[0] ?? 0), topology.worker(owner[1] ?? 0)]
    return topology.isThere(target, worker) ? this.#destination(worker, target) : undefined
  }

  /**
   * Runs timers that are due. Only needed with a `clock` of one's own: the system's timer wakes by
   * itself.
   */
  poll(): void {
    this.#link.poll()
  }

  /**
   * Settles every turn that waits, in a hold or for tokens, with CLOSED and refuses new ones; turns that
   * run end as usual. Trace sinks are closed with the last of them: `flush` waits for what they still have
   * to write.
   */
  close(): void {
    if (this.#sharedName !== undefined && shared.get(this.#sharedName) === this) {
      shared.delete(this.#sharedName)
    }
    this.#exact.close()
    this.#engineLoad?.close()
    this.#enginePull.close()
    this.#poolWatch.close()
    this.#fleet.close()
    this.#link.close()
    this.#recorder?.close()
  }

  [Symbol.dispose](): void {
    this.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close()
    await this.flush()
  }

  #submit(request: TurnRequest, origin: Origin): Turn | Promise<Turn> {
    if (this.#link.closed) throw new WarmpathError('WARMPATH_CLOSED', 'the scheduler is closed')
    checkRequest(request)
    const { signal } = request
    if (signal?.aborted) throw abortError(signal)
    const received = this.#recorder?.arrival()
    const { read, placement } = this.#withSink((sink) =>
      this.#take({ request, origin }, sink, received),
    )
    let result: Turn | Promise<Turn>
    try {
      const session = read.identity.session ?? placement.derivedSession ?? ''
      const trace = this.#recorder?.begin({ ...read, ...placement, session, received })
      const taken = { read, placement, session, signal, trace }
      result = isPlaced(placement) ? this.#turn(taken, placement, 0) : this.#hold(request, taken)
    } catch (error) {
      // A logger or a signal of the caller threw. What was settled is read before it is overwritten.
      this.#link.settle()
      this.#link.cancel(placement.reservation)
      throw error
    }
    this.#link.settle()
    return result
  }

  #hold({ onHold }: TurnRequest, taken: TakenTurn): Promise<Turn> {
    const { read, signal } = taken
    const { reservation, promptTokens } = taken.placement
    published.hold(reservation, promptTokens)
    this.#config.logger?.debug({ reservation, promptTokens }, 'turn held')
    const plan = {
      link: this.#link,
      reservation,
      clock: this.#clock,
      stream: read.facts?.stream ?? false,
      signal,
      onHold,
    }
    return waitForGo(plan, (settlement) => this.#turn(taken, settlement, settlement.heldMs))
  }

  #turn(taken: TakenTurn, route: Route, heldMs: number): Turn {
    const { read, session, signal, trace } = taken
    const { reservation, promptTokens } = taken.placement
    const { lock } = taken.placement
    const plan = {
      link: this.#link,
      read,
      session,
      heldMs,
      lock,
      ownerWaitMs: ownerWaitOf(this.#config.continuity, lock),
      forwardHeaders: this.#config.forwardHeaders,
      maxBytes: this.#config.settings.limits.bodyBytes,
      signal,
      logger: this.#config.logger,
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

  /** Reads the request and asks the core. */
  #take({ request, origin }: Known, sink: TextSink, received: number | undefined) {
    const isText = request.tokens === undefined && request.hashes === undefined
    // A trace tells the lengths of all segments.
    const isTraced = received !== undefined || this.#recorder?.keepsSteps === true
    const recall = isText && !isTraced ? this.#recall : undefined
    const read = readRequest(request, this.#rules, sink, recall)
    this.#refuseStrangers(read)
    const placement = this.#link.submit(this.#frame(request, read, origin))
    if (placement !== undefined) return { read, placement }
    const whole = readWhole(read, sink)
    const again = this.#link.submit(this.#frame(request, whole, origin))
    if (again !== undefined) return { read: whole, placement: again }
    throw new WarmpathError('WARMPATH_PANIC', 'a whole prompt was taken for a recalled one')
  }

  #refuseStrangers({ facts, tenant, model, dialect }: ReadRequest): void {
    if (facts === undefined || facts.state.length === 0) return
    if (this.#config.identity.unknownState === 'pass') return
    const names = this.#catalog.targetsFor(model, dialect.name)
    refuseStrangers(facts.state, names, this.#link.topology, ownerBook(this.#link, tenant))
  }

  /** What a request runs may submit another one, which then gets a sink of its own. */
  #withSink<T>(use: (sink: TextSink) => T): T {
    const sink = this.#sink ?? new TextSink(this.#rules.bodyBytes)
    this.#sink = undefined
    try {
      return use(sink)
    } finally {
      this.#sink = sink
    }
  }

  #frame(request: TurnRequest, read: ReadRequest, origin: Origin = 'given'): TurnFrame {
    const names = this.#catalog.targetsFor(read.model, read.dialect.name)
    return this.#frameOf(request, read, names, origin)
  }

  #frameOf(
    request: TurnRequest,
    read: ReadRequest,
    names: readonly string[],
    origin: Origin = 'given',
  ): TurnFrame {
    const { facts, identity, tenant, recalled } = read
    const { topology } = this.#link
    const exact = request.tokens ?? request.hashes
    const { base } = request
    if (base !== undefined && !names.includes(base)) refuseArgument('base', names.join(', '))
    return {
      final: identity.final,
      stream: facts?.stream ?? false,
      kind:
        request.tokens !== undefined
          ? PromptKind.tokens
          : request.hashes !== undefined
            ? PromptKind.hashes
            : recalled !== undefined
              ? PromptKind.recalled
              : PromptKind.text,
      ticket: recalled?.ticket,
      exact,
      maxOutputTokens: facts?.maxOutputTokens ?? 0,
      tenant,
      session: identity.session ?? '',
      parent: identity.parent ?? '',
      route: routeOf(request),
      cacheSalt: this.#saltOf(read),
      drift: request.drift ?? false,
      priority: request.priority ?? 0,
      base: base === undefined ? undefined : topology.targetByName(base).index,
      canStrip: canStrip(read),
      origin,
      needs: needsOf(read, this.#asksForImages),
      targets: names.map((name) => topology.targetByName(name).index),
      toolResults: facts?.toolResults ?? [],
      state: facts?.state ?? [],
      prompt:
        facts === undefined || exact !== undefined
          ? NO_TEXT
          : {
              bytes: facts.prompt.bytes,
              ends: facts.prompt.ends,
              volatile: facts.volatile,
              breakpoints: facts.breakpoints,
              contents: facts.contents,
            },
    }
  }

  /** What sets the turn's blocks apart: where there is one target for all models, the model too. */
  #saltOf({ model, facts }: ReadRequest): string {
    const salt = facts?.cacheSalt ?? ''
    if (model === undefined || !this.#config.takesAnyModel) return salt
    return `${model}\0${salt}`
  }

  #setHealth(id: string, health: keyof typeof Health): void {
    checkString(id, 'id')
    const { index } = this.#link.fresh().workerById(id)
    this.#link.call((handle, now, out) => native.setHealth(handle, now, index, Health[health], out))
    this.#config.logger?.info({ worker: id, health }, 'worker health set')
  }

  /** The group that a new worker joins; `targets` must name all of its targets. */
  #groupOf(targets: readonly string[] | undefined): number {
    const { topology } = this.#link
    const wanted = targets?.map((name) => topology.targetByName(name)) ?? topology.targets
    const group = wanted[0]?.group
    const whole = topology.targets.filter((target) => target.group === group)
    const isWhole = whole.length === new Set(wanted).size
    if (group === undefined || !isWhole || wanted.some((target) => target.group !== group)) {
      const groups = [...new Set(topology.targets.map((target) => target.group))]
      const allowed = groups.map((each) =>
        topology.targets
          .filter((target) => target.group === each)
          .map((target) => target.name)
          .join(' + '),
      )
      throw new WarmpathError(
        'WARMPATH_CONFIG',
        `worker.targets: must name all targets of one group: ${allowed.join(' or ')}`,
        { detail: { field: 'worker.targets' } },
      )
    }
    return group
  }

  #destination(worker: KnownWorker, target: KnownTarget, asked?: string): Destination {
    const extra = this.#config.forwardHeaders
    const model = target.model ?? asked
    const isOwn = hasOwnCredential({ auth: target.auth, worker: worker.headers })
    return {
      worker: worker.id,
      target: target.name,
      ...(model === undefined ? {} : { model }),
      url: worker.url,
      hasOwnCredential: isOwn,
      headers: (client) =>
        requestHeaders({
          client: readHeaders(client),
          auth: target.auth,
          worker: worker.headers,
          extra,
        }),
      body: (body, raw) => {
        const isRenamed = model !== undefined && body.model !== model
        return sentBody(body, raw, isRenamed ? [{ name: 'model', value: model }] : [])
      },
    }
  }
}

/** Events that are handed out once would be divided among the threads. */
function refusePulled({ workers }: ResolvedConfig): void {
  const at = workers.findIndex(({ kvEvents }) => kvEvents !== undefined && isPulled(kvEvents))
  if (at === -1) return
  const field = `workers[${at}].kvEvents`
  const why = 'events that have to be asked for need a scheduler that is not shared'
  throw new WarmpathError('WARMPATH_CONFIG', `${field}: ${why}`, { detail: { field } })
}

function wantsTokens({ targets }: ResolvedConfig): boolean {
  return targets.some(({ tokens }) => tokens !== 'text')
}

/** Whether the turn may go at once. */
function isPlaced(placement: Placement): placement is Placement & Route {
  return placement.worker !== undefined
}

/** What only the core checks. */
function checkNative(config: ResolvedConfig): void {
  try {
    native.checkOptions(nativeOptions(config))
  } catch (error) {
    throw fromNative(error)
  }
}

/** For how long the owner of such a lock is waited for, in milliseconds. */
function ownerWaitOf(settings: ContinuitySettings, lock: LockName): number {
  const isState = lock === 'provider-state'
  const setting = isState ? settings.stateOwnerDown : settings.toolOwnerDown
  return lock !== 'free' && setting === 'wait' ? settings.ownerWaitMs : 0
}

/** A shared scheduler may have been opened by somebody with other targets. */
function checkTargets(name: string | undefined, link: Link, config: ResolvedConfig): void {
  const known = link.topology.targets.map((target) => target.name)
  const own = config.targets.map((target) => target.name)
  if (known.length === own.length && own.every((target) => known.includes(target))) return
  throw new WarmpathError(
    'WARMPATH_CONFIG',
    `targets: shared scheduler ${JSON.stringify(name)} has ${known.join(', ')}`,
    { detail: { field: 'targets' } },
  )
}
