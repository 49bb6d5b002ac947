/**
 * From what is known of an ended turn to its record.
 *
 * Pure: no clock, no key, no core. Texts that models and clients choose (names of models and tools,
 * finish reasons) are taken only in the form that such names have, so that nothing of an answer gets
 * in by that door.
 */
import { countOf, type ToolCall } from '../dialects/index.js'
import type { ToldSteps } from '../link.js'
import type {
  TracedBlocks,
  TracedRequest,
  TracedTurn,
  TraceEvent,
  TraceRecord,
} from '../telemetry/index.js'
import type { EndedTurn } from './turn.js'

/** What a record needs beside its turn. */
export interface Surroundings {
  readonly requestId: string
  /** When the recorder began, in milliseconds since 1970. */
  readonly since: number
  readonly names: {
    readonly session: string
    readonly parent: string | undefined
    /** As the client has them; absent when it named no session. */
    readonly sent: { readonly session: string; readonly parent: string | undefined } | undefined
  }
  readonly blocks: TracedBlocks
  readonly receipt: object | undefined
  /** What the scheduler was told since the record before. */
  readonly told: ToldSteps | undefined
}

/** What names of tools, ids of calls and finish reasons look like. */
const NAME = /^[\w.:/-]{1,128}$/
const MAX_MODEL_CHARS = 256
const MAX_CALLS = 128
/** What the provider says of an answer is beside the point when it did not come to its end. */
const BROKEN = { cancelled: 'cancelled', failed: 'error' } as const

export function recordOf(turn: EndedTurn, around: Surroundings): TraceRecord {
  return {
    timestamp: micro(Math.max(0, turn.end - around.since)),
    event: {
      schema: 'dynamo.request.trace.v1',
      event_type: 'request_end',
      event_time_unix_ms: Math.floor(Math.max(turn.received, turn.end)),
      event_source: 'warmpath',
      ...agentContext(turn, around),
      request: request(turn, around),
      warmpath: ours(turn, around),
    },
  }
}

function agentContext(
  turn: EndedTurn,
  { names: { sent } }: Surroundings,
): Pick<TraceEvent, 'agent_context'> {
  if (sent === undefined) return {}
  return {
    agent_context: {
      session_id: sent.session,
      ...some('parent_session_id', sent.parent),
      ...(turn.final && { session_final: true }),
    },
  }
}

function request(turn: EndedTurn, { requestId, blocks }: Surroundings): TracedRequest {
  const { promptTokens, completionTokens, cachedTokens } = reported(turn)
  const { worker, rank, model } = turn.sent
  return {
    request_id: requestId,
    ...(model !== '' && { model: model.slice(0, MAX_MODEL_CHARS) }),
    ...some('input_tokens', promptTokens),
    ...some('output_tokens', completionTokens),
    ...some('cached_tokens', cachedTokens),
    request_received_ms: Math.floor(turn.received),
    ...speed(turn, completionTokens),
    ...some('kv_hit_rate', share(cachedTokens, promptTokens)),
    worker: {
      prefill_worker_id: worker,
      prefill_dp_rank: rank,
      decode_worker_id: worker,
      decode_dp_rank: rank,
    },
    replay: blocks,
    finish_reason_metadata: {
      ...some('finish_reason', finishReason(turn)),
      ...toolCalls(turn),
    },
  }
}

function speed(
  { received, firstToken, end }: EndedTurn,
  outputTokens: number | undefined,
): Pick<TracedRequest, 'ttft_ms' | 'total_time_ms' | 'avg_itl_ms'> {
  const total = { total_time_ms: micro(Math.max(0, end - received)) }
  if (firstToken === undefined) return total
  const gaps = (outputTokens ?? 0) - 1
  return {
    ttft_ms: micro(Math.max(0, firstToken - received)),
    ...total,
    ...(gaps > 0 && { avg_itl_ms: micro(Math.max(0, end - firstToken) / gaps) }),
  }
}

/** Of a clock that may have been set back meanwhile: in the order in which they were. */
function momentsOf({ received, heldMs, firstToken, end }: EndedTurn) {
  const last = Math.max(received, end)
  return {
    received: micro(received),
    held: micro(heldMs),
    ...(firstToken !== undefined && {
      first_token: micro(Math.min(Math.max(received, firstToken), last)),
    }),
    end: micro(last),
  }
}

function ours(turn: EndedTurn, { names, receipt, told }: Surroundings): TracedTurn {
  const { sent, finished } = turn
  const tools = callsOf(turn).flatMap(({ name }) => safe(name) ?? [])
  return {
    session: names.session,
    ...some('parent', names.parent),
    turn: turn.number,
    ...(finished !== undefined && { phase: finished ? 'reasoning' : 'acting' }),
    predicted_cached_tokens: sent.predictedCachedTokens,
    ...some('reported_cached_tokens', reported(turn).cachedTokens),
    ...(tools.length > 0 && { tools }),
    timings: momentsOf(turn),
    receipt_id: String(sent.receipt),
    ...some('receipt', receipt),
    ...told,
  }
}

/** Figures may come from anywhere; only counts are figures, and no prompt is empty. */
function reported({ usage }: EndedTurn) {
  return {
    promptTokens: countOf(usage?.promptTokens) || undefined,
    cachedTokens: countOf(usage?.cachedTokens),
    completionTokens: countOf(usage?.completionTokens),
  }
}

function finishReason({ outcome, finishReason }: EndedTurn): string | undefined {
  return outcome === 'completed' ? safe(finishReason) : BROKEN[outcome]
}

function toolCalls(turn: EndedTurn): Pick<TracedRequest['finish_reason_metadata'], 'tool_calls'> {
  const calls = callsOf(turn).map(({ id, name }, at) => ({
    choice_index: 0,
    tool_call_index: at,
    ...some('id', safe(id)),
    ...some('name', safe(name)),
  }))
  return calls.length === 0 ? {} : { tool_calls: calls }
}

/** Names are known only of an answer that was observed. */
function callsOf({ calls, toolCalls }: EndedTurn): readonly ToolCall[] {
  return calls?.slice(0, MAX_CALLS) ?? toolCalls?.slice(0, MAX_CALLS).map((id) => ({ id })) ?? []
}

function safe(name: string | undefined): string | undefined {
  return name !== undefined && NAME.test(name) ? name : undefined
}

function share(part: number | undefined, whole: number | undefined): number | undefined {
  if (part === undefined || whole === undefined || whole === 0) return undefined
  return Math.min(1, part / whole)
}

/** Whole microseconds: what a double still holds of a time since 1970. */
function micro(ms: number): number {
  return Math.round(ms * 1000) / 1000
}

function some<K extends string, V>(key: K, value: V | undefined): { [key in K]?: V } {
  return (value === undefined ? {} : { [key]: value }) as { [key in K]?: V }
}
