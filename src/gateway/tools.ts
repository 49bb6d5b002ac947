/**
 * Question: what does a harness tell of the tools that its session runs between two turns?
 *
 * `POST /tools/started` and `POST /tools/ended` name the session as its turns do, in headers or in a JSON
 * body, and belong to the tenant of their credential, as turns do. A hook of Claude Code may send on what it
 * gets: its `session_id`, or `agent_id` inside a subagent, is the name that its turns carry. All else of a
 * body is ignored. `?expectedSeconds=40` says for how long, since who only passes a body on can write an
 * address. Bodies have the limits of those of turns, and say that they are JSON: a page of somebody else's
 * that a browser shows cannot send such a one unasked. Takes no reservation.
 */
import { type NamedSession, parseBody, WarmpathError } from '../index.js'
import type { Exchange } from './exchange.js'
import type { Parts } from './turns.js'

/** 204 whether or not there is such a session, as for one that is over. */
async function toolStarted(parts: Parts, exchange: Exchange): Promise<void> {
  const [said] = queryOf(exchange, ['expectedSeconds'])
  const session = await named(parts, exchange)
  // What is no number is refused there, by the name that it has here.
  const expectedSeconds = /^\d+(\.\d+)?$/.test(said ?? '') ? Number(said) : Number.NaN
  parts.scheduler.toolStarted(session, said === undefined ? {} : { expectedSeconds })
  exchange.empty()
}

/** The same of a tool that has ended. */
async function toolEnded(parts: Parts, exchange: Exchange): Promise<void> {
  queryOf(exchange, [])
  parts.scheduler.toolEnded(await named(parts, exchange))
  exchange.empty()
}

/** The values of these names; each may come once, and no other may. Throws WARMPATH_INVALID_ARGUMENT. */
function queryOf({ path }: Exchange, known: readonly string[]): (string | undefined)[] {
  const query = new URL(path, 'http://gateway').searchParams
  for (const name of query.keys()) {
    if (!known.includes(name)) throw invalid('the address has a parameter that is not known here')
    if (query.getAll(name).length > 1) throw invalid(`${name} must come once`)
  }
  return known.map((name) => query.get(name) ?? undefined)
}

/** Throws WARMPATH_INVALID_ARGUMENT where nobody is named, and what bodies of turns are refused with. */
async function named({ scheduler, bodies }: Parts, { req, res }: Exchange): Promise<NamedSession> {
  const raw = await bodies.readDecoded(req, res)
  if (raw.length > 0 && !isJson(req.headers['content-type'])) {
    throw invalid('send the body with content-type: application/json')
  }
  const body = raw.length === 0 ? {} : parseBody(raw)
  const session = scheduler.sessionOf(req.headers, agentOf(body) ?? body)
  if (session !== undefined) return session
  throw invalid('name the session by the headers of its turns, or as session_id in a JSON body')
}

/** What names a subagent; absent where it is the session itself, which must not be meant by mistake. */
function agentOf({ agent_id: agent }: Record<string, unknown>): object | undefined {
  if (agent === undefined || agent === null || agent === '') return undefined
  if (typeof agent !== 'string') throw invalid('agent_id must be a string')
  return { session_id: agent }
}

function isJson(type: string | undefined): boolean {
  return /^application\/json\s*(?:;|$)/i.test(type ?? '')
}

function invalid(message: string): WarmpathError {
  return new WarmpathError('WARMPATH_INVALID_ARGUMENT', message)
}

export { toolEnded, toolStarted }
