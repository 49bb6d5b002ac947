/**
 * Question: do the engines and what the configuration says of them agree?
 *
 * From what a scheduler knows of a worker after listening for a while, and what the worker's own
 * `/metrics` says, to a row and to what should be changed. Nothing is asked or read here.
 */
import type { EngineMetrics } from '../engines/index.js'
import type { PoolStatus, WorkerStatus } from '../index.js'
import { type Probed, probeAdvice } from './probe.js'
import { table, visible } from './table.js'

/** Whether a worker's `kvEvents` has a replay, could have one, or never: events that are asked for. */
type Replay = 'has' | 'lacks' | 'never'

/** What was found out about one worker. */
interface Examined {
  readonly worker: WorkerStatus
  /** What it answered, or why it did not. */
  readonly health: string
  readonly metrics?: EngineMetrics
  /** Tokens in a block, as the configuration has it. */
  readonly blockTokens: number
  /** What became of a prompt of our own, where it was sent one. */
  readonly probed?: Probed | undefined
  /** Default: `lacks`. */
  readonly replay?: Replay | undefined
  /** It hands its events out once, and was not asked for them. */
  readonly leavesEvents?: boolean
}

/** One worker of a diagnosis; the names are those of the JSON. */
interface Row {
  readonly worker: string
  readonly health: string
  readonly engine: string | null
  readonly capacityTokens: number | null
  readonly blockTokens: number | null
  /** Requests that it runs, and that wait in it. */
  readonly running: number | null
  readonly waiting: number | null
  /** Share of the cache that running requests hold: an idle engine whose cache is full says 0. */
  readonly used: number | null
  readonly events: string
  readonly sequence: number | null
  readonly trust: string
  readonly doubt: string | null
  readonly cause: string | null
  readonly cachedTokens: number | null
  /** Null where it was sent no prompt of our own. */
  readonly probe: Probed | null
  readonly advice: readonly string[]
}

/** What to do about a doubt, whatever can be had once more. */
const ANYWAY = {
  evicted: 'raise limits.blocks: not all that the engine tells of has room',
  unreadable: 'the engine publishes what is not understood: report it with its version',
  'unknown-event': 'the engine tells of what is not known here: report it with its version',
}

/** What to do about a doubt, by whether what has passed can be had once more. */
const ADVICE: Record<Replay, Record<string, string>> = {
  lacks: {
    'joined-late': 'give kvEvents a replay endpoint, and the engine one (vLLM, SGLang)',
    gap: 'give kvEvents a replay endpoint, and the engine one (vLLM, SGLang)',
    ...ANYWAY,
  },
  has: {
    'joined-late': 'its replay does not reach back so far: give the engine a longer buffer',
    gap: 'its replay does not reach back so far: give the engine a longer buffer',
    ...ANYWAY,
  },
  never: {
    'joined-late': 'what it told before is gone: start the engine anew behind a gateway that runs',
    gap: 'raise kv_cache_config.event_buffer_max_size, and let nobody else ask for its events',
    ...ANYWAY,
  },
}

const BY_CAUSE: Record<string, string> = {
  bos: 'one token differs: only one side adds a beginning of sequence',
  tools: 'the engine sees more: tokenise the tools too',
  template: "another length: use the engine's chat template with its arguments",
  salt: 'as long, but nothing matches: check cache_salt',
  'key-order':
    'as long, but nothing matches: do not write tool schemas anew, keys keep their order',
  tokens: 'as long, but nothing matches: another vocabulary, an adapter, or another form of hashes',
}

function diagnose(examined: Examined): Row {
  const { worker, health, metrics } = examined
  const stream = worker.events?.ranks[0]
  return {
    worker: worker.id,
    health,
    engine: metrics?.engine ?? null,
    capacityTokens: metrics?.capacityTokens ?? worker.capacityTokens,
    blockTokens: worker.events?.blockTokens ?? metrics?.blockTokens ?? null,
    running: metrics?.running ?? null,
    waiting: metrics?.waiting ?? null,
    used: metrics?.used ?? null,
    events: examined.leavesEvents ? 'not asked' : eventsOf(worker),
    sequence: stream?.sequence ?? null,
    trust: worker.evidence.trust,
    doubt: worker.evidence.doubt,
    cause: worker.evidence.cause,
    cachedTokens: worker.events?.cachedTokens ?? null,
    probe: examined.probed ?? null,
    advice: [...advice(examined)],
  }
}

function eventsOf({ events }: WorkerStatus): string {
  if (events === null) return 'none'
  const open = events.ranks.filter(({ connected }) => connected).length
  const flowing = events.ranks.some(({ messages }) => messages > 0)
  if (open < events.ranks.length) return `${open}/${events.ranks.length} connected`
  return flowing ? 'flowing' : 'connected'
}

function* advice(examined: Examined): Generator<string> {
  const { worker, health, metrics, blockTokens, probed, replay = 'lacks' } = examined
  if (health !== 'ok') yield `it does not answer: ${health}`
  const capacity = metrics?.capacityTokens
  if (capacity !== undefined && worker.capacityTokens !== capacity) {
    const how = worker.capacityTokens === null ? ', or turn metrics on' : ''
    yield `set its capacityTokens to ${capacity}${how}`
  }
  if (metrics?.prefixCaching === false) yield 'turn prefix caching on in the engine'
  if (worker.events === null) return
  const size = worker.events.blockTokens ?? metrics?.blockTokens
  if (size !== undefined && size !== blockTokens) yield `set cache.blockTokens to ${size}`
  for (const { connected, lastError, rank } of worker.events.ranks) {
    if (!connected) yield `rank ${rank} has no events: ${lastError ?? 'no connection yet'}`
  }
  const { disagreement } = worker.events
  const cause = BY_CAUSE[disagreement?.cause ?? '']
  if (disagreement !== null && cause !== undefined) {
    const { ours, theirs } = disagreement
    yield `prompts and events speak of different tokens (${ours} here, ${theirs} there): ${cause}`
  }
  if (probed !== undefined) yield* probeAdvice(probed, blockTokens)
  const told = ADVICE[replay][worker.evidence.doubt ?? '']
  if (told !== undefined) yield told
}

function renderDiagnosis(rows: readonly Row[]): string {
  const head = [
    ...['WORKER', 'HEALTH', 'ENGINE', 'CAPACITY', 'BLOCK', 'RUN', 'WAIT'],
    ...['EVENTS', 'SEQUENCE', 'TRUST'],
  ]
  const cells = rows.map((row) => [
    row.worker,
    row.health === 'ok' ? 'ok' : 'failed',
    row.engine ?? undefined,
    row.capacityTokens ?? undefined,
    row.blockTokens ?? undefined,
    row.running ?? undefined,
    row.waiting ?? undefined,
    row.events,
    row.sequence ?? undefined,
    row.doubt === null ? row.trust : `${row.trust} (${row.doubt})`,
  ])
  const advice = rows.flatMap((row) => row.advice.map((each) => `${row.worker}: ${each}`))
  const lines = advice.length === 0 ? ['nothing to change'] : advice
  const left = rows.filter(({ events }) => events === 'not asked').map(({ worker }) => worker)
  if (left.length > 0) {
    lines.push(
      `not asked for events: ${left.map(visible).join(', ')}, which hands them out once; --take-events does, and takes them from a gateway that runs`,
    )
  }
  return `${table(head, cells)}\n\n${lines.join('\n')}\n`
}

/** One shared store of a diagnosis; the names are those of the JSON. */
interface PoolRow {
  readonly pool: string
  readonly trust: string
  readonly doubt: string | null
  readonly events: string
  readonly sequence: number | null
  /** Whether its master says that it publishes; null where it was not asked or has not answered. */
  readonly publishes: boolean | null
  readonly objects: number
  readonly pages: number
  readonly wholePages: number
  readonly unplacedPages: number
  readonly advice: readonly string[]
}

function diagnosePool(pool: PoolStatus): PoolRow {
  const { stream } = pool
  return {
    pool: pool.id,
    trust: pool.evidence.trust,
    doubt: pool.evidence.doubt,
    events: stream?.connected ? (stream.messages > 0 ? 'flowing' : 'connected') : 'not connected',
    sequence: stream?.sequence ?? null,
    publishes: pool.master?.publishes ?? null,
    objects: stream?.objects ?? 0,
    pages: pool.pages,
    wholePages: pool.wholePages,
    unplacedPages: pool.unplacedPages,
    advice: [...poolAdvice(pool)],
  }
}

function* poolAdvice({ stream, master, ...pool }: PoolStatus): Generator<string> {
  if (master?.publishes === false) {
    yield 'its master publishes no events: build it with ENABLE_KV_EVENTS and start it with --enable_kv_events'
  } else if (stream !== null && !stream.connected) {
    yield `it has no events: ${stream.lastError ?? 'no connection yet'}`
  }
  if (master !== null && master.publishes === null) {
    yield `its master does not answer: ${master.lastError ?? 'not asked yet'}`
  }
  const passed = stream?.passedOver ?? {}
  if (pool.evidence.doubt === 'ambiguous') {
    yield 'objects of several models are in it: set `space` to what stands before the hash in the keys that count'
  }
  if (pool.evidence.doubt === 'unknown-event') {
    yield 'its master tells of what is not known here: report it with its version'
  }
  if (passed.malformed)
    yield 'its events have no keys: start the master with --kv_events_emit_object_key'
  if (pool.foreign > 0)
    yield `${pool.foreign} objects are of another layout: compare it with the engines'`
  if (pool.refused > 0) yield 'it has more pages than are remembered: raise `pages`'
  if (pool.pages > 0 && pool.wholePages === 0) {
    yield 'none of its pages is whole: compare `layout` with the engines'
  }
  if (pool.wholePages > 0 && pool.unplacedPages === pool.wholePages) {
    yield "no page has the name of a block that the engines have told of: is it cut in the engines' blocks?"
  }
}

function renderPools(rows: readonly PoolRow[]): string {
  if (rows.length === 0) return ''
  const head = ['POOL', 'EVENTS', 'SEQUENCE', 'TRUST', 'OBJECTS', 'PAGES', 'WHOLE', 'UNPLACED']
  const cells = rows.map((row) => [
    row.pool,
    row.publishes === false ? 'off' : row.events,
    row.sequence ?? undefined,
    row.doubt === null ? row.trust : `${row.trust} (${row.doubt})`,
    row.objects,
    row.pages,
    row.wholePages,
    row.unplacedPages,
  ])
  const advice = rows.flatMap((row) => row.advice.map((each) => `${row.pool}: ${each}`))
  return `\n${table(head, cells)}\n${advice.map((each) => `\n${each}`).join('')}\n`
}

export {
  diagnose,
  diagnosePool,
  type Examined,
  type PoolRow,
  type Replay,
  type Row,
  renderDiagnosis,
  renderPools,
}
