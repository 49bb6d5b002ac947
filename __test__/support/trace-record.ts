/** A record as turns make it, for specs of what becomes of records. */
import type { TraceRecord } from '../../src/index.js'

export function record(id: number, blocks = 3): TraceRecord {
  const worker = {
    prefill_worker_id: 0,
    prefill_dp_rank: 0,
    decode_worker_id: 0,
    decode_dp_rank: 0,
  }
  const hashes = BigUint64Array.from({ length: blocks }, (_, at) => 2n ** 64n - BigInt(id + at + 1))
  return {
    timestamp: id,
    event: {
      schema: 'dynamo.request.trace.v1',
      event_type: 'request_end',
      event_time_unix_ms: 1_700_000_000_000 + id,
      event_source: 'warmpath',
      request: {
        request_id: String(id),
        model: 'm',
        input_tokens: 64 * blocks,
        output_tokens: 5,
        cached_tokens: 64,
        request_received_ms: 1_700_000_000_000,
        total_time_ms: id,
        worker,
        replay: {
          trace_block_size: 64,
          input_length: 64 * blocks,
          input_sequence_hashes: hashes,
        },
        finish_reason_metadata: { finish_reason: 'stop' },
      },
      warmpath: {
        session: 's',
        turn: id,
        phase: 'reasoning',
        predicted_cached_tokens: 60,
        reported_cached_tokens: 64,
        tools: ['read_file'],
        timings: {
          received: 1_700_000_000_000,
          held: 20,
          first_token: 1_700_000_000_050,
          end: 1_700_000_000_000 + id,
        },
        receipt_id: String(id),
      },
    },
  }
}

/** Ids of records in lines. */
export function idsOf(lines: readonly string[]): number[] {
  return lines.map((line) => Number(JSON.parse(line).event.request.request_id))
}

export function range(from: number, until: number): number[] {
  return Array.from({ length: until - from }, (_, at) => from + at)
}
