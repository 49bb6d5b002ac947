/**
 * Which wire API is this path, and who reads it?
 *
 * A path counts by its end, so that a gateway may mount the APIs under any prefix. Only what asks a
 * model for a turn is here; counting tokens, batches, models and stored answers are not turns.
 */
import { checkString } from '../argument.js'
import { anthropicMessages } from './anthropic-messages.js'
import { openaiChat } from './openai-chat.js'
import { openaiResponses } from './openai-responses.js'
import type { Dialect } from './types.js'

const PATHS: readonly (readonly [RegExp, Dialect])[] = [
  [/(?:^|\/)chat\/completions$/, openaiChat],
  // Codex asks /responses/compact for a summary of its history: a turn like the others.
  [/(?:^|\/)responses(?:\/compact)?$/, openaiResponses],
  // Not any /messages: OpenAI's threads have some too.
  [/(?:^|\/v\d+|\/anthropic)\/messages$/, anthropicMessages],
]

/** The dialect of a request's path or URL; undefined if it asks for no turn. Throws INVALID_ARGUMENT. */
function dialectOf(path: string): Dialect | undefined {
  checkString(path, 'path')
  const known = found.get(path)
  if (known !== undefined) return known
  const dialect = find(path)
  if (dialect === undefined || path.length > MAX_PATH) return dialect
  if (found.size >= MAX_PATHS) found.clear()
  found.set(path, dialect)
  return dialect
}

/** Paths that asked for a turn lately: a server has few. */
const found = new Map<string, Dialect>()
const MAX_PATHS = 256
const MAX_PATH = 256

function find(path: string): Dialect | undefined {
  const end = path.search(/[?#]/)
  const bare = (end === -1 ? path : path.slice(0, end)).replace(/\/+$/, '')
  return PATHS.find(([pattern]) => pattern.test(bare))?.[1]
}

export { hasImages } from './images.js'
export { countOf } from './json.js'
export { hasCompaction, type SealedPiece, sealedPieces, withoutSealed } from './sealed.js'
export { TextSink } from './sink.js'
export type * from './types.js'
export { dialectOf }
