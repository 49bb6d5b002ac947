/** Three wire APIs as a client speaks them, as far as a scripted session needs. */

type Json = Record<string, unknown>

interface Call {
  readonly id: string
  readonly name: string
  readonly arguments: string
}

/** What a model has said. */
interface Said {
  readonly text: string
  readonly calls: readonly Call[]
  /** Names the answer where it is kept. */
  readonly id: string
}

/** One API; bodies are whole histories. */
interface Wire {
  readonly name: string
  readonly path: string
  /** Items that a body begins with. */
  open(question: string): unknown[]
  /** What an answer adds to them. */
  said(answer: Said): unknown[]
  /** What the results of its calls add. */
  results(calls: readonly Call[], result: (call: Call) => string): unknown[]
  /** What a further question adds. */
  question(text: string): unknown[]
  body(items: readonly unknown[]): Json
  read(answer: unknown): Said
}

const SCHEMA = { type: 'object', properties: { key: { type: 'string' } } }
const TOOLS = ['next', 'submit']

function list(value: unknown): Json[] {
  return Array.isArray(value) ? value : []
}

const user = (content: string) => [{ role: 'user', content }]

const chat: Wire = {
  name: 'chat',
  path: '/v1/chat/completions',
  open: user,
  said: ({ text, calls }) => [
    {
      role: 'assistant',
      content: text || null,
      ...(calls.length > 0 && {
        tool_calls: calls.map(({ id, name, arguments: args }) => ({
          id,
          type: 'function',
          function: { name, arguments: args },
        })),
      }),
    },
  ],
  results: (calls, result) =>
    calls.map((call) => ({ role: 'tool', tool_call_id: call.id, content: result(call) })),
  question: user,
  body: (messages) => ({
    tools: TOOLS.map((name) => ({ type: 'function', function: { name, parameters: SCHEMA } })),
    messages,
  }),
  read(answer) {
    const { id, choices } = answer as Json
    const message = list(choices)[0]?.message as Json
    const calls = list(message.tool_calls).map((call) => ({
      id: String(call.id),
      ...(call.function as Omit<Call, 'id'>),
    }))
    return { id: String(id), text: String(message.content ?? ''), calls }
  },
}

const messages: Wire = {
  name: 'messages',
  path: '/v1/messages',
  open: user,
  said: ({ text, calls }) => [
    {
      role: 'assistant',
      content: [
        ...(text ? [{ type: 'text', text }] : []),
        ...calls.map(({ id, name, arguments: args }) => ({
          type: 'tool_use',
          id,
          name,
          input: JSON.parse(args),
        })),
      ],
    },
  ],
  results: (calls, result) => [
    {
      role: 'user',
      content: calls.map((call) => ({
        type: 'tool_result',
        tool_use_id: call.id,
        content: result(call),
      })),
    },
  ],
  question: user,
  body: (items) => ({
    max_tokens: 400,
    tools: TOOLS.map((name) => ({ name, input_schema: SCHEMA })),
    messages: items,
  }),
  read(answer) {
    const { id, content } = answer as Json
    const parts = list(content)
    const text = parts.map((part) => (part.type === 'text' ? String(part.text) : '')).join('')
    const calls = parts
      .filter(({ type }) => type === 'tool_use')
      .map((part) => ({
        id: String(part.id),
        name: String(part.name),
        arguments: JSON.stringify(part.input),
      }))
    return { id: String(id), text, calls }
  },
}

const responses: Wire = {
  name: 'responses',
  path: '/v1/responses',
  open: user,
  said: ({ text, calls }) => [
    ...(text ? [{ role: 'assistant', content: [{ type: 'output_text', text }] }] : []),
    ...calls.map(({ id, name, arguments: args }) => ({
      type: 'function_call',
      call_id: id,
      name,
      arguments: args,
    })),
  ],
  results: (calls, result) =>
    calls.map((call) => ({
      type: 'function_call_output',
      call_id: call.id,
      output: result(call),
    })),
  question: user,
  body: (input) => ({
    tools: TOOLS.map((name) => ({ type: 'function', name, parameters: SCHEMA })),
    input,
  }),
  read(answer) {
    const { id, output } = answer as Json
    const items = list(output)
    const text = items
      .flatMap((item) => (item.type === 'message' ? list(item.content) : []))
      .map((part) => String(part.text ?? ''))
      .join('')
    const calls = items
      .filter(({ type }) => type === 'function_call')
      .map((item) => ({
        id: String(item.call_id),
        name: String(item.name),
        arguments: String(item.arguments),
      }))
    return { id: String(id), text, calls }
  },
}

const WIRES: readonly Wire[] = [chat, messages, responses]

export { type Call, type Json, type Said, WIRES, type Wire }
