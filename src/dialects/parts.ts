/**
 * The content of a message, whichever dialect it comes in: one writer per type of part.
 *
 * A string and a list with one text part are the same content. Images, audio and files are written
 * as a digest, so that canonical text has about the size of the prompt and no megabytes of base64;
 * signatures too. A part of unknown type is kept as its JSON: a miss is cheaper than a false hit.
 */
import { digest, isObject, markerOf, stable, textOf, withoutMarkers } from './json.js'
import { hasRest, type PromptWriter } from './prompt.js'
import { toolText } from './tools.js'
import type { Json } from './types.js'

const MAX_DEPTH = 8

type PartWriter = (w: PromptWriter, part: Json, depth: number) => void

const known = (...names: string[]): ReadonlySet<string> => new Set(['type', ...names])

// What a server adds to its own output text does not come back as prompt.
const TEXT_FIELDS = known('text', 'annotations', 'logprobs')
const THINKING_FIELDS = known('thinking', 'signature', 'data')
const TOOL_USE_FIELDS = known('id', 'name', 'input')
const TOOL_RESULT_FIELDS = known('tool_use_id', 'content', 'is_error')

const text: PartWriter = (w, part, depth) => {
  if (typeof part.text !== 'string') return other(w, part, depth)
  // Empty text with more to it is written, so that the rest does not fall to the part before.
  if (part.text !== '' || hasRest(part, TEXT_FIELDS)) w.piece('t', part.text)
  w.rest(part, TEXT_FIELDS)
}

const media: PartWriter = (w, part, depth) => {
  const source = part.source
  // A document may be given as text or as blocks: these are prompt, not data.
  const isText = isObject(source) && (source.type === 'text' || source.type === 'content')
  if (isText) other(w, part, depth)
  else w.piece('m', `${String(part.type)} ${digest(stable(withoutMarkers(part)))}`)
}

const thinking: PartWriter = (w, part) => {
  w.piece('k', String(part.type))
  w.piece('h', textOf(part.thinking) ?? '')
  const seal = textOf(part.signature) ?? textOf(part.data)
  if (seal !== undefined) w.piece('e', digest(seal))
  w.rest(part, THINKING_FIELDS)
}

const toolUse: PartWriter = (w, part) => {
  w.piece('u', String(part.type))
  w.piece('d', textOf(part.id) ?? '')
  w.piece('n', textOf(part.name) ?? '')
  w.json('j', part.input)
  w.rest(part, TOOL_USE_FIELDS)
  w.piece('z', '')
}

const toolResult: PartWriter = (w, part, depth) => {
  w.piece('v', String(part.type))
  w.piece('d', textOf(part.tool_use_id) ?? '')
  if (part.is_error === true) w.piece('x', '')
  w.rest(part, TOOL_RESULT_FIELDS)
  writeContent(w, part.content, depth - 1)
  // Closes the nesting: the parts that follow are not the tool's.
  w.piece('z', '')
}

const other: PartWriter = (w, part) => w.json('o', withoutMarkers(part))

const WRITERS: ReadonlyMap<unknown, PartWriter> = new Map<string, PartWriter>([
  ['text', text],
  ['input_text', text],
  ['output_text', text],
  ['image', media],
  ['image_url', media],
  ['input_image', media],
  ['computer_screenshot', media],
  ['document', media],
  ['input_audio', media],
  ['audio_url', media],
  ['video_url', media],
  ['file', media],
  ['input_file', media],
  ['thinking', thinking],
  ['redacted_thinking', thinking],
  ['tool_use', toolUse],
  ['server_tool_use', toolUse],
  ['mcp_tool_use', toolUse],
  ['tool_result', toolResult],
])

/** Writes a message's content: a string, a list of parts, one part, or whatever else was sent. */
function writeContent(w: PromptWriter, content: unknown, depth = MAX_DEPTH): void {
  if (typeof content === 'string') w.text(content)
  else if (content === null || content === undefined) return
  else if (depth <= 0) w.json('o', content)
  else if (Array.isArray(content)) for (const part of content) writePart(w, part, depth)
  else writePart(w, content, depth)
}

function writePart(w: PromptWriter, part: unknown, depth: number): void {
  // What is nested in a tool's result is no block of the message.
  if (depth === MAX_DEPTH) w.part()
  if (typeof part === 'string') w.text(part)
  else if (!isObject(part)) w.json('o', part)
  else {
    const writer = WRITERS.get(part.type) ?? other
    writer(w, part, depth)
    w.mark(markerOf(part))
  }
}

/** One segment with all tools, as sent; none if there are no tools. */
function writeTools(w: PromptWriter, kind: string, tools: unknown): void {
  if (!Array.isArray(tools) || tools.length === 0) return
  for (const tool of tools) {
    if (!isObject(tool)) {
      w.json(kind, tool)
      continue
    }
    w.piece(kind, toolText(withoutMarkers(tool)))
    const inner = isObject(tool.function) ? markerOf(tool.function) : undefined
    w.mark(markerOf(tool) ?? inner)
  }
  w.end()
}

export { writeContent, writeTools }
