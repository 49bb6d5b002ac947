/**
 * The facade: a request in, a turn out, and the fleet's administration.
 *
 * What each call does is a room's business: `intake` reads what came and asks the core, `turns` makes a turn
 * of the answer or holds it, `destinations` finds where what is no turn goes, `watchers` ask engines and
 * stores beside the turns, and `fleet` changes workers and targets; `rooms` opens and closes them. This file
 * checks arguments and keeps the instances that are shared by name. Nothing here keeps a process alive.
 */
import { checkString, refuseArgument } from './argument.js'
import { type PriceOptions, resolve, type SchedulerOptions } from './config/index.js'
import type { DialectName } from './dialects/index.js'
import {
  type DrainOptions,
  deadlineOf,
  departWorker,
  type ShedOptions,
  shedOf,
} from './fleet/depart.js'
import {
  type AddedWorker,
  addWorker,
  markWorker,
  resetCache,
  setCapacity,
  setHealth,
  setPrice,
  urlOf,
} from './fleet/running.js'
import type { Reconfigured } from './fleet.js'
import { type HeadersLike, readHeaders } from './identity/index.js'
import {
  type Candidate,
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
import type { Destination } from './scheduler/destinations.js'
import { checkNative, checkTargets } from './scheduler/opening.js'
import { Rooms } from './scheduler/rooms.js'
import { type MetricFamily, metricFamilies } from './telemetry/index.js'
import type { TraceStatus } from './trace/index.js'
import { checkHeaders, checkRequest } from './turn/check.js'
import type { Break } from './turn/portability.js'
import { type NamedSession, sessionOf, type TurnRequest, tenantOf } from './turn/request.js'
import {
  endSession,
  type SessionLike,
  type StartedTool,
  type ToolOwner,
  toolEnded,
  toolStarted,
} from './turn/tools.js'
import type { Turn } from './turn.js'

const shared = new Map<string, Scheduler>()

export class Scheduler {
  readonly #rooms: Rooms
  readonly #sharedName: string | undefined

  /**
   * Throws CONFIG with the path of the field and what is allowed there. `sharedName` is for
   * `Scheduler.shared`, which also remembers the instance.
   */
  constructor(options: SchedulerOptions, sharedName?: string) {
    this.#rooms = new Rooms(options, sharedName)
    this.#sharedName = sharedName
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
      checkTargets(name, known.#rooms.link, resolve(options))
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
    return this.#rooms.goOver(options)
  }

  /**
   * Decides where a turn runs and takes its reservation; waits while it is held. Rejects with
   * NO_WORKER, OWNER_UNAVAILABLE, HOLD_LIMIT, ABORTED, CLOSED, UNKNOWN_MODEL, UNSUPPORTED_PATH,
   * INVALID_BODY and their kin; the turn then occupies nothing. A turn that waits keeps no process alive.
   * O(body + workers of the group).
   */
  submit(request: TurnRequest): Promise<Turn> {
    return this.#rooms.turns.submit(request)
  }

  /**
   * Whether a request that is no turn, such as a count of tokens, leans on what a provider stores for
   * somebody else: see `identity.unknownState`. Throws UNKNOWN_ID then. O(body).
   */
  checkState(request: TurnRequest): void {
    checkRequest(request)
    this.#rooms.intake.check(request)
  }

  /** Workers that could take the turn now, cheapest first. Takes no reservation. */
  candidates(request: TurnRequest): Candidate[] {
    checkRequest(request)
    return this.#rooms.intake.candidates(request)
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
    return this.#rooms.intake.breaks(request, target)
  }

  /**
   * Sets what a target's model costs from the next turn on, in US dollars a million tokens; what it
   * does not say of the cache is what is published. Throws UNKNOWN_ID, and CONFIG with the field.
   */
  setPrice(target: string, price: PriceOptions): void {
    setPrice(this.#rooms.link, target, price)
  }

  /**
   * Until `removeWorker`: `reconfigure` leaves it alone, and its options may not name it. Throws CONFIG for
   * a bad field, DUPLICATE_ID for a name that is taken.
   */
  addWorker(worker: AddedWorker): void {
    addWorker(this.#rooms.link, worker, this.#rooms.terms.config.logger)
    this.#rooms.watchers.look()
  }

  /** The base address that a worker has now; undefined for one that is not there. */
  workerUrl(id: string): string | undefined {
    return urlOf(this.#rooms.link, id)
  }

  /**
   * Sets how many tokens a worker's cache holds; undefined when it is not known any more. What is
   * believed to be there beyond that is forgotten, and turns that now have room start. Throws
   * UNKNOWN_ID, INVALID_ARGUMENT.
   */
  setCapacity(id: string, tokens: number | undefined): void {
    setCapacity(this.#rooms.link, id, tokens)
  }

  /**
   * No new turns; what runs goes on. With a deadline: nobody new, and each session that is there goes
   * elsewhere with its first turn that breaks nothing (no tool loop open, lease run out); at the deadline
   * the rest. Throws UNKNOWN_ID, and INVALID_ARGUMENT for one with a deadline that is not up.
   */
  drainWorker(id: string, options: DrainOptions = {}): void {
    const seconds = deadlineOf(options)
    if (seconds === undefined) this.#setHealth(id, 'draining')
    else departWorker(this.#rooms.link, { id, seconds, sessions: 0 })
  }

  /**
   * So many sessions go elsewhere, as from a worker that drains, and nobody new comes; when they have, or at
   * the deadline, it is as before. Throws UNKNOWN_ID, and INVALID_ARGUMENT for one that is not up.
   */
  shedSessions(id: string, options: ShedOptions): void {
    departWorker(this.#rooms.link, shedOf(id, options))
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
    markWorker(this.#rooms.link, id, health, this.#rooms.terms.config.logger)
  }

  /**
   * The worker's cache has been emptied on somebody's word: nothing of it counts from now on, however
   * late the engine's own event comes. Throws UNKNOWN_ID.
   */
  resetCache(id: string): void {
    resetCache(this.#rooms.link, id)
  }

  /** The record of a decision; undefined when it has been overwritten or never was. */
  receipt(id: string): Receipt | undefined {
    checkString(id, 'id')
    return receiptOf(this.#rooms.link, id)
  }

  status(): Status & { readonly trace?: TraceStatus } {
    const status = this.#rooms.watchers.status()
    return this.#rooms.recorder === undefined
      ? status
      : { ...status, trace: this.#rooms.recorder.status() }
  }

  /**
   * Resolves when every trace record so far has been written or lost; after `close`, when the sinks
   * are closed too. At once without a trace.
   */
  async flush(): Promise<void> {
    await this.#rooms.recorder?.flush()
  }

  /**
   * The session has ended and its room may be given away: that of a turn, or one by its name and
   * tenant as `turn.session` and `turn.tenant` tell them. Unknown sessions are ignored.
   */
  endSession(session: SessionLike, tenant = ''): void {
    endSession(this.#rooms.link, session, tenant)
  }

  /**
   * A session runs a tool between two turns; `expectedSeconds`: for about how long, if that is known.
   * Its room is kept until then where that is worth it (`lease`). Unknown sessions, and those with a turn
   * under way, are passed over. Throws INVALID_ARGUMENT.
   */
  toolStarted(session: SessionLike, tool: StartedTool = {}): void {
    toolStarted(this.#rooms.link, session, tool)
  }

  /** Its tool has ended: the session's next turn comes at once, and its room is kept for that. */
  toolEnded(session: SessionLike, tool: ToolOwner = {}): void {
    toolEnded(this.#rooms.link, session, tool)
  }

  /**
   * What has happened so far and what is under way, as metrics of Prometheus: see `registerMetrics`. Read
   * from counters when it is called; O(workers).
   */
  metrics(): MetricFamily[] {
    return metricFamilies(countsOf(this.#rooms.link), statusOf(this.#rooms.link).workers)
  }

  /**
   * What the scheduler knows, as bytes for `restore` after a restart: cached prefixes, sessions and where
   * they stay, owners of tool calls and provider state. Nothing in flight. Chunk by chunk, while turns go on;
   * together the chunks are the state at the last one. Throws SNAPSHOT_SUPERSEDED when another one is
   * begun meanwhile.
   */
  snapshot(): AsyncGenerator<Uint8Array, void, undefined> {
    return writeSnapshot(this.#rooms.link)
  }

  /**
   * Takes over what a snapshot holds, as far as it is still to be believed: what has become too old
   * meanwhile is left out, and so are workers and targets that are not configured any more, and what was
   * cached in blocks of another size; `dropped` says how much. Before the first turn. Throws
   * SNAPSHOT_INVALID, SNAPSHOT_VERSION, SNAPSHOT_NOT_FRESH; nothing has changed then.
   */
  restore(bytes: Uint8Array, options: RestoreOptions = {}): Restored {
    if (!(bytes instanceof Uint8Array)) refuseArgument('bytes', 'a Uint8Array')
    return readSnapshot(this.#rooms.link, bytes, checkRestoreOptions(options))
  }

  /** Names that a client may ask for; empty in the short form, which takes any. */
  models(): string[] {
    return this.#rooms.terms.catalog.models()
  }

  /**
   * The tenant that a request with these headers belongs to; empty when it names none. Throws
   * INVALID_ARGUMENT.
   */
  tenantOf(headers: HeadersLike): string {
    checkHeaders(headers)
    return tenantOf(readHeaders(headers), this.#rooms.rules)
  }

  /**
   * The session that a request with these headers and this parsed body names, found where those of turns
   * are; undefined where it names none. For `toolStarted`, `toolEnded` and `endSession`. Throws
   * INVALID_ARGUMENT, and INVALID_BODY for a body that throws.
   */
  sessionOf(headers: HeadersLike, body?: unknown): NamedSession | undefined {
    checkHeaders(headers)
    return sessionOf(readHeaders(headers), body, this.#rooms.rules)
  }

  /**
   * Where to send what is no turn, such as a count of tokens: the worker with least in flight of
   * the first target that `model` means and that has one up. Takes no reservation. O(workers).
   * Throws UNKNOWN_MODEL, UNSUPPORTED_PATH, NO_WORKER.
   */
  destination(model?: string, dialect?: DialectName): Destination {
    if (model !== undefined) checkString(model, 'model')
    return this.#rooms.destinations.of(model, dialect)
  }

  /** Which worker keeps a stored response of the Responses API; undefined too when that has gone. */
  responseOwner(responseId: string, tenant = ''): Destination | undefined {
    checkString(responseId, 'responseId')
    checkString(tenant, 'tenant')
    return this.#rooms.destinations.keeping(responseId, tenant)
  }

  /**
   * Runs timers that are due. Only needed with a `clock` of one's own: the system's timer wakes by
   * itself.
   */
  poll(): void {
    this.#rooms.link.poll()
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
    this.#rooms.close()
  }

  [Symbol.dispose](): void {
    this.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close()
    await this.flush()
  }

  #setHealth(id: string, health: 'draining' | 'removed'): void {
    setHealth(this.#rooms.link, { id, health }, this.#rooms.terms.config.logger)
  }
}
