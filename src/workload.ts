/**
 * The typed face of native workloads and simulated fleets.
 *
 * A workload is what traces say was asked of a fleet; a run lets such turns arrive at a modelled
 * fleet behind a policy. Reading, running and writing happen away from the event loop and reject with
 * a WarmpathError: `WARMPATH_TRACE` names file and line. Reports are the very bytes that the simulator
 * writes: the same workload and scenario give the same text on any machine.
 */
import { fromNative } from './errors.js'
import { addon, type WorkloadHandle } from './native.js'

type TraceFormat = 'request-trace' | 'mooncake' | 'weka' | 'otel' | 'claude-code' | 'codex'

interface TraceSources {
  /** Files, and folders whose JSON files are read. */
  paths: readonly string[]
  /** Of all files. Default: each is looked at. */
  format?: TraceFormat
  /** Leaves faulty records out and counts them, instead of failing at the first. */
  lenient?: boolean
  /** Tokens of a block where the format does not say. */
  blockTokens?: number
  /**
   * Turns of side chains that a recording does not mark stay in their session. Default: they become
   * sessions of their own.
   */
  keepSideChains?: boolean
  /**
   * Only a part: the first turns of each session, sessions whose contexts fit, the smallest ones; and with
   * arrivals and pauses that pass a whole number of times as fast.
   */
  select?: { firstTurns?: number; largestContext?: number; smallest?: number; faster?: number }
}

/** What generated sessions look like; what is left out is an agent with some 10,000 tokens. */
interface SessionShape {
  sessions?: number
  /** Mean turns of a session. */
  turns?: number
  blockTokens?: number
  systemPrompts?: number
  systemTokens?: number
  /** Median tokens that a turn adds to the prompt, and of an answer. */
  addedTokens?: number
  outputTokens?: number
  /** Mean time between the starts of two sessions; median time of a tool and of a person. */
  arrivalsMs?: number
  toolMs?: number
  personMs?: number
  /** Share of turns that a person follows. */
  personShare?: number
}

/** What is in a workload, and what was left out of it. */
interface WorkloadSummary {
  files: readonly { path: string; format: TraceFormat }[]
  /** Files of folders that are no trace, and why not. */
  ignored: readonly { path: string; why: string }[]
  /** Records left out, by what was wrong with them. */
  skipped: Readonly<Record<string, number>>
  /** What records said of others and was left out, by what was wrong with it; the records are there. */
  unlinked: Readonly<Record<string, number>>
  /** Sessions whose parent has no request in the trace. */
  orphans: number
  blockTokens: number
  sessions: number
  /** Of these, spawned by another one. */
  subSessions: number
  turns: number
  promptTokens: number
  outputTokens: number
  largestPromptTokens: number
  /** Turns with a time of their own, and the latest of these times. */
  openTurns: number
  lastArrivalMs: number
}

/** Reuse that caches could have given; tokens. */
interface Bounds {
  prompt_tokens: number
  /** In a cache that never forgets. */
  infinite_tokens: number
  /** In one pooled cache. */
  pooled_tokens: number
}

/** Which policy, in front of which fleet, under which load. */
interface Scenario {
  /** What the report calls the policy. */
  label: string
  /** `core`: the options of a scheduler's admission. */
  policy: 'round-robin' | 'least-loaded' | { core: { policy: string; [option: string]: unknown } }
  /** Weights of a worker's cost. Default: those of the published router, all of them. */
  score?: { [weight: string]: number }
  /** How strongly sessions stay, in the core's terms. Default: not at all. */
  affinity?: { mode?: 'off' | 'soft' | 'hard'; creditTokens?: number }
  /** Turns wait for one that computes the beginning that they share. Default: they do not. */
  fanOut?: { maxWaitMs?: number; minTokens?: number }
  workers: number
  /** How many times as fast as the engine model the first workers compute (1/64 to 64). Default: as fast. */
  speeds?: readonly number[]
  engine: 'dynamo-poly' | 'h100-class'
  /** Of one worker. Default: the engine model's. */
  cacheTokens?: number
  /** Of a host tier behind each engine's cache. Default: there is none. */
  hostTokens?: number
  /** Default: the workload's. */
  blockTokens?: number
  /** `h100-class` only. */
  prefill?: 'fcfs' | 'shortest'
  eviction?: 'lru' | 'lease-end'
  /** Nothing starts before its time in the trace; without a population. */
  keepTimes?: boolean
  /** A closed population of sessions; without it every turn comes once, when the trace says. */
  population?: {
    pressure: number
    /** So many sessions, whatever the pressure is. */
    sessions?: number
    turns?: number
    leastTurns?: number
    longestGapMs?: number
    warmUpMs?: number
    measureMs?: number
  }
  /**
   * The policy hears what engines store and remove, late and with loss (0 to 1). What is lost an engine
   * tells again when it is asked (`replay`, the default), or never. `dynamo-poly` only.
   */
  events?: { lagMs: number; loss: number; recovery?: 'replay' | 'never' }
  /** Workers die, on average so often, and come back. */
  outages?: { everyMs: number; downMs: number }
  /** Mean time until a client without a token gives up. */
  patienceMs?: number
  seed: number
}

/** Turns in columns: entry i of each is of turn i. What a turn waits for stands before it. */
interface WorkloadTurns {
  sessions: readonly string[]
  /** Of each session; -1 for none. */
  parents: readonly number[]
  session: readonly number[]
  inputTokens: readonly number[]
  outputTokens: readonly number[]
  next: readonly ('tool' | 'person' | 'unknown' | 'end')[]
  /** Since the replay began; null where the turn waits for others. */
  atMs: readonly (number | null)[]
  waits: readonly (readonly { turn: number; moment: 'start' | 'end'; delayMs: number }[])[]
}

interface RunOptions {
  signal?: AbortSignal
  /** Told a few times a second how far the run is. */
  onProgress?: (progress: RunProgress) => void
}

interface RunProgress {
  /** Turns that have arrived. */
  arrived: number
  /** On the run's clock. */
  nowMs: number
}

/** Rows written, and those of them whose start the format could not say. */
interface Written {
  rows: number
  approximated: number
}

const LOOK_MS = 200

/** What was asked of a fleet. Immutable; any number of runs may use it at once. */
class Workload {
  readonly #handle: WorkloadHandle

  private constructor(handle: WorkloadHandle) {
    this.#handle = handle
  }

  /** Rejects with `WARMPATH_TRACE` for what cannot be read. */
  static async read(sources: TraceSources): Promise<Workload> {
    return new Workload(await typed(() => addon.readWorkload(JSON.stringify(sources))))
  }

  /** The same shape and seed give the same workload. */
  static generate(shape: SessionShape, seed: number): Workload {
    return new Workload(addon.generateWorkload(JSON.stringify(shape), seed))
  }

  summary(): WorkloadSummary {
    return JSON.parse(addon.workloadSummary(this.#handle)) as WorkloadSummary
  }

  turns(): WorkloadTurns {
    return JSON.parse(addon.workloadTurns(this.#handle)) as WorkloadTurns
  }

  /** One number a block of the prompt, equal where the content is. */
  blocks(turn: number): Uint32Array {
    return addon.workloadBlocks(this.#handle, turn)
  }

  /** @param cacheTokens of the pooled cache */
  async bounds(cacheTokens: number): Promise<Bounds> {
    const text = await typed(() => addon.workloadBounds(this.#handle, cacheTokens))
    return JSON.parse(text) as Bounds
  }

  /** The report's JSON. Rejects with `WARMPATH_ABORTED` when `signal` ends it. */
  async simulate(scenario: Scenario, { signal, onProgress }: RunOptions = {}): Promise<string> {
    const run = addon.openRun()
    const stop = () => addon.stopRun(run)
    if (signal?.aborted) stop()
    signal?.addEventListener('abort', stop, { once: true })
    const out = new Float64Array(2)
    const look = () => {
      addon.runProgress(run, out)
      onProgress?.({ arrived: out[0] ?? 0, nowMs: out[1] ?? 0 })
    }
    const timer = onProgress && setInterval(look, LOOK_MS).unref()
    try {
      return await typed(() => addon.simulateFleet(this.#handle, run, JSON.stringify(scenario)))
    } finally {
      clearInterval(timer)
      signal?.removeEventListener('abort', stop)
    }
  }

  /** @param extras whether rows also hold what only Warmpath reads */
  async write(
    path: string,
    format: 'mooncake' | 'agentic-mooncake',
    extras: boolean,
  ): Promise<Written> {
    const text = await typed(() => addon.writeWorkload(this.#handle, path, format, extras))
    return JSON.parse(text) as Written
  }
}

/** Our own traces as a picture for Perfetto. */
async function writePerfetto(sources: readonly string[], path: string): Promise<Written> {
  return JSON.parse(await typed(() => addon.writePerfetto([...sources], path))) as Written
}

/** Why a decision was not made again; its receipt was checked by itself then. */
type NotAgain =
  /** Its record does not say what the scheduler was told. */
  | 'no-steps'
  /** It says so in the form of another version. */
  | 'other-form'
  /** Records before it are missing. */
  | 'missing'
  /** It follows from what engines told of their caches. */
  | 'engines'
  /** It follows from what a snapshot held. */
  | 'snapshot'
  /** A prompt before it came in part only. */
  | 'recalled'

/** What came of deciding again. */
interface Verified {
  /** Decisions made again, up to the first that differs. */
  decisions: number
  /** Receipts in the trace. */
  of: number
  /** Schedulers that told what they were told: one a run of a gateway. */
  schedulers: number
  /** Receipts checked by themselves. */
  alone: Partial<Record<NotAgain, number>>
  /** Records that have no receipt. */
  withoutReceipt: number
  /** Receipts checked by themselves that name no candidates: nothing follows from them. */
  withoutCandidates: number
  /** Files of folders that are no trace of ours. */
  passedOver: number
  /** Lines that are no records; `lenient` only. */
  unreadable: number
  /** Where steps are missing: after which request, null at the start, and how many. */
  gaps: readonly { after: string | null; steps: number }[]
  difference: {
    request: string
    session: string | null
    what: string
    recorded: unknown
    /** Null: there is no such decision now. */
    now: unknown
  } | null
}

/**
 * Decides the decisions of recordings again, up to the first that comes out otherwise.
 *
 * @param paths our own traces, with whole receipts; files and folders
 * @param lenient lines that cannot be read are missing, and no error
 */
async function verifyDecisions(paths: readonly string[], lenient = false): Promise<Verified> {
  const text = await typed(() => addon.verifyDecisions(JSON.stringify({ paths, lenient })))
  return JSON.parse(text) as Verified
}

async function typed<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (error) {
    throw fromNative(error)
  }
}

export {
  type Bounds,
  type NotAgain,
  type RunOptions,
  type RunProgress,
  type Scenario,
  type SessionShape,
  type TraceFormat,
  type TraceSources,
  type Verified,
  verifyDecisions,
  Workload,
  type WorkloadSummary,
  type WorkloadTurns,
  type Written,
  writePerfetto,
}
