/**
 * The JSON of a tool that has been sent before, without writing it again.
 *
 * An agent sends the same tools with every turn, and writing their schemas costs about what parsing
 * them did. So the text of tools that came twice is kept, beside a copy of our own of what it says: a
 * tool that equals the copy, member by member in the order sent, has that text. Comparing costs a
 * fifth of writing. What is not plain data is never equal, since what it writes is its own business.
 *
 * Bounded in number and size; process-wide, since tools belong to a client's version and not to a
 * session.
 */
import { stable } from './json.js'
import type { Json } from './types.js'

interface Kept {
  readonly text: string
  /** Made when the same text comes a second time. */
  copy?: unknown
}

const MAX_TOOLS = 1024
/** UTF-16 units; larger tools are written each time. */
const MAX_TEXT = 16 * 1024

const kept = new Map<unknown, Kept>()

/** As `stable`, for a tool. */
function toolText(tool: Json): string {
  const name = nameOf(tool)
  const known = kept.get(name)
  if (known?.copy !== undefined && isSame(known.copy, tool)) return known.text
  const text = stable(tool)
  if (known !== undefined && known.text === text) known.copy = JSON.parse(text)
  else if (typeof name === 'string' && text.length <= MAX_TEXT) keep(name, text)
  return text
}

function keep(name: string, text: string): void {
  if (kept.size >= MAX_TOOLS) kept.clear()
  kept.set(name, { text })
}

function nameOf(tool: Json): unknown {
  const inner = tool.function
  return (
    tool.name ?? (typeof inner === 'object' && inner !== null ? (inner as Json).name : undefined)
  )
}

/** Whether a value that JSON.parse has made writes the same as another one. */
function isSame(copy: unknown, value: unknown): boolean {
  if (copy === value) return true
  if (typeof copy !== 'object' || typeof value !== 'object') return false
  if (copy === null || value === null) return false
  if (Array.isArray(copy)) {
    if (!Array.isArray(value) || copy.length !== value.length) return false
    return copy.every((item, at) => isSame(item, value[at]))
  }
  if (Object.getPrototypeOf(value) !== Object.prototype || 'toJSON' in value) return false
  const names = Object.keys(copy)
  const others = Object.keys(value)
  if (names.length !== others.length) return false
  return names.every((name, at) => {
    return name === others[at] && isSame((copy as Json)[name], (value as Json)[name])
  })
}

export { toolText }
