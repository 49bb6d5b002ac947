/**
 * Which turns get a record, what number each has, and who gets it.
 *
 * One a scheduler that was given `trace`. A turn's record is made in the call that ends the turn:
 * its block hashes are read from the core and its facts put together, which costs the prompt's
 * blocks; writing it down happens later (outlet.ts). Where no sink has room or wants it, not even
 * the hashes are read. Numbers of turns are counted here, for as many sessions as the scheduler
 * remembers; the longest unused are forgotten first.
 */
import { randomBytes } from 'node:crypto'
import type { Clock } from '../clock.js'
import type { KeptSteps, Logger, ResolvedConfig, TraceSettings } from '../config/index.js'
import { countOf } from '../dialects/index.js'
import type { Identity } from '../identity/index.js'
import { type Receipt, receiptOf } from '../link/report.js'
import type { Link } from '../link.js'
import { diagnostics } from './diagnostics.js'
import { Names } from './names.js'
import { Outlet, type OutletCounts } from './outlet.js'
import { recordOf } from './record.js'
import { type BegunTurn, type Desk, type EndedTurn, TurnTrace } from './turn.js'

/** What became of records; of all sinks together. */
export type TraceStatus = Readonly<OutletCounts> & {
  /** In the queues. */
  readonly waiting: number
}

/** What a recorder needs of its scheduler. */
export interface RecorderParts {
  readonly link: Link
  readonly clock: Clock
  /** Sessions whose turns are counted. */
  readonly sessions: number
  readonly blockTokens: number
  readonly logger: Logger | undefined
}

/** What is known of a turn when the core has taken it in. */
interface TakenIn {
  readonly reservation: number
  readonly tenant: string
  /** By the client's name, or by the core's. */
  readonly session: string
  readonly identity: Identity
  readonly promptTokens: number
  readonly received: number | undefined
}

const NO_KEY = new Uint8Array(0)
/** Of one prompt: more than any has, and no more memory than its text. */
const MAX_BLOCKS = 1 << 20

/** Whole receipts come with what the scheduler was told: its decisions can be made again from it. */
export function keptSteps({ trace }: ResolvedConfig): KeptSteps | undefined {
  if (trace === undefined || trace.receipts === 'id') return undefined
  const scheduler = randomBytes(8).toString('hex')
  if (trace.key === undefined) return { scheduler }
  return { scheduler, key: Buffer.from(trace.key).toString('hex') }
}

/** The recorder that the options ask for. Throws CONFIG when a sink cannot be opened. */
export function openRecorder(
  { trace, settings, logger }: ResolvedConfig,
  link: Link,
  clock: Clock,
): Recorder | undefined {
  if (trace === undefined) return undefined
  const { blockTokens } = settings.cache
  return new Recorder(trace, {
    link,
    clock,
    sessions: settings.limits.sessions,
    blockTokens,
    logger,
  })
}

export class Recorder implements Desk {
  readonly #settings: TraceSettings
  readonly #parts: RecorderParts
  readonly #names: Names
  readonly #outlets: readonly Outlet[]
  readonly #since: number
  /** Sets the requests of this recorder apart from those of every other. */
  readonly #run = randomBytes(6).toString('hex')
  readonly #turns = new Map<string, number>()
  #open = 0
  #isClosing = false
  #closed: Promise<void> | undefined

  /** Whether all that the scheduler is told is kept. */
  get keepsSteps(): boolean {
    return this.#settings.receipts === 'full'
  }

  /** Opens the sinks. Throws what one of them finds wrong with its options. */
  constructor(settings: TraceSettings, parts: RecorderParts) {
    this.#settings = settings
    this.#parts = parts
    this.#names = new Names(settings.key)
    this.#since = parts.clock()
    const sinks = settings.sinks.length > 0 ? settings.sinks : [diagnostics()]
    this.#outlets = sinks.map((sink) => new Outlet(sink, settings, parts.logger))
    this.#openAll()
  }

  now(): number {
    return this.#parts.clock()
  }

  /** The time, where a record of a turn that comes in now would reach anybody. */
  arrival(): number | undefined {
    return this.#outlets.some((outlet) => outlet.wants) ? this.now() : undefined
  }

  /**
   * The record of a turn begins, right after its submit: the lengths of its segments are gone with
   * the next one. Undefined when nobody wanted it on arrival.
   */
  begin({ received, identity, ...known }: TakenIn): TurnTrace | undefined {
    if (received === undefined) return undefined
    return this.#count({
      reservation: known.reservation,
      tenant: known.tenant,
      session: known.session,
      isNamed: identity.session !== undefined,
      parent: identity.parent,
      final: identity.final,
      promptTokens: known.promptTokens,
      segmentBytes: this.#parts.link.segmentBytes(),
      received,
    })
  }

  opened(): void {
    this.#open += 1
  }

  /** Nothing that goes wrong with a record is the turn's business. */
  ended(turn: EndedTurn | undefined): () => void {
    const hand = turn && this.#tried(() => this.#prepare(turn))
    return () => {
      if (hand !== undefined) this.#tried(hand)
      this.#left()
    }
  }

  status(): TraceStatus {
    const sum = { written: 0, dropped: 0, lost: 0, waiting: 0 }
    for (const { counts, waiting } of this.#outlets) {
      sum.written += counts.written
      sum.dropped += counts.dropped
      sum.lost += counts.lost
      sum.waiting += waiting
    }
    return sum
  }

  /** Resolves when every record so far has been written; after `close`, when the sinks are closed. */
  async flush(): Promise<void> {
    await Promise.all(this.#outlets.map((outlet) => outlet.flush()))
    await this.#closed
  }

  /** Closes the sinks once the turns that run have ended. */
  close(): void {
    this.#isClosing = true
    this.#closeWhenLeft()
  }

  /** Gives the turn its number. */
  #count(turn: BegunTurn): TurnTrace {
    const session = this.#names.session(turn.tenant, turn.session)
    const number = this.#turns.get(session) ?? 0
    // Deleted first: a map keeps the order of insertion, and the first is the longest unused.
    this.#turns.delete(session)
    if (!turn.final) this.#turns.set(session, number + 1)
    if (this.#turns.size > this.#parts.sessions) {
      for (const oldest of this.#turns.keys()) {
        this.#turns.delete(oldest)
        break
      }
    }
    return new TurnTrace(this, turn, number)
  }

  /** Reads what ends with the reservation. Returns what makes the record and hands it on. */
  #prepare(turn: EndedTurn): (() => void) | undefined {
    const takers = this.#outlets.filter((outlet) => outlet.wants && outlet.admits())
    if (takers.length === 0) return undefined
    const blocks = this.#blocks(turn)
    return () => {
      const record = recordOf(turn, {
        requestId: `${this.#run}-${turn.reservation}`,
        since: this.#since,
        names: this.#namesOf(turn),
        blocks,
        receipt: this.#receipt(turn),
        told: this.keepsSteps ? this.#parts.link.takeSteps() : undefined,
      })
      for (const outlet of takers) outlet.push(record)
    }
  }

  #tried<T>(make: () => T): T | undefined {
    try {
      return make()
    } catch (cause) {
      this.#parts.logger?.error({ cause }, 'a turn could not be recorded')
      return undefined
    }
  }

  #openAll(): void {
    const open: Outlet[] = []
    try {
      for (const outlet of this.#outlets) {
        outlet.open()
        open.push(outlet)
      }
    } catch (error) {
      for (const outlet of open) void outlet.close()
      throw error
    }
  }

  #left(): void {
    this.#open -= 1
    this.#closeWhenLeft()
  }

  #closeWhenLeft(): void {
    if (!this.#isClosing || this.#open > 0 || this.#closed !== undefined) return
    this.#closed = Promise.all(this.#outlets.map((outlet) => outlet.close())).then(() => undefined)
  }

  #blocks({ usage, promptTokens, reservation, segmentBytes }: EndedTurn) {
    const { blockTokens, link } = this.#parts
    const { bytesPerToken, key } = this.#settings
    const tokens = Math.max(1, countOf(usage?.promptTokens) || promptTokens)
    const hashes = new BigUint64Array(Math.min(MAX_BLOCKS, Math.ceil(tokens / blockTokens)))
    const stride = Math.max(1, Math.round(blockTokens * bytesPerToken))
    const cuts = new Uint32Array(1 + segmentBytes.length)
    cuts[0] = stride
    cuts.set(segmentBytes, 1)
    const count = link.hashes(reservation, cuts, key ?? NO_KEY, hashes)
    return {
      trace_block_size: blockTokens,
      input_length: tokens,
      // A copy where there is less than was reported: a view would keep all of it in the queue.
      input_sequence_hashes: count < hashes.length ? hashes.slice(0, count) : hashes,
    }
  }

  #namesOf({ tenant, session, parent, isNamed }: EndedTurn) {
    const names = this.#names
    const ofParent = (name: (tenant: string, session: string) => string) =>
      parent === undefined ? undefined : name(tenant, parent)
    return {
      session: names.session(tenant, session),
      parent: ofParent((...given) => names.session(...given)),
      sent: isNamed
        ? {
            session: names.asSent(tenant, session),
            parent: ofParent((...given) => names.asSent(...given)),
          }
        : undefined,
    }
  }

  #receipt({ sent, tenant, session }: EndedTurn): Receipt | undefined {
    if (this.#settings.receipts === 'id') return undefined
    const receipt = receiptOf(this.#parts.link, String(sent.receipt))
    return receipt && { ...receipt, session: this.#names.asSent(tenant, session) }
  }
}
