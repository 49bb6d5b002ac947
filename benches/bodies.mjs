/**
 * The requests that the benches send: agent sessions in the shape of Claude Code's, turn by turn.
 *
 * A turn is the one before it with the model's answer (a sentence and a tool call) and the tool's
 * result. Text is made of lines of code and prose with the newlines and quotes that real ones have,
 * since those are what parsing and writing JSON spend their time on. All sessions have the same tools;
 * the line that bills a conversation is the first thing that differs, so they share nothing behind it.
 */

/** Bytes of JSON a token, about what code and prose in English have. */
const BYTES_A_TOKEN = 4
const RESULT_BYTES = 2_400
/** What is left of a short prompt beside its tools and its system prompt. */
const RESULTS_SHARE = 0.4
const LINES = [
  'export function route(request, workers) {',
  '  const found = workers.find((worker) => worker.id === request.session)',
  '  if (found === undefined) throw new Error("no worker is up")',
  '  return { url: found.url, headers: { "content-type": "application/json" } }',
  '}',
  'The test fails because the second turn is sent to another worker than the first.',
  '    at Scheduler.submit (src/scheduler.ts:112:17)',
  '- `capacityTokens`: how many tokens fit into the cache of one worker',
]

/** Stands where the name of a session goes. */
const NAME = 'NAMEOFTHESESSION'

/** Numbers in [0, 1) from a seed. */
function random(seed) {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

function text(next, bytes) {
  const lines = []
  for (let size = 0; size < bytes; ) {
    const line = `${LINES[Math.floor(next() * LINES.length)]} // ${next().toString(36).slice(2, 10)}`
    lines.push(line)
    size += line.length + 1
  }
  return lines.join('\n')
}

function tools(count) {
  const next = random(1)
  return Array.from({ length: count }, (_, n) => ({
    name: `Tool${n}`,
    description: text(next, 1_200),
    input_schema: {
      type: 'object',
      properties: {
        file_path: { type: 'string', description: 'The absolute path of the file' },
        offset: { type: 'number', description: 'The line to start from' },
        limit: { type: 'number', description: 'How many lines are read' },
        mode: { type: 'string', enum: ['read', 'write', 'append'] },
      },
      required: ['file_path'],
      additionalProperties: false,
    },
  }))
}

/** The answer to turn `n` and what its tool said. */
function step(next, n, resultBytes) {
  const id = `toolu_${n.toString().padStart(4, '0')}${next().toString(36).slice(2, 14)}`
  const input = { file_path: `/repo/src/room-${n}/part.ts`, offset: n, limit: 200 }
  return [
    {
      role: 'assistant',
      content: [
        { type: 'text', text: text(next, 120) },
        { type: 'tool_use', id, name: 'Tool1', input },
      ],
    },
    {
      role: 'user',
      content: [{ tool_use_id: id, type: 'tool_result', content: text(next, resultBytes) }],
    },
  ]
}

/** What Claude Code puts on the last block of each request, and takes away in the next. */
function marked(messages) {
  const last = messages.at(-1)
  const content = last.content.map((part, at) =>
    at === last.content.length - 1 ? { ...part, cache_control: { type: 'ephemeral' } } : part,
  )
  return [...messages.slice(0, -1), { ...last, content }]
}

/**
 * The JSON of `turns` requests of a session, the last with a prompt of about `tokens`. A tenth of it
 * is tools, at most 25,000 tokens as Claude Code's are.
 */
export function sessionBodies(tokens, turns) {
  const next = random(tokens)
  const own = tools(Math.max(1, Math.round(Math.min(tokens / 10, 25_000) / 450)))
  const system = [
    { type: 'text', text: `x-anthropic-billing-header: cc_version=2.1.197.${NAME};` },
    { type: 'text', text: text(random(2), tokens / 5), cache_control: { type: 'ephemeral' } },
  ]
  const messages = [{ role: 'user', content: [{ type: 'text', text: text(next, 200) }] }]
  const frame = { model: 'claude-opus-4-8', system, tools: own, max_tokens: 32_000, stream: true }
  const share = (tokens * BYTES_A_TOKEN * RESULTS_SHARE) / turns
  const resultBytes = Math.min(RESULT_BYTES, share)
  let size = JSON.stringify({ ...frame, messages }).length
  for (let n = 1; size < tokens * BYTES_A_TOKEN; n++) {
    const more = step(next, n, resultBytes)
    messages.push(...more)
    size += JSON.stringify(more).length
  }
  const last = Math.min(turns, (messages.length + 1) / 2)
  return Array.from({ length: last }, (_, at) => {
    const sent = messages.slice(0, messages.length - 2 * (last - 1 - at))
    const { model, ...rest } = frame
    return JSON.stringify({ model, messages: marked(sent), ...rest })
  })
}

/** The JSON for the session of that name. */
export function named(json, session) {
  return json.replace(NAME, session)
}

/** As a gateway gets them: Claude Code's, less what says nothing here. */
export function headersOf(session) {
  return {
    'content-type': 'application/json',
    'user-agent': 'claude-cli/2.1.197 (external, sdk-cli)',
    'x-claude-code-session-id': session,
    'x-stainless-lang': 'js',
    'x-stainless-runtime': 'node',
    'anthropic-version': '2023-06-01',
    'x-api-key': 'test',
    'x-app': 'cli',
  }
}
