/**
 * What does a session of the demo send, turn by turn?
 *
 * One conversation a session, in the wire form of its agent: Claude Code speaks Anthropic messages,
 * OpenCode speaks OpenAI chat, Codex speaks OpenAI responses, each with the headers that the real
 * clients identify their sessions and sub-agents with. A conversation only ever grows: what the
 * engine answered goes back verbatim, then the tool result. Texts are drawn from the workload's
 * seed, so that every router sees the same bytes as long as the engines answer the same.
 *
 * Left out of the real forms: Claude Code's billing header in front of the system prompt. It
 * differs per conversation and ends every shared prefix at its first block; people who run that
 * client on their own engines turn it off for this reason.
 *
 * Building a body is linear in the context (it is serialised whole for each turn).
 */
import type { SplitMix64 } from './random.js'
import { prose } from './text.js'
import type { ClientName, SessionPlan } from './workload.js'

/** A tool call as the engine gave it, whatever the wire form. */
interface ToolCall {
  id: string
  name: string
  /** JSON text. */
  arguments: string
}

/** What the engine answered. */
interface Answer {
  text: string
  toolCalls: readonly ToolCall[]
}

interface WireRequest {
  path: string
  headers: Record<string, string>
  body: Record<string, unknown>
}

/** The growing context of one session in one client's form. */
interface Conversation {
  /** The next request; as the real clients do, it leaves the answer's length to the model. */
  request(): WireRequest
  /** Takes the answer in, then the result of the tools it called. */
  extend(answer: Answer, toolResult: string): void
}

/** Texts that a conversation starts from. */
interface Opening {
  model: string
  session: SessionPlan
  system: string
  tools: readonly { name: string; description: string }[]
  task: string
}

const TOOL_NAMES = ['read', 'edit', 'bash', 'search', 'agent'] as const

/** The parameters that every tool of the demo takes. */
const PARAMETERS = {
  type: 'object',
  properties: { input: { type: 'string' } },
  required: ['input'],
} as const

/** Share of the shared tokens that are tool descriptions; the rest is the system prompt. */
const TOOLS_SHARE = 0.4

/**
 * The texts of a session. The shared part depends on the shared key and the seed alone.
 * @param seeded the run's stream; not advanced
 */
function opening(seeded: SplitMix64, session: SessionPlan, model: string): Opening {
  const { key, tokens } = session.shared
  const random = seeded.fork(`shared ${key}`)
  const each = Math.floor((tokens * TOOLS_SHARE) / TOOL_NAMES.length)
  const tools = TOOL_NAMES.map((name) => ({ name, description: prose(random, each) }))
  const system = prose(random, tokens - each * TOOL_NAMES.length)
  const task = prose(seeded.fork(`task ${session.id}`), session.taskTokens)
  return { model, session, system, tools, task }
}

/** The id of the session at the root of the lineage. */
function rootOf(session: SessionPlan): string {
  return session.parent ?? session.id
}

function claudeCode({ model, session, system, tools, task }: Opening): Conversation {
  const messages: unknown[] = [{ role: 'user', content: [{ type: 'text', text: task }] }]
  const headers: Record<string, string> = {
    'anthropic-version': '2023-06-01',
    'x-api-key': 'demo',
    'x-app': 'cli',
    'x-claude-code-session-id': rootOf(session),
  }
  if (session.parent !== undefined) headers['x-claude-code-agent-id'] = session.id
  return {
    request: () => ({
      path: '/v1/messages?beta=true',
      headers,
      body: {
        model,
        messages,
        system: [{ type: 'text', text: system, cache_control: { type: 'ephemeral' } }],
        tools: tools.map((tool) => ({ ...tool, input_schema: PARAMETERS })),
        max_tokens: 64_000,
        stream: true,
      },
    }),
    extend({ text, toolCalls }, toolResult) {
      const spoken = text === '' ? [] : [{ type: 'text', text }]
      const uses = toolCalls.map((call) => ({
        type: 'tool_use',
        id: call.id,
        name: call.name,
        input: JSON.parse(call.arguments) as unknown,
      }))
      const results = toolCalls.map((call) => ({
        tool_use_id: call.id,
        type: 'tool_result',
        content: toolResult,
      }))
      messages.push({ role: 'assistant', content: [...spoken, ...uses] })
      messages.push({ role: 'user', content: results })
    },
  }
}

function openCode({ model, session, system, tools, task }: Opening): Conversation {
  const messages: unknown[] = [
    { role: 'system', content: system },
    { role: 'user', content: task },
  ]
  const headers: Record<string, string> = {
    authorization: 'Bearer demo',
    'x-session-affinity': session.id,
    'x-session-id': session.id,
  }
  if (session.parent !== undefined) headers['x-parent-session-id'] = session.parent
  return {
    request: () => ({
      path: '/v1/chat/completions',
      headers,
      body: {
        model,
        max_tokens: 32_000,
        messages,
        tools: tools.map((tool) => ({
          type: 'function',
          function: { ...tool, parameters: PARAMETERS },
        })),
        tool_choice: 'auto',
        stream: true,
        stream_options: { include_usage: true },
      },
    }),
    extend({ text, toolCalls }, toolResult) {
      const calls = toolCalls.map((call) => ({
        id: call.id,
        type: 'function',
        function: { name: call.name, arguments: call.arguments },
      }))
      messages.push({ role: 'assistant', content: text, tool_calls: calls })
      for (const call of toolCalls) {
        messages.push({ role: 'tool', tool_call_id: call.id, content: toolResult })
      }
    },
  }
}

function codex({ model, session, system, tools, task }: Opening): Conversation {
  const input: unknown[] = [
    { type: 'message', role: 'developer', content: [{ type: 'input_text', text: system }] },
    { type: 'message', role: 'user', content: [{ type: 'input_text', text: task }] },
  ]
  // The real client sends the root's id as session id for its sub-agents too.
  const headers: Record<string, string> = {
    authorization: 'Bearer demo',
    originator: 'codex_exec',
    'session-id': rootOf(session),
    'thread-id': session.id,
  }
  if (session.parent !== undefined) {
    headers['x-codex-parent-thread-id'] = session.parent
    headers['x-openai-subagent'] = 'collab_spawn'
  }
  return {
    request: () => ({
      path: '/v1/responses',
      headers,
      body: {
        model,
        stream: true,
        input,
        tools: tools.map((tool) => ({ type: 'function', ...tool, parameters: PARAMETERS })),
        tool_choice: 'auto',
        store: false,
        prompt_cache_key: rootOf(session),
      },
    }),
    extend({ text, toolCalls }, toolResult) {
      if (text !== '') {
        const content = [{ type: 'output_text', text }]
        input.push({ type: 'message', role: 'assistant', content })
      }
      for (const { id, name, arguments: json } of toolCalls) {
        input.push({ type: 'function_call', name, arguments: json, call_id: id })
      }
      for (const { id } of toolCalls) {
        input.push({ type: 'function_call_output', call_id: id, output: toolResult })
      }
    },
  }
}

const FORMS: Readonly<Record<ClientName, (opening: Opening) => Conversation>> = {
  'claude-code': claudeCode,
  codex,
  opencode: openCode,
}

/** Starts the conversation of a session, in the form of its client. */
function startConversation(seeded: SplitMix64, session: SessionPlan, model: string): Conversation {
  return FORMS[session.client](opening(seeded, session, model))
}

export { type Answer, type Conversation, startConversation, type ToolCall, type WireRequest }
