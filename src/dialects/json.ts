/**
 * Small, total readers of unchecked JSON: nothing here throws, whatever the value is.
 *
 * Serialising is V8's own wherever that works. Only values that it refuses (nested thousands deep,
 * cyclic, with a BigInt) go through the slow writer, which cuts at a fixed depth.
 */
import { hash } from 'node:crypto'
import type { Json, Marker } from './types.js'

const MAX_COUNT = 2 ** 31
const MAX_DEPTH = 200

/** Whether a member is a cache marker of some dialect: it says where to cache, and is no prompt. */
function isMarker(name: string): boolean {
  return name === 'cache_control' || name === 'prompt_cache_breakpoint'
}

/** Members of a block that hold further blocks; any other member is a value and is left alone. */
const NESTED = ['content', 'source', 'function', 'tools'] as const

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

/** The value if it is a string with something in it. */
function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** The value if it is a count: an integer from 0 to 2^31. */
function countOf(value: unknown): number | undefined {
  const good = typeof value === 'number' && Number.isInteger(value) && value >= 0
  return good && value <= MAX_COUNT ? value : undefined
}

/** 32 hex digits (128 bits of SHA-256) that stand for a long value. */
function digest(value: string): string {
  return hash('sha256', value, 'hex').slice(0, 32)
}

/** JSON text with the members in the order given. */
function stable(value: unknown): string {
  try {
    return JSON.stringify(value) ?? 'null'
  } catch {
    return bounded(value, [])
  }
}

function bounded(value: unknown, above: readonly unknown[]): string {
  if (typeof value !== 'object' || value === null) {
    return typeof value === 'bigint' ? String(value) : (JSON.stringify(value) ?? 'null')
  }
  if (above.length >= MAX_DEPTH || above.includes(value)) return '"..."'
  const inside = [...above, value]
  if (Array.isArray(value)) return `[${value.map((v) => bounded(v, inside)).join(',')}]`
  const members = Object.entries(value).map(
    ([k, v]) => `${JSON.stringify(k)}:${bounded(v, inside)}`,
  )
  return `{${members.join(',')}}`
}

/** A number and its unit, as markers write how long they are meant. */
const LIFETIME = /^(\d{1,6})([smh])$/
const UNIT_SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600 }

/** The cache marker that stands on this block itself. */
function markerOf(block: Json): Marker | undefined {
  const marker = block.cache_control ?? block.prompt_cache_breakpoint
  if (marker === undefined || marker === null) return undefined
  const ttl = isObject(marker) ? LIFETIME.exec(textOf(marker.ttl) ?? '') : null
  return ttl === null ? {} : { ttlSeconds: Number(ttl[1]) * (UNIT_SECONDS[ttl[2] ?? ''] ?? 1) }
}

/**
 * The block without cache markers, on it or on blocks inside it; the block itself if it has none.
 * Arguments, schemas and other values may have members of the same name, and these stay.
 */
function withoutMarkers(block: Json, depth = 8): Json {
  const changes = new Map<string, unknown>()
  for (const name of depth > 0 ? NESTED : []) {
    const inner = block[name]
    if (typeof inner !== 'object' || inner === null) continue
    const clean = Array.isArray(inner)
      ? cleanList(inner, depth)
      : withoutMarkers(inner as Json, depth - 1)
    if (clean !== inner) changes.set(name, clean)
  }
  const marked = 'cache_control' in block || 'prompt_cache_breakpoint' in block
  if (!marked && changes.size === 0) return block
  // fromEntries defines members, so one named __proto__ stays a member.
  return Object.fromEntries(
    Object.entries(block)
      .filter(([name]) => !isMarker(name))
      .map(([name, value]) => [name, changes.has(name) ? changes.get(name) : value]),
  )
}

function cleanList(list: readonly unknown[], depth: number): readonly unknown[] {
  const clean = list.map((item) => (isObject(item) ? withoutMarkers(item, depth - 1) : item))
  return clean.some((item, i) => item !== list[i]) ? clean : list
}

export { countOf, digest, isMarker, isObject, listOf, markerOf, stable, textOf, withoutMarkers }
