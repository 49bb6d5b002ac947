/**
 * What a run came to: the simulator's report, as it writes it.
 *
 * The names are those of the JSON. Times are milliseconds or seconds as names say; null is a figure
 * that nothing was measured for. A replay over HTTP makes the same report of what its clients saw.
 */

/** How a duration is spread. */
interface Spread {
  count: number
  mean_ms: number | null
  p50_ms: number | null
  p95_ms: number | null
  p99_ms: number | null
  max_ms: number | null
}

/** The fleet at a moment. */
interface Sample {
  at_ms: number
  running: number
  queued: number
  held: number
  paused: number
  working_set_tokens: number
}

interface Report {
  router: string
  workers: number
  seed: number
  /** Live sessions, where that was a setting. */
  population: number | null
  /** Which sessions of the trace these were drawn from. */
  drawn: {
    sessions: number
    /** Left out: turns fewer than `least_turns`, a prompt of `largest_tokens` or more, spawned by others. */
    too_short: number
    too_large: number
    children: number
    least_turns: number
    largest_tokens: number
  } | null
  turns: {
    arrived: number
    completed: number
    /** Cut short because prompt and answer outgrew the cache. */
    outgrown: number
    /** Too large for any worker. */
    rejected: number
    /** By the policy. */
    refused: number
    /** By their client. */
    given_up: number
    unfinished: number
    retried: number
  }
  work: {
    seconds: number
    output_tokens: number
    output_tokens_per_second: number
    turns_per_minute: number
    prompt_tokens: number
    cached_tokens: number
    /** Of these, from a host tier. */
    loaded_tokens: number
    hit_rate: number | null
    prompt_tokens_computed: number
    preemptions: number
    passes: number
    busy: number
  }
  latency: { ttft: Spread; itl: Spread; hold: Spread; e2e: Spread }
  sessions: {
    judged: number
    finished: number
    completion: Spread
    slowdown_mean: number | null
    slowdown_p99: number | null
    /** Quarters by largest prompt, the smallest first. */
    slowdown_by_size: readonly (number | null)[]
    jain: number | null
    slowest_progress: number | null
    progress_mean: number | null
  }
  regret: {
    placements: number
    not_best: number
    offered_tokens: number
    taken_tokens: number
  }
  /** What the policy believed of caches, beside what was there; null where it believes nothing. */
  promises: {
    turns: number
    promised_tokens: number
    missing_tokens: number
    unforeseen_tokens: number
    broken: number
    broken_behind: number
    broken_exact: number
  } | null
  /** What engines told of their caches, where they do. */
  events: { messages: number; lost: number; replays: number } | null
  series: readonly Sample[]
  index: { blocks: number; bytes: number; calls: number } | null
}

export type { Report, Sample, Spread }
