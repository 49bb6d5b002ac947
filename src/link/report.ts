/**
 * What the scheduler tells about itself: receipts, candidates, status.
 *
 * The core writes these as JSON when somebody asks, with names in place of its numbers. Here they
 * get their types, and candidates the address of their worker. Nothing is computed.
 */
import type { Grade, ModelPolicy, ModelPrice } from '../config/index.js'
import type { HoldReason, Link, LockName } from '../link.js'
import { native } from '../native.js'
import type { Origin } from './frame.js'
import type { Topology } from './topology.js'

export type Trust = 'none' | 'predicted' | 'exact' | 'degraded'

/** How good what is known of a worker's cache is, and why it is no better. */
export interface Evidence {
  readonly trust: Trust
  /**
   * Why: `silent`, `joined-late`, `gap`, `disconnected`, `unconfirmed`, `restarted`, `unreadable`,
   * `flooded`, `evicted` (`limits.blocks` had no room for all that it told), `unknown-event` (an event of
   * a kind that is not known here may have taken something away), `reset`, `block-size` or `tokens`
   * (prompts and events speak of different tokens); of a pool also `no-events` (its master says that it
   * publishes none), `stale` (what it was believed to have is gone) or `ambiguous` (several models are in
   * it, see `space`). Null where events tell all, or none are expected.
   */
  readonly doubt: string | null
  /** What is the matter, most likely, where prompts and events do not match: see `Disagreement`. */
  readonly cause: string | null
  /** Since when, in milliseconds since the Unix epoch; 0 from the start. */
  readonly since: number
}

/** A publisher's stream of events. Counts unless the name says otherwise. */
export interface PublisherStatus {
  readonly connected: boolean
  /** Number of the last message taken in. */
  readonly sequence: number | null
  /** When that was sent, by the engine's clock, in milliseconds since the Unix epoch. */
  readonly sentAt: number | null
  readonly messages: number
  /** Waiting to be applied. */
  readonly pending: number
  readonly gaps: number
  readonly restarts: number
  /** Times that it lost what was waiting, because it was too much. */
  readonly floods: number
  readonly unreadable: number
  readonly disconnects: number
  readonly lastError: string | null
  /** What was in its messages and of no use, by kind. */
  readonly passedOver: Readonly<Record<string, number>>
}

/** One data-parallel rank's stream of events. */
export interface StreamStatus extends PublisherStatus {
  readonly rank: number
  readonly blocks: number
  readonly replays: number
}

/** What the master of a shared store has answered over HTTP. Counts unless the name says otherwise. */
export interface MasterStatus {
  /** Whether it publishes events; null before its first answer. */
  readonly publishes: boolean | null
  /** Objects that it was asked for. */
  readonly asked: number
  /** Of these, ones that were gone though no event had said so. */
  readonly gone: number
  /** Of its last answer, in milliseconds since the Unix epoch. */
  readonly at: number | null
  /** Requests in a row that brought nothing. */
  readonly failures: number
  readonly lastError: string | null
}

/** A store that workers share. Counts unless the name says otherwise. */
export interface PoolStatus {
  readonly id: string
  /** What its events are worth; with trust `none` nothing of it counts. */
  readonly evidence: Evidence
  /** Of which there is some object. */
  readonly pages: number
  /** Of which there is every object of the layout. */
  readonly wholePages: number
  /** Of the whole ones, those that no engine has told the content of. */
  readonly unplacedPages: number
  /** Objects of pages beyond `pages` of the options. */
  readonly refused: number
  /** Objects that pages of this layout do not have: it is another one. */
  readonly foreign: number
  /** Times that what was known became void. */
  readonly cleared: number
  /** Tokens that decisions counted on it for, as far as the engine has said what it read. */
  readonly promisedTokens: number
  /** Of these, tokens that were read. */
  readonly readTokens: number
  /** Memory of what is known of its pages. */
  readonly bytes: number
  readonly stream: (PublisherStatus & { readonly objects: number }) | null
  /** Null where it is not asked. */
  readonly master: MasterStatus | null
}

/** Prompts and events that do not speak of the same tokens. */
export interface Disagreement {
  /**
   * Most likely: `block-size`, `bos` (one token more or less), `tools` (left out of the tokens),
   * `template`, `salt`, `key-order` (of tool schemas), or `tokens` (anything else: vocabulary, adapter,
   * form of hashes).
   */
  readonly cause: string
  /** Tokens of a block, of a prompt, or cached ones, as the cause goes. */
  readonly ours: number
  /** The same by the engine's word. */
  readonly theirs: number
  /** Milliseconds since the Unix epoch. */
  readonly since: number
}

/** What a worker's engine tells. */
export interface EventsStatus {
  /**
   * Tokens that it has told are in its device's cache; prompts that were sent to it count once it has told
   * of them.
   */
  readonly cachedTokens: number
  /** Size of its blocks; null before its first store. */
  readonly blockTokens: number | null
  /** Null where prompts and events match, or nobody can say yet. */
  readonly disagreement: Disagreement | null
  readonly ranks: readonly StreamStatus[]
}

/** What an engine has last said of itself. */
export interface EngineStatus {
  /** `vllm`, `sglang` or `tensorrt-llm`. */
  readonly engine: string | null
  readonly running: number | null
  readonly waiting: number | null
  /** Share of the cache that running requests hold: 0 of an idle engine, however full its cache is. */
  readonly used: number | null
  readonly capacityTokens: number | null
  readonly blockTokens: number | null
  /** Milliseconds since the Unix epoch; null before the first answer. */
  readonly at: number | null
  /** Requests in a row that brought nothing. */
  readonly failures: number
  readonly lastError: string | null
}

/** One worker's row of a decision. Costs are in blocks, the least wins. */
export interface CostRow {
  readonly worker: string
  readonly cost: number
  /** Tokens of the prompt that its cache is believed to hold, contiguous from the start. */
  readonly overlapTokens: number
  /** Further ones that its host's memory holds, by its own word. */
  readonly hostTokens: number
  /** Further ones on disk or on another machine, by its own word. */
  readonly diskTokens: number
  /** Further ones in whole pages of the store that it shares with others. */
  readonly poolTokens: number
  /** The data-parallel rank that has them, where the engine said so. */
  readonly rank: number | null
  /** Uncached prompt tokens of its turns that have no first token yet. */
  readonly prefillTokens: number
  /** Tokens held by its turns in flight, shared ones once. */
  readonly activeTokens: number
  /** Tokens that this turn would add to those. */
  readonly additionalTokens: number
  /** Turns in flight. */
  readonly requests: number
  /** Tokens of prompt that session affinity takes off the cost. */
  readonly affinityTokens: number
  /** Of `prefillTokens`, what a long cold prompt does not mind (`score.queuePatience`). */
  readonly reliefTokens: number
  /** What a prompt's token takes there over the usual worker of its group, as learnt: 1 is as long. */
  readonly prefillPace: number
  /** The same of an answer's token. */
  readonly decodePace: number
}

/** A worker that could take a turn now. */
export interface Candidate extends CostRow {
  readonly target: string
  /** Base address of the worker. */
  readonly url: string
}

/** Why a worker did not take a turn that began to wait. Tokens; times since the Unix epoch. */
export type Refusal = { readonly worker: string } & (
  | { readonly why: 'refill' }
  | { readonly why: 'max-running'; readonly turns: number; readonly most: number }
  | {
      readonly why: 'max-sessions'
      readonly sessions: number
      readonly most: number
      /** When the session that is idle longest may be given up. Milliseconds. */
      readonly nextIdleEnd: number | null
    }
  | { readonly why: 'running'; readonly haveTokens: number; readonly needTokens: number }
  | {
      readonly why: 'leases'
      readonly haveTokens: number
      readonly needTokens: number
      /** Milliseconds. */
      readonly nextLeaseEnd: number | null
    }
)

/** Why the model of a turn answers, in short. */
export interface TurnReason {
  /** Whether the session changes its model with this turn. */
  readonly isSwitch: boolean
  /** A code of docs/reasons.md. */
  readonly reason: string
}

/** One model that could have taken the turn. Money in US dollars. */
export interface ModelRow {
  readonly target: string
  readonly chosen: boolean
  readonly grade: Grade
  /** In [0, 1]. */
  readonly quality: number
  /** Tokens of the prompt that its cache is believed to hold. */
  readonly warmTokens: number
  /** Dollars a million tokens; null: none is known, and it was taken to be free. */
  readonly price:
    | (Omit<ModelPrice, 'cache'> & {
        /** Where the price of cached input comes from; `unknown`: it is as dear as any. */
        readonly cache?: ModelPrice['cache']
      })
    | null
  /** By `lookahead` only. */
  readonly terms: {
    /** This prompt. */
    readonly prompt: number
    /** Of its tokens, those that are not read from the cache. */
    readonly coldTokens: number
    /** The answer. */
    readonly answer: number
    /** Quality that is lacking, in [0, 1]; costs `lambda` dollars a point. */
    readonly shortfall: number
    /** What the turns to come are expected to cost. */
    readonly later: number
    readonly total: number
    /** Whether the model is strong enough. */
    readonly allowed: boolean
  } | null
}

/** What was weighed beside the rows. `saar`: terms without a unit; `lookahead`: dollars, counts, chances. */
export type Weighed =
  | {
      readonly gain: number
      readonly cost: number
      readonly mass: number
      readonly warmth: number
      readonly multiplier: number
    }
  | {
      readonly lambda: number
      readonly fee: number
      /** Chance that the next turn is locked. */
      readonly lockNext: number
      readonly expectedTurns: number
      readonly answerTokens: number
      /** Which state of the counts was believed. */
      readonly epoch: number
    }

/** How the model of a turn was chosen. */
export interface ModelChoice {
  readonly policy: ModelPolicy
  /** A code of docs/reasons.md. */
  readonly reason: string
  /** Whether the session changes its model. */
  readonly switched: boolean
  /** The base choice. */
  readonly asked: string
  /** Which rule of `continuity.base` made it, from 0; null when none did. */
  readonly rule: number | null
  /** The session's model before; null when it had none, or that one could not take the turn. */
  readonly before: string | null
  /** Where the past stopped to bind. */
  readonly boundary: 'idle' | 'drift' | 'new-conversation' | 'too-long' | null
  readonly promptTokens: number
  /** Of these, tokens that were there before. */
  readonly historyTokens: number
  /** Of the session, before this one. */
  readonly turns: number
  readonly switches: number
  readonly rows: readonly ModelRow[]
  readonly weighed: Weighed | null
  /** The decision made once more from this record alone, when it was asked for. */
  readonly again: { readonly target: string; readonly reason: string; readonly agrees: boolean }
  /** What the policy that only watches would have done. */
  readonly shadow: {
    readonly policy: ModelPolicy
    readonly target: string
    readonly reason: string
  } | null
}

/** Why a turn went where it went; the costs can be computed again from it. */
export interface Receipt {
  readonly id: string
  /** Milliseconds since the Unix epoch. */
  readonly at: number
  readonly reservation: number
  readonly session: string
  readonly branch: number | null
  readonly target: string
  readonly worker: string | null
  /** The session's own target was passed over for now. */
  readonly detour: boolean
  /** The session's own target has refused it for longer: it goes on here. */
  readonly moved: boolean
  readonly lock: {
    readonly decided: LockName
    /** Whether it was disregarded, as the options allow when the owner cannot take the turn. */
    readonly escaped: boolean
    /** The same, but without what cannot travel. */
    readonly stripped: boolean
    readonly [note: string]: unknown
  }
  /** How the model was chosen; null where there was no choice. */
  readonly model: ModelChoice | null
  readonly admission: {
    /** `kept`: where the session is; `placed`: where admission has found room. */
    readonly verdict: 'free' | 'kept' | 'placed' | 'held'
    readonly heldMs: number
    readonly worker: string | null
    /** Where in its queue the turn began to wait, from 1. */
    readonly queuedAt: number | null
    /** What it waited for, at last where that has changed. */
    readonly why: HoldReason | null
    /** For how long it was expected to wait; null before enough others had waited. */
    readonly expectedMs: number | null
    /** Why each worker did not take it then. */
    readonly refusals: readonly Refusal[]
  }
  /** What session affinity had to do with it; null where it is off, or the session had no home. */
  readonly affinity: {
    readonly worker: string
    /** `own`: the session's home; `parent`: that of the chain or session that it comes from. */
    readonly tie: 'own' | 'parent'
    /**
     * `stayed`: the turn went there. `moved`: another worker costs less even so. `cold`: nothing of the
     * session's own is cached there any more. `detour`: it cannot take the turn for now, and the session
     * returns. `left`: it gives its sessions away, is limited, or has been removed.
     */
    readonly came: 'stayed' | 'moved' | 'cold' | 'detour' | 'left'
  } | null
  /** The turn that it waited for to compute the beginning of its prompt; null where it did not. */
  readonly followed: {
    readonly reservation: number
    /** Tokens that both have and no cache had. */
    readonly tokens: number
    /** `read`: that turn had its first token; `failed`: it came to nothing; `late`: the wait was long enough. */
    readonly ended: 'waiting' | 'read' | 'failed' | 'late'
  } | null
  readonly prompt: {
    /** What it was known by: hashes count as tokens. */
    readonly form: 'text' | 'tokens'
    /**
     * `given`: as the caller had it. Else where its tokens are from (`tokenizer`, `engine`), or why it
     * was known by its text where tokens were wanted: `late`, `resting` (after failures nobody was
     * asked), `refused`, `failed`, `unsupported` (nobody can be asked in this dialect), `media`,
     * `models` (it could go to several groups of workers), `disagreement` (see `tokens` of a worker).
     * `answers`: its text, and of its beginning the tokens that earlier answers came with.
     */
    readonly origin: Origin
    /** Of the whole prompt: guessed from its text where `form` is `text`, else counted. */
    readonly tokens: number
    /**
     * From its start, those that are known one by one, or by the hashes of their blocks: all where `form`
     * is `tokens`. An engine's count, which may be more than a guess at the whole.
     */
    readonly exactTokens: number
    readonly blocks: number
    readonly unitTokens: number
    /** The part that ends what conversations can share. */
    readonly volatile: {
      readonly segment: number
      readonly atToken: number
      readonly reason: string
    } | null
  }
  readonly predictedCachedTokens: number
  /** How good the evidence behind that is. */
  readonly trust: Trust
  /** What the worker's cache was known by as a whole. */
  readonly evidence: Evidence
  readonly candidates: readonly (CostRow & { readonly chosen: boolean })[]
  /** How many workers were eligible; of many, only the cheapest are kept above. */
  readonly eligible: number
  readonly weights: {
    readonly overlapCredit: number
    readonly overlapDecay: number
    readonly prefillScale: number
    readonly requestWeight: number
    readonly queuePatience: number
    /** Credit of blocks in slower tiers, as learnt (`score.pace`). */
    readonly hostCredit: number
    readonly diskCredit: number
    readonly poolCredit: number
    readonly temperature: number
    readonly draw: number | null
  }
  readonly outcome:
    | {
        /** `cancelled`: its client left, or nobody used it; `failed`: its upstream did. */
        readonly state: 'running' | 'cancelled' | 'failed' | 'rerouted'
      }
    | {
        readonly state: 'completed'
        readonly promptTokens: number | null
        readonly cachedTokens: number | null
        readonly completionTokens: number | null
      }
}

export interface WorkerStatus {
  readonly id: string
  readonly health: 'up' | 'draining' | 'down' | 'limited'
  readonly capacityTokens: number | null
  /** Turns in flight. */
  readonly inFlight: number
  readonly prefillTokens: number
  readonly activeTokens: number
  /** What its engine does that did not come through here, as far as its metrics say. */
  readonly untracked: { readonly requests: number; readonly tokens: number }
  /** What admission counts against the capacity. */
  readonly usedTokens: number
  /** Of these, held for sessions between two turns. */
  readonly leasedTokens: number
  /** What its active sessions need there together; what they share counts once. */
  readonly workingSetTokens: number
  /** It gives its sessions away; null where it does not. */
  readonly leaving: {
    /** So many; null: all, and then it drains. */
    readonly sessions: number | null
    /** Have left so far. */
    readonly moved: number
    /** Milliseconds since the Unix epoch. */
    readonly until: number
  } | null
  readonly predictedCachedTokens: number
  readonly evidence: Evidence
  /** Null for a worker without `kvEvents`. */
  readonly events: EventsStatus | null
  /** What its metrics say; absent unless these are asked for, null before that or for a provider's. */
  readonly engine?: EngineStatus | null
}

/** A turn that waits. */
export interface WaitingTurn {
  readonly reservation: number
  readonly session: string
  readonly tenant: string
  /** Among those that wait for the same, from 1. */
  readonly place: number | null
  readonly why: HoldReason
  readonly waitedMs: number
  readonly expectedMs: number | null
  readonly priority: number
  /** The class of the queue that it waits in, where there are several. */
  readonly class: string | null
}

/** A class of the queue before the gates. */
export interface QueueStatus {
  readonly class: string
  readonly waiting: number
  /** Turns that it was too full for. */
  readonly refused: number
}

/** Figures for an operator. Counts unless the name says otherwise. */
export interface Status {
  readonly sessions: number
  readonly sessionsEvicted: number
  /** Turns held and running. */
  readonly reservations: number
  readonly holds: number
  readonly paused: number
  /** The turns that have waited longest, at most 100. */
  readonly waiting: readonly WaitingTurn[]
  /** The classes of `admission.queue`; empty where there are none. */
  readonly queue: readonly QueueStatus[]
  readonly owners: number
  /** Owners of ids that were forgotten for newer ones. */
  readonly ownersForgotten: number
  readonly receipts: number
  readonly workers: readonly WorkerStatus[]
  readonly targets: readonly string[]
  readonly pools: readonly PoolStatus[]
  readonly prefix: {
    readonly blocks: number
    /** Stretches of blocks that they are kept in. */
    readonly runs: number
    /** Blocks that an engine's name finds at once. */
    readonly anchors: number
    readonly bytes: number
    /** Blocks that an engine said it has once more. */
    readonly copies: number
    readonly evicted: number
  }
  readonly counters: Readonly<
    Record<'submitted' | 'held' | 'completed' | 'cancelled' | 'rerouted', number>
  >
  /** What was wrong with what came in, by kind. */
  readonly anomalies: Readonly<Record<string, number>>
}

export function candidatesOf(json: string, topology: Topology): Candidate[] {
  const { target, candidates } = JSON.parse(json) as { target: string; candidates: CostRow[] }
  return candidates.map((row) => {
    return { ...row, target, url: topology.workerById(row.worker).url }
  })
}

export function receiptOf(link: Link, id: string): Receipt | undefined {
  const number = /^\d{1,16}$/.test(id) ? Number(id) : undefined
  if (number === undefined) return undefined
  const json = link.read((handle) => native.receipt(handle, number))
  if (json === null) return undefined
  const receipt = JSON.parse(json) as Receipt
  const { model } = receipt
  return model === null ? receipt : { ...receipt, model: withSources(model, link) }
}

/** The core prices; where a price comes from is our knowledge. */
function withSources(model: ModelChoice, { topology, prices }: Link): ModelChoice {
  const rows = model.rows.map((row) => {
    const price = prices.get(row.target) ?? topology.anyTarget(row.target)?.card.price
    const cache = price?.cache
    return row.price === null || cache === undefined
      ? row
      : { ...row, price: { ...row.price, cache } }
  })
  return { ...model, rows }
}

let codes: readonly string[] | undefined

/** `why` is the core's number; below 0 where no receipt is kept. */
export function reasonOf(why: number): TurnReason | undefined {
  if (why < 0) return undefined
  codes ??= native.reasonCodes()
  return { isSwitch: why % 2 === 1, reason: codes[why >> 1] ?? '' }
}

/** What has happened so far, as the core writes it. */
export function countsOf(link: Link): string {
  return link.read((handle) => native.counts(handle))
}

export function statusOf(link: Link): Status {
  return JSON.parse(link.read((handle, now) => native.status(handle, now))) as Status
}

/** The core's number of a pool; undefined for one that is not there. */
export function poolNumber(link: Link, id: string): number | undefined {
  const pools = JSON.parse(link.read((handle) => native.pools(handle))) as {
    readonly number: number
    readonly id: string
  }[]
  return pools.find((pool) => pool.id === id)?.number
}
