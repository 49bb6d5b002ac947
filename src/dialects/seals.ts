/**
 * Reasoning that a message hands back and only its maker can read or check, as `reasoning:<digest>`:
 * Anthropic's signed and redacted thinking, OpenRouter's reasoning details, Gemini's thought
 * signatures on tool calls, and the encrypted content of Responses items.
 */
import { digest, isObject, listOf, textOf } from './json.js'

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

export { sealsOf }
