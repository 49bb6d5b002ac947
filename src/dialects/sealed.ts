/**
 * Sealed reasoning in a body: where it lies, and the body without it.
 *
 * Only its maker can read or check it, and a request may do without: what another model is sent has
 * to. An encrypted compaction is not of that kind, since it stands for the history itself. O(items).
 */
import { digest, isObject, listOf, textOf } from './json.js'
import type { Dialect, Json } from './types.js'

/** A piece that only its maker can read, by its place in the body: `messages[3].content[0]`. */
interface SealedPiece {
  path: string
  /** `reasoning:<digest>`, as {@link RequestFacts.state} has it; absent: it is not even signed. */
  id?: string
}

type Items = Dialect['items']
/** Whether a piece with this seal goes; a piece may lack its seal. */
type Goes = (seal: unknown) => boolean

const ALL: Goes = () => true

/** Every sealed piece, in order. */
function sealedPieces(body: Json, items: Items): SealedPiece[] {
  const found: SealedPiece[] = []
  walk(body, items, (path, ...seals) => found.push(...piecesAt(path, seals)))
  return found
}

/** The body without its sealed pieces, or those of these ids; what is left is shared with it. */
function withoutSealed(body: Json, items: Items, ids?: ReadonlySet<string>): Json {
  const goes: Goes = ids === undefined ? ALL : (seal) => ids.has(idOf(seal) ?? '')
  const kept = walk(body, items, () => undefined, goes)
  const bare = { ...body, [items]: kept }
  return losesLast(body, items, goes) ? withoutThinking(bare) : bare
}

/** Whether an encrypted summary stands for the history. */
function hasCompaction(body: Json, items: Items): boolean {
  return listOf(body[items]).some(
    (item) =>
      isObject(item) &&
      textOf(item.type)?.startsWith('compaction') === true &&
      item.encrypted_content !== undefined,
  )
}

type Tell = (path: string, ...seals: unknown[]) => void

function piecesAt(path: string, seals: readonly unknown[]): SealedPiece[] {
  return seals.map((seal) => {
    const id = idOf(seal)
    return id === undefined ? { path } : { path, id }
  })
}

function idOf(seal: unknown): string | undefined {
  const text = textOf(seal)
  return text === undefined ? undefined : `reasoning:${digest(text)}`
}

function walk(body: Json, items: Items, tell: Tell, goes: Goes = ALL): unknown[] {
  return listOf(body[items]).flatMap((item, at) => {
    if (!isObject(item)) return [item]
    const path = `${items}[${at}]`
    const { encrypted_content: seal } = item
    if (item.type === 'reasoning' && seal !== undefined && goes(seal)) {
      tell(path, seal)
      return []
    }
    const bare = bareMessage(item, path, tell, goes)
    return bare === undefined ? [] : [bare]
  })
}

/** Undefined where nothing is left of it. */
function bareMessage(message: Json, path: string, tell: Tell, goes: Goes): Json | undefined {
  let bare = message
  const { content, reasoning_details: details, tool_calls: calls } = message
  if (listOf(content).some((part) => isThinking(part) && goes(sealOf(part)))) {
    const kept = listOf(content).filter((part, at) => {
      if (!isThinking(part) || !goes(sealOf(part))) return true
      tell(`${path}.content[${at}]`, sealOf(part))
      return false
    })
    if (kept.length === 0) return undefined
    bare = { ...bare, content: kept }
  }
  // They are one chain, of one maker: with one of them goes the list.
  const seals = listOf(details).filter(isSealedDetail).map(detailSeal)
  if (seals.some(goes)) {
    tell(`${path}.reasoning_details`, ...seals)
    const { reasoning_details: _, ...rest } = bare
    bare = rest
  }
  const isGone = (call: unknown): call is Json => {
    return isSignedCall(call) && goes(signatureOf(call.extra_content))
  }
  if (listOf(calls).some(isGone)) {
    const unsigned = listOf(calls).map((call, at) => {
      if (!isGone(call)) return call
      const { extra_content: extra, ...rest } = call
      tell(`${path}.tool_calls[${at}].extra_content`, signatureOf(extra))
      return rest
    })
    bare = { ...bare, tool_calls: unsigned }
  }
  return bare
}

function isThinking(part: unknown): part is Json {
  return isObject(part) && (part.type === 'thinking' || part.type === 'redacted_thinking')
}

function sealOf(part: Json): unknown {
  return part.type === 'thinking' ? part.signature : part.data
}

function detailSeal(detail: Json): unknown {
  return textOf(detail.signature) ?? detail.data
}

function isSealedDetail(detail: unknown): detail is Json {
  return isObject(detail) && (detail.signature !== undefined || detail.data !== undefined)
}

function isSignedCall(call: unknown): call is Json {
  return isObject(call) && signatureOf(call.extra_content) !== undefined
}

function signatureOf(extra: unknown): unknown {
  return isObject(extra) && isObject(extra.google) ? extra.google.thought_signature : undefined
}

/** Whether the last thing that the model said loses what it began with. */
function losesLast(body: Json, items: Items, goes: Goes): boolean {
  const last = listOf(body[items]).findLast((item) => isObject(item) && item.role === 'assistant')
  if (!isObject(last)) return false
  return listOf(last.content).some((part) => isThinking(part) && goes(sealOf(part)))
}

/** Where thinking is enabled, an open tool loop must begin with the thinking that was taken out. */
function withoutThinking(body: Json): Json {
  if (!isObject(body.thinking) || body.thinking.type !== 'enabled') return body
  const { thinking: _, ...rest } = body
  return rest
}

export { hasCompaction, type SealedPiece, sealedPieces, withoutSealed }
