/**
 * Reasoning that a message hands back and only its maker can read or check, as `reasoning:<digest>`:
 * Anthropic's signed and redacted thinking, OpenRouter's reasoning details, Gemini's thought
 * signatures on tool calls, and the encrypted content of Responses items.
 */
import { digest, isObject, listOf, textOf } from './json.js'

/** The sealed reasoning of one message or item of any dialect. O(parts). */
function sealsOf(message: unknown): string[] {
  const seals: string[] = []
  if (!isObject(message)) return seals
  add(seals, message.encrypted_content)
  for (const part of listOf(message.content)) add(seals, ofThinking(part))
  for (const detail of listOf(message.reasoning_details)) add(seals, ofDetail(detail))
  for (const call of listOf(message.tool_calls)) add(seals, ofCall(call))
  return seals
}

function add(seals: string[], value: unknown): void {
  const seal = textOf(value)
  if (seal !== undefined) seals.push(`reasoning:${digest(seal)}`)
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
