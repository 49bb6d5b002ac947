/**
 * Question: what does a harness tell of the tools that its session runs between two turns?
 *
 * `POST /tools/started` and `POST /tools/ended` name the session as its turns do, in headers or in a JSON
 * body, and belong to the tenant of their credential, as turns do. A hook of Claude Code may send on what it
 * gets: its `session_id`, or `agent_id` inside a subagent, is the name that its turns carry. All else of a
 * body is ignored. `?expectedSeconds=40` says for how long, since who only passes a body on can write an
 * address. Bodies have the limits of those of turns. Takes no reservation.
 */
import { type NamedSession, parseBody, WarmpathError } from '../index.js'
import type { Exchange } from './exchange.js'
import type { Parts } from './turns.js'

/** 204 whether or not there is such a session, as for one that is over. */
async function toolStarted(parts: Parts, exchange: Exchange): Promise<void> {
  const session = await named(parts, exchange)
  const said = new URL(exchange.path, 'http://gateway').searchParams.get('expectedSeconds')
  // What is no number is refused there, by the name that it has here.
  const expectedSeconds = said?.trim() === '' ? Number.NaN : Number(said)
  parts.scheduler.toolStarted(session, said === null ? {} : { expectedSeconds })
  exchange.empty()
}

/** The same of a tool that has ended. */
async function toolEnded(parts: Parts, exchange: Exchange): Promise<void> {
  parts.scheduler.toolEnded(await named(parts, exchange))
  exchange.empty()
}

/** Throws WARMPATH_INVALID_ARGUMENT where nobody is named, and what bodies of turns are refused with. */
async function named({ scheduler, bodies }: Parts, { req, res }: Exchange): Promise<NamedSession> {
  const raw = await bodies.readDecoded(req, res)
  const body = raw.length === 0 ? {} : parseBody(raw)
  const { agent_id: agent } = body
  const isAgent = typeof agent === 'string' && agent !== ''
  const session = scheduler.sessionOf(req.headers, isAgent ? { session_id: agent } : body)
  if (session !== undefined) return session
  throw new WarmpathError(
    'WARMPATH_INVALID_ARGUMENT',
    'name the session by the headers of its turns, or as session_id in a JSON body',
  )
}

export { toolEnded, toolStarted }
