/**
 * Question: what happens to a turn whose worker has failed before anything of its answer has begun?
 *
 * It moves to the next candidate as long as the scheduler says that this is safe and attempts are
 * left. A turn that is locked to its worker waits and asks the same one again, for as long as the
 * options say; it never goes elsewhere without being told to. What cannot be mended ends with the
 * worker's own answer, or, where the owner of a lock is down, with OWNER_UNAVAILABLE.
 *
 * A fault passes (a busy moment, an outage: the session comes back) or lasts (a quota, a credential
 * that is refused: the session stays where it goes).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Turn } from '../index.js'
import { WarmpathError } from '../index.js'
import type { UpstreamAnswer } from './answer.js'
import type { RetryOptions } from './config.js'
import { UpstreamFailure } from './failures.js'
import { headerOf } from './headers.js'
import type { HealthWatch } from './health.js'
import type { Upstream } from './upstream.js'

type Outcome = UpstreamAnswer | UpstreamFailure

interface Parts {
  upstream: Upstream
  health: HealthWatch
  settings: { retry: RetryOptions }
}

interface Asking {
  signal: AbortSignal
  /** Called before each attempt: the turn may have moved. */
  note(): void
}

/** Why a worker did not take a request. */
interface Fault {
  kind: 'passing' | 'lasting'
  /** When it says that a repeat makes sense, in milliseconds from now. */
  retryAfterMs: number | undefined
  /** What it answered; undefined when there was no answer. */
  status: number | undefined
}

/** Answers that say: not taken, and another time or another worker may do. 529 is overload at Anthropic. */
const DECLINED: ReadonlySet<number> = new Set([429, 502, 503, 529])
/** Answers that say: not with this credential. */
const REFUSED: ReadonlySet<number> = new Set([401, 402, 403])
/** A credential that was refused may be mended by its owner: it is tried again after a minute. */
const REFUSED_MS = 60_000
const MAX_LIMIT_MS = 3_600_000
const FIRST_PAUSE_MS = 100
const MAX_PAUSE_MS = 2_000

/** Asks the turn's worker, and others where that is safe, until there is an answer to pass on. */
async function ask(parts: Parts, turn: Turn, { signal, note }: Asking): Promise<UpstreamAnswer> {
  let left = parts.settings.retry.attempts - 1
  let pause = FIRST_PAUSE_MS
  let until: number | undefined
  for (;;) {
    note()
    const { worker, url } = turn
    const outcome = await attempt(parts.upstream, turn, signal)
    const fault = faultOf(outcome, turn, parts.settings.retry)
    if (fault === undefined) return settled(outcome)
    const { hasOnlyCredential } = turn
    const moved = left > 0 && turn.next(fault.kind)
    until ??= performance.now() + turn.ownerWaitMs
    const rest = until - performance.now()
    const wait = fault.retryAfterMs ?? Math.min(pause, rest)
    const waits = !moved && rest > 0 && wait <= rest && canMend(fault)
    if (moved || waits) report(parts, { worker, url, hasOnlyCredential, outcome, fault, moved })
    else return giveUp(parts, turn, outcome, fault)
    if (moved) left -= 1
    else {
      await sleep(wait, undefined, { signal }).catch(() => signal.throwIfAborted())
      pause = Math.min(2 * pause, MAX_PAUSE_MS)
    }
  }
}

interface Reported {
  worker: string
  url: string
  /** Whether what limits the credential limits all turns there. */
  hasOnlyCredential: boolean
  outcome: Outcome
  fault: Fault
  moved: boolean
}

/** After the move: a turn on a worker that is marked down would be lost with it. */
function report(parts: Parts, reported: Reported): void {
  const { worker, url, hasOnlyCredential, outcome, fault, moved } = reported
  if (outcome instanceof UpstreamFailure) parts.health.failed(worker, url, outcome)
  else outcome.drop()
  if (!moved || fault.kind === 'passing' || !hasOnlyCredential) return
  const ms = Math.min(fault.retryAfterMs ?? REFUSED_MS, MAX_LIMIT_MS)
  parts.health.limited(worker, url, ms)
}

/** A credential is not mended by waiting. */
function canMend({ kind, retryAfterMs }: Fault): boolean {
  return kind === 'passing' || retryAfterMs !== undefined
}

/** Nobody else may take it, or nobody is left. */
function giveUp(parts: Parts, turn: Turn, outcome: Outcome, fault: Fault): UpstreamAnswer {
  if (outcome instanceof UpstreamFailure) parts.health.failed(turn.worker, turn.url, outcome)
  if (fault.status !== undefined && REFUSED.has(fault.status)) {
    if (!(outcome instanceof UpstreamFailure)) outcome.drop()
    throw refusedCredential(turn.target, fault.status)
  }
  // A quota is the provider's to explain, with a code of its own.
  const isOutage = fault.status === undefined || fault.status >= 500
  if (turn.lock === 'free' || !isOutage) return settled(outcome)
  if (!(outcome instanceof UpstreamFailure)) outcome.drop()
  const { retryAfterMs } = fault
  throw new WarmpathError(
    'WARMPATH_OWNER_UNAVAILABLE',
    `the turn leans on what target "${turn.target}" has issued or keeps, and that cannot take it now`,
    {
      ...(outcome instanceof UpstreamFailure && { cause: outcome }),
      ...(retryAfterMs !== undefined && { retryAfterSeconds: Math.ceil(retryAfterMs / 1000) }),
    },
  )
}

/** In place of the answer, whose text speaks of a key that is not the client's. */
function refusedCredential(target: string, status: number): WarmpathError {
  const message = `target "${target}" refuses the gateway's credential (${status})`
  return new WarmpathError('WARMPATH_UPSTREAM', message)
}

function settled(outcome: Outcome): UpstreamAnswer {
  if (outcome instanceof UpstreamFailure) throw outcome
  return outcome
}

async function attempt(upstream: Upstream, turn: Turn, signal: AbortSignal): Promise<Outcome> {
  try {
    return await upstream.call({ url: turn.url, ...turn.init }, signal)
  } catch (error) {
    if (error instanceof UpstreamFailure) return error
    throw error
  }
}

/** Undefined: it has taken the request, or what it says is about the request itself. */
function faultOf(outcome: Outcome, turn: Turn, { graceMs }: RetryOptions): Fault | undefined {
  if (outcome instanceof UpstreamFailure) {
    // A slow worker may still be at work on it.
    const isOver = outcome.kind === 'refused' || outcome.kind === 'lost'
    return isOver ? { kind: 'passing', retryAfterMs: undefined, status: undefined } : undefined
  }
  const { status } = outcome
  if (REFUSED.has(status)) {
    const isOurs = turn.hasOwnCredential
    return isOurs ? { kind: 'lasting', retryAfterMs: undefined, status } : undefined
  }
  if (!DECLINED.has(status)) return undefined
  const retryAfterMs = retryAfter(outcome)
  // Without a time it is a busy moment: such a 429 says nothing about a quota.
  const isQuota = status === 429 && retryAfterMs !== undefined && retryAfterMs > graceMs
  return { kind: isQuota ? 'lasting' : 'passing', retryAfterMs, status }
}

/** Milliseconds from now; undefined when it says nothing that can be read. */
function retryAfter({ headers }: UpstreamAnswer): number | undefined {
  const exact = headerOf(headers, 'retry-after-ms')
  if (exact !== undefined && /^\d{1,9}(\.\d+)?$/.test(exact)) return Number(exact)
  const told = headerOf(headers, 'retry-after')
  if (told === undefined) return undefined
  if (/^\d{1,9}(\.\d+)?$/.test(told)) return 1000 * Number(told)
  const date = Date.parse(told)
  return Number.isNaN(date) ? undefined : Math.max(0, date - Date.now())
}

export { ask, REFUSED, refusedCredential }
