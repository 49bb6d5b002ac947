/**
 * What the model of a turn has to take, and whether the turn can do without what only its maker reads.
 */
import { hasCompaction, hasImages } from '../dialects/index.js'
import { ownershipOf } from '../providers/index.js'
import type { ReadRequest } from './request.js'

/** `looks`: whether anybody wants to know about images, which costs O(parts). */
export function needsOf({ body, dialect }: ReadRequest, looks: boolean) {
  const images = looks && body !== undefined && hasImages(body, dialect.items)
  return { images, tools: Array.isArray(body?.tools) && body.tools.length > 0 }
}

/** Whether all state that it leans on can be taken out of it; true where there is none. */
export function canStrip({ facts, body, dialect }: ReadRequest): boolean {
  if (facts === undefined || body === undefined) return false
  if (!facts.state.every((state) => ownershipOf(state).strippable)) return false
  return facts.state.length === 0 || !hasCompaction(body, dialect.items)
}
