/**
 * Where each client and router writes its session ids: data, read by index.ts from top to bottom.
 *
 * Order: ids that are addressed to a router explicitly (the Dynamo names), then what agents send by
 * themselves, then the affinity headers of other routers and providers; headers before bodies, and
 * in bodies the specific before the general. `prompt_cache_key` comes last: a Codex child carries
 * its root's there, and some applications share one key among many conversations.
 */
import type { HeaderMap } from './headers.js'

/** Reads one place of a request; undefined when it holds no usable id. */
type Place = (headers: HeaderMap, body: unknown) => string | undefined

interface Row {
  /** Becomes `Identity.source`. */
  name: string
  /** The row decides if one of these is present; the first that is names the session. */
  root: readonly Place[]
  /** An id that names the session instead of the root; the parent counts only beside it. */
  child?: readonly Place[]
  /** The parent; a child without one has the root as its parent. */
  parent: readonly Place[]
}

/** UTF-16 units of JSON inside a string; real ones have some hundreds. */
const MAX_CARRIER = 64 * 1024

const header =
  (name: string): Place =>
  (headers) => {
    const value = headers.get(name)
    // Headers objects and Node's parser join repeats with a comma and a space: the first counts.
    const first = value?.split(', ', 1)[0]?.trim()
    return first === '' ? undefined : first
  }

const body =
  (...path: string[]): Place =>
  (_, value) =>
    idOf(at(value, path))

/** A member of a JSON object that is itself carried in a string. */
const inside =
  (place: Place, member: string): Place =>
  (headers, value) =>
    idOf(at(parse(place(headers, value)), [member]))

/** As header(), for values with commas in them. */
const whole =
  (name: string): Place =>
  (headers) =>
    headers.get(name)

/** Claude Code's `metadata.user_id`: JSON in newer builds, else the text after `_session_`. */
const claudeUser: Place = (_, value) => {
  const user = at(value, ['metadata', 'user_id'])
  if (typeof user !== 'string') return undefined
  if (user.trimStart().startsWith('{')) return idOf(at(parse(user), ['session_id']))
  const mark = user.lastIndexOf('_session_')
  return mark === -1 ? undefined : idOf(user.slice(mark + '_session_'.length))
}

const codexTurn = whole('x-codex-turn-metadata')
const codexBodyTurn = body('client_metadata', 'x-codex-turn-metadata')

const row = (name: string, root: readonly Place[], ...parent: Place[]): Row => ({
  name,
  root,
  parent,
})

const ROWS: readonly Row[] = [
  row('dynamo', [header('x-dynamo-session-id')], header('x-dynamo-parent-session-id')),
  row(
    'dynamo-trajectory',
    [header('x-dynamo-trajectory-id')],
    header('x-dynamo-parent-trajectory-id'),
  ),
  {
    name: 'claude-code',
    root: [header('x-claude-code-session-id')],
    child: [header('x-claude-code-agent-id')],
    parent: [header('x-claude-code-parent-agent-id')],
  },
  row(
    'codex',
    [header('thread-id')],
    header('x-codex-parent-thread-id'),
    inside(codexTurn, 'parent_thread_id'),
  ),
  row(
    'deepseek-harness',
    [header('x-deepseek-harness-session-id')],
    header('x-deepseek-harness-parent-session-id'),
  ),
  row('opencode', [header('x-session-id')], header('x-parent-session-id')),
  row('opencode-gateway', [header('x-opencode-session')], header('x-parent-session-id')),
  // Older Codex; pi, Cline and Roo Code with their Codex provider. nginx drops underscores.
  row('codex-older', [header('session-id'), header('session_id'), header('conversation_id')]),
  row('roo', [header('x-roo-task-id')]),
  row('cline', [header('x-task-id')]),
  row('fireworks', [header('x-multi-turn-session-id'), header('x-session-affinity')]),
  row('smg', [header('x-smg-routing-key')]),
  row('aibrix', [header('x-aibrix-session-key')]),
  row('bifrost', [header('x-bf-session-id')]),
  row('xai', [header('x-grok-conv-id')]),
  row('pi-mistral', [header('x-affinity')]),
  row(
    'dynamo-body-trajectory',
    [body('nvext', 'agent_context', 'trajectory_id')],
    body('nvext', 'agent_context', 'parent_trajectory_id'),
  ),
  row(
    'dynamo-body-program',
    [body('nvext', 'agent_context', 'program_id')],
    body('nvext', 'agent_context', 'parent_program_id'),
  ),
  // The worker-side form of the newest generation, where a session is one chain.
  row(
    'dynamo-body',
    [body('nvext', 'agent_context', 'session_id')],
    body('nvext', 'agent_context', 'parent_session_id'),
  ),
  row(
    'codex-body',
    [body('client_metadata', 'thread_id'), body('client_metadata', 'session_id')],
    body('client_metadata', 'x-codex-parent-thread-id'),
    inside(codexBodyTurn, 'parent_thread_id'),
  ),
  row('claude-code-body', [claudeUser]),
  row('thunderagent', [body('program_id'), body('extra_body', 'program_id')]),
  row('qwen-code', [body('metadata', 'sessionId')]),
  row('gemini-cli', [body('request', 'session_id')]),
  row('body-session', [body('session_id'), body('metadata', 'session_id')]),
  row('prompt-cache-key', [body('prompt_cache_key')]),
]

/** Where a client says that nothing follows; valid beside any row. */
const FINAL: readonly Place[] = [
  header('x-dynamo-session-final'),
  header('x-dynamo-trajectory-final'),
  (_, value) => String(at(value, ['nvext', 'agent_context', 'trajectory_final'])),
  (_, value) => String(at(value, ['nvext', 'agent_context', 'session_final'])),
]

/** Where a client says that this request summarises its history. */
const COMPACTION: readonly { place: Place; value: string }[] = [
  { place: inside(codexTurn, 'request_kind'), value: 'compaction' },
  { place: inside(codexBodyTurn, 'request_kind'), value: 'compaction' },
  { place: header('x-openai-subagent'), value: 'compact' },
  { place: header('x-deepseek-harness-compact'), value: '1' },
]

/** The value at a path of own members; undefined where the path ends early. */
function at(value: unknown, path: readonly string[]): unknown {
  let here = value
  for (const name of path) {
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, name)) return undefined
    here = Reflect.get(here, name)
  }
  return here
}

/** An id out of a body: a string that is not blank, or an integer. */
function idOf(value: unknown): string | undefined {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? String(value) : undefined
  if (typeof value !== 'string') return undefined
  return value.trim() || undefined
}

/** Undefined for what is no JSON, or longer than what any client keeps its ids in. */
function parse(text: string | undefined): unknown {
  if (text === undefined || text.length > MAX_CARRIER) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export type { Place, Row }
export { COMPACTION, FINAL, ROWS }
