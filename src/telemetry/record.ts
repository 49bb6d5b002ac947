/**
 * What a trace says of one turn: `dynamo.request.trace.v1`, and ours under `warmpath`.
 *
 * Types only, in the schema's own names, so that its tools read what is written. There is no prompt,
 * answer or tool argument in it. What is not known is absent, never zero. Readers of ours are in
 * crates/trace (`record`), which names the same fields; a test there reads a file written here.
 */

/** One record. */
export interface TraceRecord {
  /** Milliseconds since the scheduler began. */
  readonly timestamp: number
  readonly event: TraceEvent
}

export interface TraceEvent {
  readonly schema: 'dynamo.request.trace.v1'
  readonly event_type: 'request_end'
  /** Milliseconds since 1970, whole. */
  readonly event_time_unix_ms: number
  readonly event_source: 'warmpath'
  /** Absent when the client named no session. */
  readonly agent_context?: {
    readonly session_id: string
    readonly parent_session_id?: string
    readonly session_final?: true
  }
  readonly request: TracedRequest
  readonly warmpath: TracedTurn
}

/** How a request went, in words that other tools know. Times are milliseconds, tokens counts. */
export interface TracedRequest {
  /** Unique, also among the traces of other processes. */
  readonly request_id: string
  readonly model?: string
  /** As reported. */
  readonly input_tokens?: number
  readonly output_tokens?: number
  readonly cached_tokens?: number
  readonly request_received_ms: number
  readonly ttft_ms?: number
  readonly total_time_ms: number
  readonly avg_itl_ms?: number
  /** 0 to 1. */
  readonly kv_hit_rate?: number
  readonly worker: TracedWorker
  readonly replay: TracedBlocks
  readonly finish_reason_metadata: {
    /** The provider's word; `cancelled` or `error` for an answer that did not come to its end. */
    readonly finish_reason?: string
    readonly tool_calls?: readonly TracedToolCall[]
  }
}

/** By number: the order in which workers joined. Names are in the receipt. */
export interface TracedWorker {
  readonly prefill_worker_id: number
  readonly prefill_dp_rank: number
  readonly decode_worker_id: number
  readonly decode_dp_rank: number
}

/** The blocks of a prompt: what a replay needs in place of its content. */
export interface TracedBlocks {
  /** Tokens. */
  readonly trace_block_size: number
  /** Tokens of the prompt: as reported, else the estimate. */
  readonly input_length: number
  /** One a block; each vouches for all before it. */
  readonly input_sequence_hashes: BigUint64Array
}

/** Never with what a tool was called. */
export interface TracedToolCall {
  readonly choice_index: number
  readonly tool_call_index: number
  readonly id?: string
  readonly name?: string
}

/** What only Warmpath knows of a turn. */
export interface TracedTurn {
  /** The session as the router sees it: of one tenant, and named also where the client named none. */
  readonly session: string
  readonly parent?: string
  /** The number of the turn in its session, from 0. */
  readonly turn: number
  /** What the session does now; absent when the answer did not say. */
  readonly phase?: 'acting' | 'reasoning'
  readonly predicted_cached_tokens: number
  readonly reported_cached_tokens?: number
  /** Names of the tools that the answer called. */
  readonly tools?: readonly string[]
  /** Milliseconds since 1970 with fractions; `held` is a duration. */
  readonly timings: {
    readonly received: number
    readonly held: number
    readonly first_token?: number
    readonly end: number
  }
  readonly receipt_id: string
  /** As `scheduler.receipt` gives it; when it was asked for. */
  readonly receipt?: object
  /** The scheduler that decided, by a name that no other one has; with whole receipts. */
  readonly scheduler?: string
  /**
   * What it was told since the record before, in order: its decisions can be made again from it. Prompts
   * are hashes of blocks, names and ids digests; both keyed where the trace has a key.
   */
  readonly steps?: readonly object[]
}
