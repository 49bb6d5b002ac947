/**
 * The scripted task: what the engine doubles answer to an agent, whichever wire API it speaks.
 *
 * A root conversation (its prompt says TASK and a tag) runs a few commands, hands a part to a
 * sub-agent (whose prompt says PART and the tag), runs more commands and writes a file as its last
 * act. What comes next is read off the conversation itself, so any double can continue it. A request
 * without tools is one that an agent makes beside its work, such as for a title.
 */

/** Commands before the sub-agent is called, after it, and within it. */
export const STEPS = { before: 3, after: 2, within: 2 }
/** What the last command writes, and where. */
export const END_FILE = 'end.txt'
const TEXT_TOKENS = 40
/** Output that makes the context of the next turn longer: some 4,900 bytes. */
const NOISE = 'seq 1 1200'

export const rootPrompt = (tag) =>
  `Do the work of TASK-${tag}. Use tools for every step and say when it is done.`
const partPrompt = (tag) => `Do the work of PART-${tag}. Use tools, then report.`

/** `{ tag, role }` of a conversation; a root also holds what it told its sub-agent. */
export function roleOf(body) {
  const text = JSON.stringify(body.messages ?? body.input ?? '')
  const task = /TASK-(\w+)/.exec(text)
  const part = /PART-(\w+)/.exec(text)
  const tag = (task ?? part)?.[1]
  if (tag === undefined || !(body.tools?.length > 0)) return { tag, role: 'beside' }
  return { tag, role: task ? 'root' : 'part' }
}

/** The script of an engine double. */
export function script({ body, dialect }) {
  const { tag, role } = roleOf(body)
  const answer = (toolCall) => ({
    textTokens: TEXT_TOKENS,
    ...(toolCall && { toolCalls: [toolCall] }),
  })
  if (role === 'beside') return answer()
  const tools = TOOLS[dialect]
  const history = tools.history(body)
  const ran = history.filter(({ name }) => name === tools.shell.name).length
  const run = (command) => answer(tools.shell.call(command))
  if (role === 'part') return ran < STEPS.within ? run(`echo part ${tag}; ${NOISE}`) : answer()
  if (ran < STEPS.before) return run(`echo step ${ran} of ${tag}; ${NOISE}`)
  const next = ran === STEPS.before ? tools.delegate(history, tag) : undefined
  if (next) return answer(next)
  if (ran < STEPS.before + STEPS.after) return run(`echo step ${ran} of ${tag}; ${NOISE}`)
  if (ran === STEPS.before + STEPS.after) return run(`echo ${tag} > ${END_FILE}`)
  return answer()
}

/** Every tool call of a conversation with its result, `{ id, name, result }`, in order. */
export function history(dialect, body) {
  return TOOLS[dialect].history(body)
}

function paired(calls, results) {
  return calls.map((call) => ({ ...call, result: results.get(call.id) }))
}

const textOf = (content) => (typeof content === 'string' ? content : JSON.stringify(content ?? ''))

function anthropicHistory({ messages = [] }) {
  const blocks = messages.flatMap(({ content }) => (Array.isArray(content) ? content : []))
  const results = blocks.filter(({ type }) => type === 'tool_result')
  return paired(
    blocks.filter(({ type }) => type === 'tool_use'),
    new Map(results.map((block) => [block.tool_use_id, textOf(block.content)])),
  )
}

function chatHistory({ messages = [] }) {
  const calls = messages.flatMap(({ tool_calls }) => tool_calls ?? [])
  const results = messages.filter(({ role }) => role === 'tool')
  return paired(
    calls.map((call) => ({ id: call.id, name: call.function.name })),
    new Map(results.map((message) => [message.tool_call_id, textOf(message.content)])),
  )
}

function responsesHistory({ input = [] }) {
  const items = Array.isArray(input) ? input : []
  const results = items.filter(({ type }) => type === 'function_call_output')
  return paired(
    items
      .filter(({ type }) => type === 'function_call')
      .map((item) => ({ id: item.call_id, name: item.name })),
    new Map(results.map((item) => [item.call_id, textOf(item.output)])),
  )
}

/** A sub-agent that one call starts and ends. */
const oneCall = (name, subagent_type) => (history, tag) =>
  history.some((call) => call.name === name)
    ? undefined
    : {
        name,
        arguments: { description: 'a part', prompt: partPrompt(tag), subagent_type },
      }

/** Codex starts a sub-agent with one call and waits for it with others. */
function spawnAndWait(history, tag) {
  const namespace = 'multi_agent_v1'
  const spawned = history.find(({ name }) => name === 'spawn_agent')
  if (!spawned) {
    return { name: 'spawn_agent', namespace, arguments: { message: partPrompt(tag) } }
  }
  const waited = history.findLast(({ name }) => name === 'wait_agent')
  const over = waited?.result !== undefined && !/"timed_out\\*":\s*true/.test(waited.result)
  const id = /agent_id\\*":\s*\\*"([^"\\]+)/.exec(spawned.result ?? '')?.[1]
  if (over || id === undefined) return undefined
  return { name: 'wait_agent', namespace, arguments: { targets: [id], timeout_ms: 60_000 } }
}

const shell = (name, argument) => ({
  name,
  call: (command) => ({ name, arguments: { [argument]: command, description: 'a step' } }),
})

const TOOLS = {
  'anthropic-messages': {
    history: anthropicHistory,
    shell: shell('Bash', 'command'),
    delegate: oneCall('Agent', 'general-purpose'),
  },
  'openai-chat': {
    history: chatHistory,
    shell: shell('bash', 'command'),
    delegate: oneCall('task', 'general'),
  },
  'openai-responses': {
    history: responsesHistory,
    shell: {
      name: 'exec_command',
      call: (cmd) => ({ name: 'exec_command', arguments: { cmd } }),
    },
    delegate: spawnAndWait,
  },
}
