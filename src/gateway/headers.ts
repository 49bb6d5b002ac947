/**
 * Question: which headers of a worker's answer reach the client, and which does the gateway add?
 *
 * What may cross is `responseHeaders`' rule, written for answers that were decoded and may be
 * framed anew. Here bytes pass as they came, so their encoding is told as it came too, and their
 * length, unless something may be taken out of them. `x-warmpath-*` headers of a worker are dropped: a
 * client must be able to believe that they are this gateway's.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { responseHeaders, type TurnRequest } from '../index.js'
import type { About } from './exchange.js'

/** Name and value, in order; a name may come more than once. */
type HeaderList = readonly [string, string][]

/**
 * An answer's headers as a worker sent them, as the client gets them. `isRewritten`: something may be taken
 * out of it.
 */
function passedHeaders(headers: HeaderList, isRewritten: boolean): HeaderList {
  const passed = responseHeaders(headers).filter(([name]) => !name.startsWith('x-warmpath-'))
  const kept =
    isRewritten || isEventStream(headers)
      ? ['content-encoding']
      : ['content-encoding', 'content-length']
  for (const name of kept) {
    const value = headerOf(headers, name)
    if (value !== undefined) passed.push([name, value])
  }
  return passed
}

/** Whether these headers announce server-sent events. */
function isEventStream(headers: HeaderList): boolean {
  return /^text\/event-stream\b/i.test(headerOf(headers, 'content-type') ?? '')
}

/** The first of that name. */
function headerOf(headers: HeaderList, name: string): string | undefined {
  return headers.find(([each]) => each === name)?.[1]
}

/** Names of the headers that say where a turn went. */
const ABOUT_HEADERS = {
  worker: 'x-warmpath-worker',
  model: 'x-warmpath-model',
  target: 'x-warmpath-target',
  session: 'x-warmpath-session',
  receipt: 'x-warmpath-receipt',
  continuity: 'x-warmpath-continuity',
  reason: 'x-warmpath-reason',
} as const

/** What is known so far, as headers. */
function answerHeaders(about: About): HeaderList {
  const names = Object.entries(ABOUT_HEADERS) as [keyof typeof ABOUT_HEADERS, string][]
  return names.flatMap(([key, name]) => {
    const value = about[key]
    return value === undefined || value === '' ? [] : [[name, headerValue(value)]]
  })
}

/** What a client may say of a turn beside its body, for the choice of model. */
function askOf(headers: IncomingHttpHeaders): Pick<TurnRequest, 'base' | 'route' | 'drift'> {
  const said = (name: string): string | undefined => {
    const value = headers[`x-warmpath-${name}`]
    return typeof value === 'string' && value !== '' ? value : undefined
  }
  const [base, route, drift] = ['base', 'route', 'drift'].map(said)
  return {
    ...(base !== undefined && { base }),
    ...(route !== undefined && { route }),
    ...(drift !== undefined && { drift: drift === 'true' || drift === '1' }),
  }
}

/** The priority that the header of that name has; a value that is none is refused by the scheduler. */
function priorityOf(headers: IncomingHttpHeaders, name: string): Pick<TurnRequest, 'priority'> {
  const value = name === '' ? undefined : headers[name]
  if (typeof value !== 'string' || value === '') return {}
  return { priority: /^[+-]?\d+$/.test(value) ? Number(value) : Number.NaN }
}

/** Longest value of one of our headers, in characters; ids may come from a client's body. */
const VALUE_CHARS = 256

/** Makes any string a legal header value: what is not visible ASCII is percent-encoded as UTF-8. */
function headerValue(value: string): string {
  return value.slice(0, VALUE_CHARS).replace(/[^\x21-\x7e]/gu, percentEncode)
}

function percentEncode(character: string): string {
  return [...Buffer.from(character)]
    .map((byte) => `%${byte.toString(16).padStart(2, '0').toUpperCase()}`)
    .join('')
}

export {
  ABOUT_HEADERS,
  answerHeaders,
  askOf,
  type HeaderList,
  headerOf,
  isEventStream,
  passedHeaders,
  priorityOf,
}
