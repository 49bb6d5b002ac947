/**
 * What a user may write in `new Scheduler({...})`, and nothing else.
 *
 * Types only: no check, no default and no value lives here. `resolve.ts` turns these into a
 * `ResolvedConfig` in which every name is checked, every default filled in and every worker has
 * its group. Sizes are tokens unless the name says bytes; times carry their unit in the name.
 */
import type { DialectName } from '../dialects/index.js'
import type { HeaderMap } from '../identity/index.js'
import type { PriceCatalogue, PriceOptions } from '../providers/index.js'
import type { BaseRuleOptions } from './base.js'
import type { Grade, ModelPolicy } from './continuity.js'
import type { EnvCredential } from './env.js'
import type { QueueOptions } from './queue.js'
import type { Tokenize, TokenSource } from './tokens.js'
import type { TraceOptions } from './trace.js'

/** Where an engine publishes what its cache holds, and where it repeats what was missed. */
export interface KvEventsOptions {
  /**
   * The publisher, as `tcp://host:port`; or the `http://` address at which TensorRT-LLM hands its events
   * out (`/kv_cache_events`), which is asked for them and has none of the other fields. With the host `*` the engine connects to us. Each further
   * rank has the next port.
   */
  endpoint: string
  /** The publisher's replay socket. Absent: what was missed is lost, and the status says so. */
  replay?: string
  /** What the topic of its messages begins with. Default: any. */
  topic?: string
  /** Data-parallel ranks, 1 to 64. Default 1. */
  ranks?: number
}

/** One engine replica or one hosted deployment. */
export interface WorkerOptions {
  /** Unique name. Default: host and port of `url`. */
  id?: string
  /** http(s) base address. A path prefix is kept; a trailing `/v1` is right with or without. */
  url: string
  /** Tokens of cache the worker has, 1 to 2^53 - 1. Absent: unknown, admission does not count it. */
  capacityTokens?: number
  /**
   * KV-cache events of vLLM, SGLang or another engine that speaks as they do: the endpoint of its
   * publisher, or more. They are matched with prompts that come as `tokens`, in blocks of
   * `cache.blockTokens`, which must be the engine's own size.
   */
  kvEvents?: string | KvEventsOptions
  /**
   * Sent with every request to this worker, over anything of the client's. Headers of a connection or
   * of a body's framing, such as host and content-length, cannot be set.
   */
  headers?: Record<string, string>
}

/** A key itself, `env('NAME')`, or `'pass-through'`: the client's own credential is sent on. */
export type Credential = 'pass-through' | EnvCredential | (string & {})

/** How a store cuts a page into objects; all of them must be there for it to count. Default: one object. */
export interface PoolLayoutOptions {
  /** Tensor-parallel ranks. */
  tensorParallel?: number
  /**
   * Of these, ranks that have the same, of which only one writes: ranks over KV heads where there are
   * fewer heads than ranks, and all ranks for latent attention with vLLM. Must divide `tensorParallel`.
   */
  copies?: number
  pipelineParallel?: number
  prefillContextParallel?: number
  decodeContextParallel?: number
  /** Cache groups of a hybrid model. */
  cacheGroups?: number
  /** `together` (default; vLLM, and SGLang with latent attention), or `apart`: SGLang's `_k` and `_v`. */
  keysAndValues?: 'together' | 'apart'
}

/**
 * A store that the workers of a target share, such as Mooncake's: whole pages of it count behind what a
 * worker has itself. Its pages have to be the engines' blocks, by the names of their `kvEvents`.
 */
export interface PoolOptions {
  /** Unique name. */
  id: string
  /** A target whose workers share it. Default: that of all workers, where there is only one group. */
  target?: string
  /** Where the store's master publishes its events, as `tcp://host:port`. */
  events: string
  /**
   * Where the master answers over HTTP, as `http://host:9003`: it is asked every few seconds whether it
   * publishes at all, and whether it still has what its events have told. Absent: it is not asked.
   */
  http?: string
  /**
   * What stands in front of a page's hash in the keys that count: the model, and any prefix. Needed
   * where several models are in one store. Default: the only one there is.
   */
  space?: string
  /** Whose objects count, where the store keeps tenants apart. Default: those of no tenant. */
  tenant?: string
  /** Pages that are remembered, about 40 bytes each; further ones earn nothing. Default 262,144. */
  pages?: number
  layout?: PoolLayoutOptions
}

/** What a request is sent to: model x provider x credential, or model x group. */
export interface TargetOptions {
  /** Model name the upstream knows. Default: the target's name. */
  model?: string
  /** `anthropic` and `openai` know their address, dialects and auth header; others are labels. */
  provider?: string
  /**
   * Ids of the workers that serve it. Default: all declared, or the provider's own address. On the same
   * workers each model and each credential has a cache of its own; `kvEvents` tell of the first
   * target's.
   */
  workers?: string[]
  /** Absent: no credential is sent. Hosted providers need one. */
  credential?: Credential
  /**
   * Tell the provider which requests are of one session, where it has a place for that and the client
   * has not used it: by a hash of tenant and session, salted with the credential. For openai, azure,
   * mistral, moonshot, xai, fireworks and openrouter. Default false.
   */
  affinity?: boolean
  /** Wire APIs it speaks. Default: the provider's; for own engines all of them. */
  dialect?: DialectName | DialectName[]
  /**
   * How the cache behind it works, over what `cache` says for all. Targets that have the same workers
   * have the same cache. Default: what is published of the provider `anthropic`, else `cache`.
   */
  cache?: CacheRuleOptions
  /**
   * What its prompts are known by, over what `tokens` says for all. Default: that for own engines, text
   * for a provider's.
   */
  tokens?: TokenSource
  /** How strong the model is among those that an alias offers. Absent: taken to be `middle`. */
  grade?: Grade
  /** How good its answers are, in [0, 1]. Default: 0.64, 0.78 or 0.94 by grade. */
  quality?: number
  /**
   * US dollars a million tokens. What it does not say of the cache is what is published of the
   * provider's; where nothing is, cached input is as dear as any. Default: that of `continuity.prices`;
   * a model without a price is taken to be free, and receipts say so.
   */
  price?: PriceOptions
  /** Tokens of prompt and answer that it can read; a longer turn goes elsewhere. Absent: any. */
  contextTokens?: number
  /** Tokens that it can answer with, as `portability` reckons. Absent: any. */
  outputTokens?: number
  /** Whether it takes images; a turn with some goes elsewhere. Default true. */
  images?: boolean
  /** Whether it calls tools; a turn that offers some goes elsewhere. Default true. */
  tools?: boolean
}

/** How a cache finds what it has of a prompt, and how long it has it. */
export interface CacheRuleOptions {
  /**
   * `block` (default): it has the longest common head of what was sent before. `breakpoint`: it is
   * written where a request has cache markers (`cache_control`, `prompt_cache_breakpoint`), and a
   * later one reads only there; requests that only begin alike share nothing.
   */
  match?: 'block' | 'breakpoint'
  /**
   * How long a prefix is believed to stay cached without being used; for `breakpoint` where the
   * marker says no lifetime (`ttl`) of its own. Absent: 300, but with `block` as long as the worker
   * has room where `capacityTokens` is known.
   */
  ttlSeconds?: number
  /** A shorter prefix is not cached. Default 0. */
  minTokens?: number
  /** `block` only: what is cached is a multiple of so many tokens. Default 1. */
  unitTokens?: number
  /**
   * `breakpoint` only: a marker reads what was written at most so many content blocks before it.
   * Absent: anything before it.
   */
  lookback?: number
  /** `breakpoint` only: a read starts the lifetime again. Default true. */
  refreshOnRead?: boolean
  /** `breakpoint` only: the provider puts a marker at the end of each request. Default false. */
  automatic?: boolean
}

/** Pressure bands as shares of a worker's capacity, each in (0, 1], target <= resume <= pause. */
export interface HysteresisOptions {
  /** Sessions are paused above this share. Default 0.95. */
  pause?: number
  /** Pausing stops at this share. Default 0.80. */
  target?: number
  /** Sessions are resumed below this share. Default 0.85. */
  resume?: number
}

/** Short waits or much work: where `lease` stands between the two. */
export type LeasePreset = 'tail' | 'balanced' | 'throughput'

export interface AdmissionOptions {
  /**
   * `none` (default): every turn goes at once. `lease`: warm turns pass, cold ones queue, idle
   * contexts keep their room for as long as a refill is worth. `thunderagent`: the published
   * controller.
   */
  policy?: 'none' | 'lease' | 'thunderagent'
  /** `lease` only: 0.35, 0.5 or 0.7 as `theta`. Default `balanced`. */
  preset?: LeasePreset
  /**
   * `lease` only, instead of `preset`: how long an idle context keeps its room, over the time for
   * which that costs as much as computing it again. 0.0001 to 10.
   */
  theta?: number
  /** `lease` only: a turn held this long goes whatever the load, but for the gates. Default 600. */
  forceAfterSeconds?: number
  /**
   * `lease` only: tokens of the host tier beside each worker (LMCache, offloading to CPU), where
   * engines send no events that tell what is there. Absent: none.
   */
  hostTokens?: number
  /** `thunderagent` only. */
  hysteresis?: HysteresisOptions
  /** `thunderagent` only: tokens of head-room counted for each session. Default 100. */
  bufferTokens?: number
  /**
   * A turn held this long ends with HOLD_LIMIT. Absent: the policy decides; `thunderagent` lets it go
   * after 30 minutes.
   */
  holdLimitSeconds?: number
  /** `thunderagent` only: how often it looks at the pressure. Default 5000. */
  intervalMs?: number
  /**
   * Turns that a worker runs at once, those of others that its metrics tell of included; further ones
   * wait, with any policy. Absent: any number.
   */
  maxRunning?: number
  /**
   * Sessions whose context a worker keeps; turns of further ones wait until one of them ends, goes
   * elsewhere or has been idle for `sessionIdleSeconds`, with any policy. Absent: any number.
   */
  maxSessions?: number
  /** Default 60. */
  sessionIdleSeconds?: number
  /**
   * In which order turns go that wait for `maxRunning` or `maxSessions`. Absent: one tenant's as they
   * came.
   */
  queue?: QueueOptions
  /**
   * Shares of tenants, by name, where turns wait for `maxRunning`, `maxSessions` or in the queue of
   * `lease`: 0.001 to 1000; one of these is needed. Those that are not named have 1.
   */
  tenantWeights?: Record<string, number>
}

/** Which model answers where an alias offers several. Tool loops and provider state go first. */
export interface ContinuityOptions {
  /**
   * `lookahead`: the least expected price of this turn and those to come, quality included. `saar`: the
   * published session-aware policy. `locks-only` and `single-turn`: the base choice; `sticky`: the first
   * one for ever; `constant`: always `grade`. `bound`: the session's target, else the first that is up.
   * Default: `lookahead` when an alias offers several models and every target of every alias that
   * offers more than one has a price and a grade, else `bound`.
   */
  policy?: ModelPolicy
  /** Is asked as well, and only noted in receipts. */
  shadow?: ModelPolicy
  /** `lookahead`: what a point of quality (1.0) is worth for one turn, in US dollars. Default 0.5. */
  lambda?: number
  /** `lookahead`: quality that is lacking against the base choice's grade, or the best model. Default `shortfall`. */
  value?: 'shortfall' | 'quality'
  /** `lookahead`: US dollars that a switch must save. Default 0. */
  fee?: number
  /** `lookahead`: no weaker model answers, where there is a stronger one. Default `small`. */
  floor?: Grade
  /** `constant` only. Default `middle`. */
  grade?: Grade
  saar?: SaarOptions
  /** What happens when whoever a turn is bound to cannot take it. */
  ownerDown?: OwnerDownOptions
  /**
   * The base choice of turns that come without one: by the first rule that they meet; by none, the
   * first target of the alias that is up.
   */
  base?: BaseRuleOptions[]
  /** Prices by model name, in the shape of LiteLLM's price file or of models.dev. Nothing is fetched. */
  prices?: PriceCatalogue
}

/** Parts of `saar`; its locks are the scheduler's and cannot be taken away. */
export interface SaarOptions {
  /** Turns that a session is expected to have. Absent: not reckoned with. */
  expectedTurns?: number
  /** Another task takes the base choice. Default true. */
  driftReset?: boolean
  /** A session that was idle takes the base choice. Default true. */
  idleReset?: boolean
  /** Dear models make a switch dearer. Default true. */
  pricePressure?: boolean
}

/**
 * `wait` (default): the owner is waited for, for `waitSeconds`, then OWNER_UNAVAILABLE. `fail`: that at
 * once. `strip`: the turn goes elsewhere without what cannot travel (sealed reasoning), and is refused
 * where it leans on more. `escape`: it goes elsewhere as it is. What came of it is in the turn and in
 * its receipt. For an owner that has been removed `wait` and `fail` are STATE_LOST.
 */
export type OwnerDown = 'wait' | 'fail' | 'strip' | 'escape'

/** What happens when the owner of a lock is down, limited, removed or too small for the history. */
export interface OwnerDownOptions {
  /** Of the tool calls that are answered. */
  toolLoop?: OwnerDown
  /** Of what a provider keeps or has sealed. */
  providerState?: OwnerDown
  /**
   * For how long `wait` does. An owner that asks for longer (`Retry-After`) is not waited for. Default
   * 30, at most 600.
   */
  waitSeconds?: number
}

/** Weights of a worker's cost; all finite and not negative, those of `pace` and the tiers at most 1. */
export interface ScoreOptions {
  /** What a cached block takes off the prompt. Default 1; above it warm workers win over idle ones. */
  overlapCredit?: number
  /** How fast that fades with prompts that wait at the worker. Default 0: it does not. */
  overlapDecay?: number
  /**
   * What a block of prompt that waits or is to be computed costs, beside 1 for a block in use. Default
   * 8; the published router has 1.
   */
  prefillScale?: number
  /** Blocks that a turn in flight counts as. Default 0. */
  requestWeight?: number
  /**
   * How little a prompt that has room on no worker minds the prompts that wait before it, times the share of
   * the worker's cache that it has to compute itself: at 2 one that fills half a cache does not mind, and a
   * longer one goes where most waits. Needs `capacityTokens`. Default 2; the published router has 0.
   */
  queuePatience?: number
  /**
   * How much of what turns teach of their workers' times counts. Default 1: a worker that takes three times
   * as long as the others of its group costs up to three times as much; one that is within a quarter of the usual
   * time counts as usual. Needs streamed answers, of which the first token is seen. 0, as the published
   * router: nothing is learnt, all are equally fast.
   */
  pace?: number
  /**
   * What a cached block in host memory takes off the prompt, beside 1 for one on the device: 1 less what
   * fetching it takes over computing it. Default 0.75. With `pace` it is only where learning begins.
   */
  hostCredit?: number
  /** The same of a block on disk or on another machine. Default 0.25. */
  diskCredit?: number
  /** The same of a block in a store that the group shares. Default 0.25. */
  poolCredit?: number
  /** Softmax temperature; 0 (default) always takes the cheapest. */
  temperature?: number
}

/**
 * How strongly sessions stay on the worker that has their cache, beside what that saves by itself. A session
 * is at home there only while the cache has something of its own; through an outage it goes elsewhere and
 * returns. Not to be mistaken for a target's `affinity`, which is told to a provider.
 */
export interface SessionAffinityOptions {
  /**
   * `off` (default): the cost decides each turn. `soft`: home is cheaper by `creditTokens`. `hard`: home takes
   * every turn of the session while it is up and warm, whatever its load. The first turn of a child begins
   * where its parent's prefix is, within `creditTokens`, in both.
   */
  mode?: 'off' | 'soft' | 'hard'
  /**
   * Tokens of prompt that may wait at home more than at another worker; never more than what is warm there
   * and nowhere else needed. Default 4096.
   */
  creditTokens?: number
}

/**
 * Turns that begin alike and come together wait for the first token of the first one, and then read what it
 * has left in the cache. For sub-agents and batches over one text; hosted caches can be read only then.
 */
export interface FanOutOptions {
  /** The longest that one waits so. Default 10. */
  maxWaitSeconds?: number
  /** Tokens of prompt that both have and no cache has: fewer are not waited for. Default 4096. */
  minTokens?: number
}

/** The rules of every target that has none of its own, and the size of a block. */
export interface CacheOptions extends CacheRuleOptions {
  /** Tokens in a block. Default 64. */
  blockTokens?: number
}

/**
 * Whether prompts are known by the tokens that the engine makes of them, which is what its events speak
 * of, or by their text, which needs nobody. Tokens are asked for before a turn is decided; where they
 * cannot be had the turn is known by its text, and its receipt says why.
 */
export interface TokenOptions {
  /**
   * `text` (default); `engine`: an engine of the group is asked, at `<path>/render` or `/tokenize`, with
   * the very bytes that it will be sent; `tokenize` (default where that is given): the function;
   * `answers`: nobody is asked before a turn, vLLM is asked to answer chats with the tokens of their
   * prompts (`return_token_ids`, taken out again of what the client gets), and a turn that goes on from
   * one is known by these as far.
   */
  from?: TokenSource
  tokenize?: Tokenize
  /** The longest that a turn waits for its tokens. Default 500. */
  timeoutMs?: number
}

/** How engines are asked for their metrics: capacity, and the load that others put on them. */
export interface MetricsOptions {
  /** Between two requests to an engine. One that does not answer is asked ever less often. Default 5000. */
  intervalMs?: number
  /** The longest that one may take. Default 2000. */
  timeoutMs?: number
}

/** Upper bounds of what is remembered; the oldest goes first. */
export interface LimitOptions {
  sessions?: number
  reservations?: number
  receipts?: number
  blocks?: number
  owners?: number
  /** Tokens of prompts that are known from answers. Default 16 million, of 8 bytes a block. */
  answerTokens?: number
  /** Largest request body after decompression, and largest JSON answer that is read. Default 64 MiB. */
  bodyBytes?: number
}

export interface IdentityOptions {
  /**
   * Names the tenant of a request: a function, or the header that an authenticating proxy sets. Default,
   * also where that says nothing: a short hash of its credential.
   */
  tenant?: string | ((headers: HeaderMap) => string | undefined)
  /**
   * What becomes of a turn that leans on a stored response, conversation, item or container which its
   * tenant has not been given here, where a target has a credential of its own: whose it is the provider
   * cannot tell. `refuse` (default): UNKNOWN_ID. `pass`: it is sent, as where all clients are one
   * account. A scheduler that begins anew knows none, but for those of a snapshot.
   */
  unknownState?: 'refuse' | 'pass'
}

export interface ForwardOptions {
  /** Request headers sent on beside the built-in list; never credentials or hop-by-hop ones. */
  headers?: string[]
}

/** The part of pino's face that is used. */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

export interface SchedulerOptions {
  /** May be left out when every target is a hosted provider. */
  workers?: WorkerOptions[]
  /** Absent: one target on all workers that passes the model name through. */
  targets?: Record<string, TargetOptions>
  /** Stores that workers share, at most one for the workers of a target. */
  pools?: PoolOptions[]
  /** Names clients ask for -> targets in order of preference. */
  aliases?: Record<string, string[]>
  admission?: AdmissionOptions
  continuity?: ContinuityOptions
  score?: ScoreOptions
  sessionAffinity?: SessionAffinityOptions
  /** Default false: every turn goes by itself. */
  fanOut?: boolean | FanOutOptions
  cache?: CacheOptions
  tokens?: TokenOptions
  /**
   * Ask own engines for `/metrics` (vLLM, SGLang, TensorRT-LLM and what has their names): a
   * `capacityTokens` that is not written is taken from there, and what they do for others counts as
   * load. Default false.
   */
  metrics?: boolean | MetricsOptions
  identity?: IdentityOptions
  forward?: ForwardOptions
  limits?: LimitOptions
  /** Absent: no record is made and nothing of it is paid for. */
  trace?: TraceOptions
  /** Seed of every tie and draw: same seed and same calls, same decisions. Default 0. */
  seed?: number
  /**
   * Milliseconds since the Unix epoch, fractions welcome. Default: the system's. A reading that
   * throws or is no number counts as no time passed.
   */
  clock?: () => number
  /** Silent when absent. What it throws is ignored. */
  logger?: Logger
}
