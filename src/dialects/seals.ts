/**
 * Reasoning that a message hands back and only its maker can read or check, as `reasoning:<digest>`:
 * Anthropic's signed and redacted thinking, OpenRouter's reasoning details, Gemini's thought
 * signatures on tool calls, and the encrypted content of Responses items.
 */
import { digest, isObject, listOf, textOf } from './json.js'

/**
 * Seals of a loop that are looked at. A loop may not change its owner on the way, so the newest
 * name it; a few more are kept for answers that passed unseen.
 */
const MAX_LOOP_SEALS = 8

/** The newest sealed reasoning of a tool loop, oldest first. O(items looked at), not O(loop). */
function newestSeals(loop: readonly unknown[]): string[] {
  const seals: string[] = []
  for (let i = loop.length - 1; i >= 0 && seals.length < MAX_LOOP_SEALS; i--) {
    seals.unshift(...sealsOf(loop[i]))
  }
  return [...new Set(seals)].slice(-MAX_LOOP_SEALS)
}

/** The sealed reasoning of one message or item of any dialect. O(parts). */
function sealsOf(message: unknown): string[] {
  if (!isObject(message)) return []
  const seals = [
    message.encrypted_content,
    ...listOf(message.content).map(ofThinking),
    ...listOf(message.reasoning_details).map(ofDetail),
    ...listOf(message.tool_calls).map(ofCall),
  ]
  return seals
    .map(textOf)
    .flatMap((seal) => (seal === undefined ? [] : [`reasoning:${digest(seal)}`]))
}

function ofThinking(part: unknown): unknown {
  if (!isObject(part)) return undefined
  if (part.type === 'thinking') return part.signature
  return part.type === 'redacted_thinking' ? part.data : undefined
}

function ofDetail(detail: unknown): unknown {
  return isObject(detail) ? (textOf(detail.signature) ?? detail.data) : undefined
}

function ofCall(call: unknown): unknown {
  const extra = isObject(call) ? call.extra_content : undefined
  return isObject(extra) && isObject(extra.google) ? extra.google.thought_signature : undefined
}

export { newestSeals, sealsOf }
