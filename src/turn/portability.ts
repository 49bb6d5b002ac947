/**
 * What sending a turn to a target would break, before it breaks.
 *
 * Compares what the request holds with what is known of the target's model (context, output, images,
 * tools), and who owns what it leans on with what that is bound to (`providers`). Asks only who owns an
 * id; takes no reservation and changes nothing. O(items of the body).
 */
import { hasImages, sealedPieces } from '../dialects/index.js'
import type { KnownTarget } from '../link/topology.js'
import type { Link } from '../link.js'
import { native } from '../native.js'
import { type Bound, ownershipOf } from '../providers/index.js'
import type { ReadRequest } from './request.js'

/** Stable codes of what would break; a kind of state, or what the model lacks. */
export type BreakCode =
  | 'tool-call'
  | 'reasoning'
  | 'response'
  | 'conversation'
  | 'item'
  | 'file'
  | 'container'
  | 'tools'
  | 'images'
  | 'context'
  | 'output'
  | 'dialect'

/** One thing that a target cannot take as it is. */
export interface Break {
  readonly code: BreakCode
  /** The id of a tool call, or of state as `response:ID`; absent where there is none. */
  readonly id?: string
  /** Where it stands in the body, such as `messages[3].content[0]`. */
  readonly path?: string
  /** Name of the target that owns it; null: nobody here has seen who made it. */
  readonly owner?: string | null
  /** Whether the turn can do without it: `ownerDown: strip` takes it out. */
  readonly strippable: boolean
  /** Tokens that the turn needs and that the model has; `context` and `output` only. */
  readonly needTokens?: number
  readonly haveTokens?: number
  /** What happens when it is sent all the same, for people. */
  readonly otherwise: string
}

/** Who owns ids, by target and worker. */
export interface OwnerBook {
  toolCall(id: string): Owned | undefined
  state(id: string): Owned | undefined
}

export interface Owned {
  readonly target: KnownTarget
  /** Whether the worker that keeps it serves this target. */
  serves(target: KnownTarget): boolean
}

/** Who owns the ids of a tenant, as the core has learnt it. */
export function ownerBook(link: Link, tenant: string): OwnerBook {
  const owned = (owner: number[] | null): Owned | undefined => {
    if (owner === null) return undefined
    const [target = 0, worker = 0] = owner
    const { group } = link.topology.worker(worker)
    const serves = (other: KnownTarget) => other.group === group
    return { target: link.topology.target(target), serves }
  }
  return {
    toolCall: (id) => owned(link.read((handle) => native.toolOwner(handle, tenant, id))),
    state: (id) => owned(link.read((handle) => native.stateOwner(handle, tenant, id))),
  }
}

/** What would break at `target`; empty: nothing that is known. `promptTokens` as it counts them. */
export function breaksAt(
  { facts, body, dialect }: ReadRequest,
  promptTokens: number,
  target: KnownTarget,
  owners: OwnerBook,
): Break[] {
  const found: Break[] = []
  const { card } = target
  if (!target.dialects.includes(dialect.name)) {
    found.push(lacking('dialect', `it does not speak ${dialect.name}`))
  }
  const answer = facts?.maxOutputTokens ?? 0
  const need = promptTokens + answer
  if (card.contextTokens !== undefined && need > card.contextTokens) {
    found.push(tooLong('context', need, card.contextTokens))
  }
  if (card.outputTokens !== undefined && answer > card.outputTokens) {
    found.push(tooLong('output', answer, card.outputTokens))
  }
  if (body === undefined || facts === undefined) return found
  if (card.images === false && hasImages(body, dialect.items)) {
    found.push(lacking('images', 'its model takes no images'))
  }
  if (card.tools === false && Array.isArray(body.tools) && body.tools.length > 0) {
    found.push(lacking('tools', 'its model calls no tools'))
  }
  for (const id of facts.toolResults) {
    found.push(...bound('tool-call', { id }, owners.toolCall(id), target))
  }
  const sealed = sealedPieces(body, dialect.items)
  const seals = new Set(sealed.map(({ id }) => id))
  for (const id of facts.state.filter((each) => !seals.has(each))) {
    // A seal that is no piece of reasoning is a summary: it stands for the history.
    const kept = bound(id, { id }, owners.state(id), target)
    found.push(...kept.map((broken) => ({ ...broken, strippable: false })))
  }
  for (const piece of sealed) {
    const owner = piece.id === undefined ? undefined : owners.state(piece.id)
    found.push(...bound('reasoning:', piece, owner, target))
  }
  return found
}

/** Sealed reasoning of the body that is known to be of a maker whose seals `target` cannot read. */
export function foreignSeals(
  { body, dialect }: ReadRequest,
  target: KnownTarget,
  owners: OwnerBook,
): ReadonlySet<string> {
  const found = new Set<string>()
  if (body === undefined) return found
  for (const piece of sealedPieces(body, dialect.items)) {
    const owner = piece.id === undefined ? undefined : owners.state(piece.id)
    if (piece.id === undefined || owner === undefined) continue
    if (bound('reasoning:', piece, owner, target).length > 0) found.add(piece.id)
  }
  return found
}

function bound(
  state: string,
  piece: Pick<Break, 'id' | 'path'>,
  owner: Owned | undefined,
  target: KnownTarget,
): Break[] {
  const row = state === 'tool-call' ? ownershipOf('tool-call:') : ownershipOf(state)
  if (owner !== undefined && row.bound.every((bond) => isSame(bond, owner, target))) return []
  const { what, strippable, otherwise } = row
  return [
    {
      code: what as BreakCode,
      ...piece,
      owner: owner?.target.name ?? null,
      strippable,
      otherwise,
    },
  ]
}

function isSame(bond: Bound, owner: Owned, target: KnownTarget): boolean {
  const from = owner.target
  switch (bond) {
    case 'model':
      return (from.model ?? from.name) === (target.model ?? target.name)
    case 'provider':
      return from.provider === target.provider && (from.provider !== undefined || isOneGroup())
    case 'organisation':
    case 'account':
      return owner.serves(target) && JSON.stringify(from.auth) === JSON.stringify(target.auth)
    case 'shape':
      return true
  }
  function isOneGroup(): boolean {
    return from.group === target.group
  }
}

function lacking(code: BreakCode, otherwise: string): Break {
  return { code, strippable: false, otherwise }
}

function tooLong(code: BreakCode, needTokens: number, haveTokens: number): Break {
  const otherwise = '400: the request is longer than the model allows'
  return { code, needTokens, haveTokens, strippable: false, otherwise }
}
