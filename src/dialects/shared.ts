/**
 * What all dialects do alike with the frame of a request: check it, read its settings, and write
 * errors in OpenAI's shape, which two of the three use.
 */
import { WarmpathError } from '../errors.js'
import { countOf, isObject, textOf } from './json.js'
import type { PromptWriter } from './prompt.js'
import type { Json, RequestFacts } from './types.js'

/** What a dialect itself finds out beside the prompt. */
type Tail = Pick<RequestFacts, 'toolResults' | 'state' | 'usageAsked'>

/** Throws WARMPATH_INVALID_BODY if there is nothing to read. */
function checkBody(body: unknown): void {
  if (isObject(body)) return
  const kind = body === null ? 'null' : Array.isArray(body) ? 'an array' : typeof body
  throw new WarmpathError(
    'WARMPATH_INVALID_BODY',
    `the request body must be a JSON object, not ${kind}`,
  )
}

/**
 * All that a request says. `limits` are the names under which its dialect limits the output; the first
 * good one counts. Member by member: a second object spread into one costs microseconds (Node 20).
 */
function requestFacts(
  body: Json,
  limits: readonly string[],
  written: PromptWriter,
  { toolResults, state, usageAsked }: Tail,
): RequestFacts {
  const { prompt, breakpoints, contents, volatile } = written.finish()
  const stream = body.stream === true
  const facts: RequestFacts = {
    stream,
    toolResults,
    state,
    usageAsked,
    breakpoints,
    contents,
    volatile,
    prompt,
  }
  const model = textOf(body.model)
  if (model !== undefined) facts.model = model
  const salt = textOf(body.cache_salt)
  if (salt !== undefined) facts.cacheSalt = salt
  for (const name of limits) {
    const limit = countOf(body[name])
    if (limit === undefined || limit === 0) continue
    facts.maxOutputTokens = limit
    break
  }
  return facts
}

const OPENAI_TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
}

function openaiErrorBody(status: number, code: string, message: string): Json {
  const usual = status >= 500 ? 'server_error' : 'invalid_request_error'
  return { error: { message, type: OPENAI_TYPES[status] ?? usual, param: null, code } }
}

/** One server-sent event; with a blank line in front, since the stream may have broken inside one. */
function sseEvent(name: string | undefined, data: Json): string {
  return `\n\n${name === undefined ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`
}

export { checkBody, openaiErrorBody, requestFacts, sseEvent }
