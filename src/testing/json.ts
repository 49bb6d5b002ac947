/** Reading JSON of unknown shape, without trust. */

type Json = Record<string, unknown>

function isRecord(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : []
}

function records(value: unknown): Json[] {
  return list(value).filter(isRecord)
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/** A count that a client may ask for; anything else is as if it had not asked. */
function count(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 ? value : undefined
}

export { count, isRecord, type Json, list, records, text }
