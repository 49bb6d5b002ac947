/**
 * A record as one line of JSON, without its line end.
 *
 * Hashes have 64 bits, which JSON can write and `JSON.stringify` cannot: they go in afterwards, in
 * the place that an empty list marks. No text of a record can look like that place, since a quote
 * within a text is written with a backslash.
 */
import type { TraceRecord } from '../telemetry/index.js'

const PLACE = '"input_sequence_hashes":['

export function formatRecord(record: TraceRecord): string {
  const { request } = record.event
  const { replay } = request
  const text = JSON.stringify({
    ...record,
    event: {
      ...record.event,
      request: { ...request, replay: { ...replay, input_sequence_hashes: [] } },
    },
  })
  const at = text.indexOf(`${PLACE}]`) + PLACE.length
  return `${text.slice(0, at)}${replay.input_sequence_hashes.join(',')}${text.slice(at)}`
}
