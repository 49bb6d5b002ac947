/**
 * What is told of a session between two turns: the tools that it runs, and that it is over.
 *
 * Checks what was passed and hands it on; what follows from it is the core's business.
 */
import { checkFields, checkString, refuseArgument } from '../argument.js'
import type { Link } from '../link.js'
import { native } from '../native.js'
import type { NamedSession } from './request.js'

/** A session: a turn of it, or its name as `turn.session` tells it. */
export type SessionLike = string | NamedSession

/** Whose session it is, where it was given by name. */
export interface ToolOwner {
  /** As `turn.tenant` tells it. Default: none. */
  tenant?: string
}

/** A tool that begins. */
export interface StartedTool extends ToolOwner {
  /** For about how long it will run, 0 to 1e9. Absent: nobody knows. */
  expectedSeconds?: number
}

const MAX_SECONDS = 1e9

/** Throws INVALID_ARGUMENT. */
export function endSession(link: Link, session: SessionLike, tenant: string): void {
  const known = knownSession(session, tenant)
  if (link.closed) return
  link.call((handle, now, out) => native.endSession(handle, now, known.tenant, known.session, out))
}

function knownSession(given: SessionLike, tenant: string) {
  const isTurn = typeof given === 'object' && given !== null
  const known = isTurn ? given : { session: given, tenant }
  checkString(known.session, 'session')
  checkString(known.tenant, 'tenant')
  return { session: known.session, tenant: known.tenant }
}

export function toolStarted(link: Link, session: SessionLike, tool: StartedTool): void {
  checkFields(tool, 'tool', ['tenant', 'expectedSeconds'])
  const { expectedSeconds: seconds } = tool
  const isTime = typeof seconds === 'number' && seconds >= 0 && seconds <= MAX_SECONDS
  if (seconds !== undefined && !isTime) {
    refuseArgument('expectedSeconds', `a number from 0 to ${MAX_SECONDS}`)
  }
  tell(link, session, tool, false, seconds === undefined ? -1 : Math.round(seconds * 1e6))
}

export function toolEnded(link: Link, session: SessionLike, tool: ToolOwner): void {
  checkFields(tool, 'tool', ['tenant'])
  tell(link, session, tool, true, -1)
}

function tell(
  link: Link,
  given: SessionLike,
  { tenant = '' }: ToolOwner,
  ended: boolean,
  expected: number,
): void {
  const known = knownSession(given, tenant)
  if (link.closed) return
  link.call((handle, now, out) =>
    native.tellTool(handle, now, known.tenant, known.session, ended, expected, out),
  )
}
