/**
 * Which headers cross the router, in each direction.
 *
 * Towards an upstream only what is listed passes: content negotiation, the versions and betas of
 * the wire APIs, what clients say about themselves and their session, and trace context. The
 * client's credential stays behind unless the target says pass-through; then, and only then, the
 * headers that belong to an account go with it. Cookies and hop-by-hop headers never pass.
 *
 * Towards a client everything passes but what described the one hop: framing, encoding (fetch has
 * already decoded the body), cookies and connection offers of the upstream.
 *
 * Cost: linear in the headers of one message. Trusts that names in a HeaderMap are lower case.
 */
import { isString, refuseArgument } from '../argument.js'
import {
  type Auth,
  CREDENTIALS,
  HOP_BY_HOP,
  isSecretName,
  mayBeForwarded,
} from '../config/index.js'
import type { HeaderMap } from '../identity/index.js'

const PASSED = new Set([
  ...['accept', 'accept-language', 'content-type', 'user-agent'],
  ...['anthropic-version', 'anthropic-beta', 'anthropic-dangerous-direct-browser-access'],
  ...['openai-beta', 'x-app', 'originator', 'x-openai-subagent'],
  ...['traceparent', 'tracestate', 'x-request-id', 'x-client-request-id'],
  ...['session-id', 'session_id', 'thread-id', 'conversation_id', 'x-conversation-id'],
  ...['x-session-id', 'x-parent-session-id', 'x-session-affinity', 'x-session-token'],
  ...['x-affinity', 'x-task-id', 'x-correlation-id', 'x-grok-conv-id'],
  ...['x-multi-turn-session-id'],
])
const PASSED_PREFIXES = ['x-stainless-', 'x-claude-code-', 'x-codex-', 'x-dynamo-']

/** Mean something only together with the client's own credential. */
const ACCOUNT = new Set(['openai-organization', 'openai-project', 'chatgpt-account-id'])

const RESPONSE_DROPPED = new Set([
  ...['content-length', 'content-encoding', 'set-cookie', 'alt-svc'],
  ...['strict-transport-security', 'public-key-pins'],
])

export interface HeaderPlan {
  readonly client: HeaderMap
  readonly auth: Auth
  /** Of the worker: win over all others. */
  readonly worker: Readonly<Record<string, string>>
  /** Lower-case names that pass beside the built-in ones. */
  readonly extra: readonly string[]
}

/** Whether a request proves who asks by ours: the target's credential, or one among the worker's headers. */
export function hasOwnCredential({ auth, worker }: Pick<HeaderPlan, 'auth' | 'worker'>): boolean {
  return auth.kind === 'header' || Object.keys(worker).some(isSecretName)
}

/** Headers of the upstream request. */
export function requestHeaders(plan: HeaderPlan): Record<string, string> {
  const headers: Record<string, string> = {}
  const withAccount = plan.auth.kind === 'pass-through'
  for (const [name, value] of plan.client) {
    const ofAccount = CREDENTIALS.has(name) || ACCOUNT.has(name)
    if (ofAccount ? withAccount : isPassed(name, plan.extra)) headers[name] = value
  }
  headers['content-type'] ??= 'application/json'
  if (plan.auth.kind === 'header') headers[plan.auth.name] = plan.auth.value
  return Object.assign(headers, plan.worker)
}

/** Headers of an upstream answer that a gateway may send on, in order, repeats kept. Throws INVALID_ARGUMENT. */
export function responseHeaders(headers: Iterable<readonly [string, string]>): [string, string][] {
  const all = pairsOf(headers)
  const listed = new Set(
    all
      .filter(([name]) => name === 'connection')
      .flatMap(([, value]) => value.split(',').map((item) => item.trim().toLowerCase())),
  )
  return all.filter(
    ([name]) => !(HOP_BY_HOP.has(name) || RESPONSE_DROPPED.has(name) || listed.has(name)),
  )
}

/** Lower-case names. Throws INVALID_ARGUMENT. */
function pairsOf(headers: unknown): [string, string][] {
  const allowed = 'the headers of an answer: pairs of name and value'
  const isIterable = typeof headers === 'object' && headers !== null && Symbol.iterator in headers
  if (!isIterable) refuseArgument('headers', allowed)
  return Array.from(headers as Iterable<unknown>, (pair) => {
    const [name, value]: unknown[] = Array.isArray(pair) ? pair : []
    return isString(name) && isString(value)
      ? [name.toLowerCase(), value]
      : refuseArgument('headers', allowed)
  })
}

function isPassed(name: string, extra: readonly string[]): boolean {
  const isListed = PASSED.has(name) || PASSED_PREFIXES.some((prefix) => name.startsWith(prefix))
  return isListed || (extra.includes(name) && mayBeForwarded(name))
}
