/**
 * Question: which part of these requests keeps them from sharing a cache?
 *
 * Each request is held against the earlier one that it has most in common with, segment by segment, as the
 * scheduler does. What ends the common part although the rest is the same in substance is a finding: a
 * line that differs in every conversation, tools in another order, schemas whose keys were sorted anew, a
 * system prompt with a time in it, a history that was written over, cache markers that move. Nothing of
 * the texts is shown. O(requests x requests), for some hundreds of them.
 */
import { isDeepStrictEqual } from 'node:util'
import { type Dialect, dialectOf, type RequestFacts } from '../index.js'

/** A request of a file. */
interface Recorded {
  /** Path or whole address. */
  readonly path: string
  readonly body: Record<string, unknown>
}

interface Finding {
  readonly kind: keyof typeof ADVICE
  /** Requests that show it. */
  readonly requests: number
  /** Share of their prompts that stands behind it, and cannot be shared for it: the mean, 0 to 1. */
  readonly lost: number
  /** Where it is in the first of them. */
  readonly where: string
  readonly advice: string
}

interface Read {
  readonly body: Record<string, unknown>
  readonly dialect: Dialect
  readonly facts: RequestFacts
  /** Segments of the tools, and of all that stands before the conversation. */
  readonly tools: number
  readonly head: number
}

const ADVICE = {
  'volatile-head':
    'a line in the system prompt differs in every conversation (a billing header): turn it off in the client, or nothing behind it is shared',
  'tool-order':
    'the same tools come in another order: sort them by name, most templates begin with them',
  'tool-keys':
    'the same schemas come with their keys in another order: do not parse and write them anew on the way',
  'tools-change': 'tools of one name change from turn to turn: keep what changes out of them',
  'system-change':
    'the system prompt changes and keeps its length: move times, ids and counters to its end or into a message',
  'history-change':
    'earlier messages are written over: append to the history, and drop old parts seldom and many at once',
  'moving-markers':
    'cache markers move from turn to turn: harmless here and at providers that read them; where a template prints them, take them out',
} as const

/** As long: a time or an id was replaced by another one. */
const SAME_LENGTH = 0.02

/** The findings, the costliest first, and how many of the requests could be read. */
function findSharing(requests: readonly Recorded[]): { read: number; findings: Finding[] } {
  const read = requests.flatMap((request) => readOf(request) ?? [])
  const found = new Map<Finding['kind'], { where: string; lost: number[] }>()
  const note = (kind: Finding['kind'], lost: number, where: string): void => {
    const known = found.get(kind)
    if (known === undefined) found.set(kind, { where, lost: [lost] })
    else known.lost.push(lost)
  }
  for (const [at, request] of read.entries()) {
    const [volatile] = request.facts.volatile
    if (volatile !== undefined && volatile < request.head) {
      note('volatile-head', behind(request, volatile), `segment ${volatile} of the head`)
    }
    const like = nearest(request, read.slice(0, at))
    if (like === undefined) continue
    const kind = difference(request, like.other, like.common)
    if (kind !== undefined) note(kind, behind(request, like.common), placeOf(request, like.common))
    const moved = movedMarker(request, like.other, like.common)
    if (moved !== undefined) note('moving-markers', 0, placeOf(request, moved))
  }
  const findings = [...found].map(([kind, { where, lost }]) => {
    const mean = lost.reduce((sum, share) => sum + share, 0) / lost.length
    return { kind, requests: lost.length, lost: mean, where, advice: ADVICE[kind] }
  })
  return { read: read.length, findings: findings.sort((a, b) => b.lost - a.lost) }
}

function readOf({ path, body }: Recorded): Read | undefined {
  const dialect = dialectOf(path.replace(/^https?:\/\/[^/]+/, ''))
  if (dialect === undefined) return undefined
  try {
    const count = (of: Record<string, unknown>) => dialect.read(of).prompt.ends.length
    const head = count({ ...body, [dialect.items]: [] })
    const bare = count({ ...body, [dialect.items]: [], tools: [] })
    return { body, dialect, facts: dialect.read(body), tools: head - bare, head }
  } catch {
    return undefined
  }
}

/** The request before that has most of this one's beginning. */
function nearest(request: Read, earlier: readonly Read[]) {
  let best: { other: Read; common: number } | undefined
  for (const other of earlier) {
    if (other.dialect !== request.dialect || other.body.model !== request.body.model) continue
    const common = commonSegments(request, other)
    // Of several the last one: a conversation goes on from there.
    if (best === undefined || common >= best.common) best = { other, common }
  }
  return best
}

function commonSegments(one: Read, other: Read): number {
  const [a, b] = [one.facts.prompt, other.facts.prompt]
  const most = Math.min(a.ends.length, b.ends.length)
  let from = 0
  for (let at = 0; at < most; at += 1) {
    const [end, same] = [a.ends[at] ?? 0, b.ends[at] ?? 0]
    const isEqual = end === same && equal(a.bytes, b.bytes, from, end)
    if (!isEqual && !one.facts.volatile.includes(at)) return at
    if (end !== same) return at + 1
    from = end
  }
  return most
}

function equal(one: Uint8Array, other: Uint8Array, from: number, to: number): boolean {
  return Buffer.compare(one.subarray(from, to), other.subarray(from, to)) === 0
}

/** Why the two part at segment `common`; undefined where that is as it should be. */
function difference(one: Read, other: Read, common: number): Finding['kind'] | undefined {
  const isContinued = common >= other.facts.prompt.ends.length
  if (isContinued || common >= one.facts.prompt.ends.length) return undefined
  if (common < one.tools) return toolDifference(one.body.tools, other.body.tools)
  if (common < one.head && common < other.head) {
    const [a, b] = [lengthOf(one, common), lengthOf(other, common)]
    return Math.abs(a - b) <= SAME_LENGTH * Math.max(a, b) ? 'system-change' : undefined
  }
  // Conversations that differ from their first message on have nothing to do with each other, and what is
  // shorter branches off, or was compacted.
  const goesOn = one.facts.prompt.ends.length > other.facts.prompt.ends.length
  return common > one.head && goesOn ? 'history-change' : undefined
}

function toolDifference(one: unknown, other: unknown): Finding['kind'] | undefined {
  if (!Array.isArray(one) || !Array.isArray(other)) return undefined
  const [a, b] = [one.map(nameOf), other.map(nameOf)]
  if (!isDeepStrictEqual([...a].sort(), [...b].sort())) return undefined
  if (!isDeepStrictEqual(a, b)) return 'tool-order'
  return isDeepStrictEqual(one, other) ? 'tool-keys' : 'tools-change'
}

function nameOf(tool: unknown): string {
  const { name, function: inner } = (tool ?? {}) as { name?: unknown; function?: unknown }
  const found = name ?? ((inner ?? {}) as { name?: unknown }).name
  return typeof found === 'string' ? found : JSON.stringify(tool)
}

/** A segment whose marker is gone in the request that goes on from it. */
function movedMarker(one: Read, other: Read, common: number): number | undefined {
  const still = new Set(one.facts.breakpoints.map(({ segment }) => segment))
  const was = other.facts.breakpoints.find(({ segment }) => segment < common && !still.has(segment))
  return was?.segment
}

function lengthOf({ facts }: Read, segment: number): number {
  const { ends } = facts.prompt
  return (ends[segment] ?? 0) - (ends[segment - 1] ?? 0)
}

/** Share of the prompt from a segment on. */
function behind({ facts }: Read, segment: number): number {
  const { ends } = facts.prompt
  const all = ends.at(-1) ?? 0
  return all === 0 ? 0 : 1 - (ends[segment - 1] ?? 0) / all
}

function placeOf({ tools, head }: Read, segment: number): string {
  if (segment < tools) return 'the tools'
  return segment < head ? `part ${segment - tools} of the system` : `message ${segment - head}`
}

function renderSharing({ read, findings }: ReturnType<typeof findSharing>): string {
  const lines = findings.map(({ kind, requests, lost, where, advice }) => {
    const share = lost === 0 ? '' : `, ${Math.round(100 * lost)} % of the prompt behind it`
    return `${kind} (${requests} of ${read} requests, first at ${where}${share}): ${advice}`
  })
  const all = lines.length === 0 ? [`${read} requests: nothing keeps them from sharing`] : lines
  return `${all.join('\n')}\n`
}

export { type Finding, findSharing, type Recorded, renderSharing }
