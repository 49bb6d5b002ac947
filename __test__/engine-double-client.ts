/** What the specs of the engine double share: a client, and one conversation in three dialects. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'

import type { ExecutionContext } from 'ava'

import {
  type EngineDouble,
  type EngineDoubleOptions,
  type RequestEnd,
  startEngineDouble,
} from '../src/testing/index.js'

type Json = Record<string, unknown>

/** A field deep inside JSON of unknown shape. */
function at(value: unknown, ...path: (string | number)[]): unknown {
  let here = value
  for (const key of path) {
    const step = Array.isArray(here) && key === -1 ? here.length - 1 : key
    here = typeof here === 'object' && here !== null ? (here as Json)[step] : undefined
  }
  return here
}

interface SseEvent {
  event: string | undefined
  data: unknown
}

/** The events of a whole stream; `[DONE]` stays a string. */
function parseSse(stream: string): SseEvent[] {
  return stream
    .split('\n\n')
    .filter((block) => block !== '')
    .map((block) => {
      const field = (name: string) =>
        block
          .split('\n')
          .find((line) => line.startsWith(`${name}: `))
          ?.slice(name.length + 2)
      const data = field('data') ?? ''
      return { event: field('event'), data: data === '[DONE]' ? data : JSON.parse(data) }
    })
}

interface Posted {
  status: number
  body: unknown
  events: SseEvent[]
}

async function post(
  double: EngineDouble,
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<Posted> {
  const response = await fetch(double.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  const text = await response.text()
  const stream = response.headers.get('content-type')?.startsWith('text/event-stream')
  return stream
    ? { status: response.status, body: undefined, events: parseSse(text) }
    : { status: response.status, body: JSON.parse(text), events: [] }
}

/** A double that lives as long as the test, and whose request ends can be awaited in order. */
async function start(t: ExecutionContext, options: EngineDoubleOptions = {}) {
  const ends: RequestEnd[] = []
  const waiting: ((end: RequestEnd) => void)[] = []
  const onRequestEnd = (end: RequestEnd) => {
    const wanted = waiting.shift()
    if (wanted) wanted(end)
    else ends.push(end)
  }
  const double = await startEngineDouble({ speed: 200, ...options, onRequestEnd })
  t.teardown(() => double.close())
  const nextEnd = (): Promise<RequestEnd> => {
    const end = ends.shift()
    return end ? Promise.resolve(end) : new Promise((resolve) => waiting.push(resolve))
  }
  return { double, nextEnd }
}

/** A recorded file of the fixtures, unpacked. */
function fixture(...path: string[]): string {
  return gunzipSync(readFileSync(join(__dirname, 'fixtures', ...path))).toString('utf8')
}

interface Spoken {
  text: string
  calls: { id: string; name: string; arguments: string }[]
}

/** One dialect as a client speaks it. */
interface Client {
  name: string
  path: string
  /** The body of a first turn. */
  first(user: string, rest?: Json): Json
  /** The body of the turn after `answer`, which brings a result for its calls and a new question. */
  next(before: Json, answer: Spoken, question: string): Json
  /** A JSON answer. */
  spoken(body: unknown): Spoken
  /** The same from a stream. */
  heard(events: SseEvent[]): Spoken
  /** [prompt, cached, output] of a usage object. */
  usage(usage: unknown): [number, number, number]
  /** Where the usage is in a stream. */
  streamUsage(events: SseEvent[]): unknown
  /** The message of an error. */
  error(body: unknown): unknown
  maxTokens: string
}

const TOOL = {
  description: 'Lists a folder',
  schema: { type: 'object', properties: { path: { type: 'string' } } },
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : []
}

const chat: Client = {
  name: 'chat',
  path: '/v1/chat/completions',
  maxTokens: 'max_tokens',
  first: (user, rest = {}) => ({
    tools: [
      {
        type: 'function',
        function: { name: 'ls', description: TOOL.description, parameters: TOOL.schema },
      },
    ],
    messages: [
      { role: 'system', content: 'You are terse.' },
      { role: 'user', content: user },
    ],
    stream_options: { include_usage: true },
    ...rest,
  }),
  next: (before, answer, question) => ({
    ...before,
    messages: [
      ...list(before.messages),
      {
        role: 'assistant',
        content: answer.text || null,
        tool_calls: answer.calls.map(({ id, name, arguments: args }) => ({
          id,
          type: 'function',
          function: { name, arguments: args },
        })),
      },
      ...answer.calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'a.txt' })),
      {
        role: 'user',
        content: [{ type: 'text', text: question, cache_control: { type: 'ephemeral' } }],
      },
    ],
  }),
  spoken: (body) => ({
    text: String(at(body, 'choices', 0, 'message', 'content') ?? ''),
    calls: list(at(body, 'choices', 0, 'message', 'tool_calls')).map((call) => ({
      id: String(at(call, 'id')),
      name: String(at(call, 'function', 'name')),
      arguments: String(at(call, 'function', 'arguments')),
    })),
  }),
  heard(events) {
    const spoken: Spoken = { text: '', calls: [] }
    for (const { data } of events) {
      const delta = at(data, 'choices', 0, 'delta')
      spoken.text += String(at(delta, 'content') ?? '')
      for (const part of list(at(delta, 'tool_calls'))) {
        const index = Number(at(part, 'index'))
        spoken.calls[index] ??= {
          id: String(at(part, 'id')),
          name: String(at(part, 'function', 'name')),
          arguments: '',
        }
        const call = spoken.calls[index]
        if (call) call.arguments += String(at(part, 'function', 'arguments') ?? '')
      }
    }
    return spoken
  },
  usage: (usage) => [
    Number(at(usage, 'prompt_tokens')),
    Number(at(usage, 'prompt_tokens_details', 'cached_tokens')),
    Number(at(usage, 'completion_tokens')),
  ],
  streamUsage: (events) => at(events.at(-2)?.data, 'usage'),
  error: (body) => at(body, 'error', 'message'),
}

const messages: Client = {
  name: 'messages',
  path: '/v1/messages',
  maxTokens: 'max_tokens',
  first: (user, rest = {}) => ({
    max_tokens: 1000,
    tools: [{ name: 'ls', description: TOOL.description, input_schema: TOOL.schema }],
    system: [{ type: 'text', text: 'You are terse.', cache_control: { type: 'ephemeral' } }],
    messages: [{ role: 'user', content: user }],
    ...rest,
  }),
  next: (before, answer, question) => ({
    ...before,
    system: 'You are terse.',
    messages: [
      ...list(before.messages),
      {
        role: 'assistant',
        content: [
          ...(answer.text ? [{ type: 'text', text: answer.text }] : []),
          ...answer.calls.map(({ id, name, arguments: args }) => ({
            type: 'tool_use',
            id,
            name,
            input: JSON.parse(args),
          })),
        ],
      },
      {
        role: 'user',
        content: [
          ...answer.calls.map(({ id }) => ({
            type: 'tool_result',
            tool_use_id: id,
            content: 'a.txt',
          })),
          { type: 'text', text: question, cache_control: { type: 'ephemeral' } },
        ],
      },
    ],
  }),
  spoken: (body) => {
    const blocks = list(at(body, 'content'))
    return {
      text: blocks.map((block) => at(block, 'text') ?? '').join(''),
      calls: blocks
        .filter((block) => at(block, 'type') === 'tool_use')
        .map((block) => ({
          id: String(at(block, 'id')),
          name: String(at(block, 'name')),
          arguments: JSON.stringify(at(block, 'input')),
        })),
    }
  },
  heard(events) {
    const spoken: Spoken = { text: '', calls: [] }
    for (const { data } of events) {
      const block = at(data, 'content_block')
      if (at(block, 'type') === 'tool_use') {
        spoken.calls.push({
          id: String(at(block, 'id')),
          name: String(at(block, 'name')),
          arguments: '',
        })
      }
      spoken.text += String(at(data, 'delta', 'text') ?? '')
      const open = spoken.calls.at(-1)
      if (open) open.arguments += String(at(data, 'delta', 'partial_json') ?? '')
    }
    return spoken
  },
  usage: (usage) => [
    Number(at(usage, 'input_tokens')) + Number(at(usage, 'cache_read_input_tokens')),
    Number(at(usage, 'cache_read_input_tokens')),
    Number(at(usage, 'output_tokens')),
  ],
  streamUsage: (events) => at(events.at(-2)?.data, 'usage'),
  error: (body) => (at(body, 'type') === 'error' ? at(body, 'error', 'message') : undefined),
}

const responses: Client = {
  name: 'responses',
  path: '/v1/responses',
  maxTokens: 'max_output_tokens',
  first: (user, rest = {}) => ({
    tools: [
      { type: 'function', name: 'ls', description: TOOL.description, parameters: TOOL.schema },
    ],
    instructions: 'You are terse.',
    input: [{ role: 'user', content: user }],
    ...rest,
  }),
  next: (before, answer, question) => ({
    ...before,
    input: [
      ...list(before.input),
      ...(answer.text
        ? [
            {
              type: 'message',
              role: 'assistant',
              content: [{ type: 'output_text', text: answer.text }],
            },
          ]
        : []),
      ...answer.calls.map(({ id, name, arguments: args }) => ({
        type: 'function_call',
        call_id: id,
        name,
        arguments: args,
      })),
      ...answer.calls.map(({ id }) => ({
        type: 'function_call_output',
        call_id: id,
        output: 'a.txt',
      })),
      { role: 'user', content: [{ type: 'input_text', text: question }] },
    ],
  }),
  spoken: (body) => {
    const items = list(at(body, 'output'))
    return {
      text: items.map((item) => at(item, 'content', 0, 'text') ?? '').join(''),
      calls: items
        .filter((item) => at(item, 'type') === 'function_call')
        .map((item) => ({
          id: String(at(item, 'call_id')),
          name: String(at(item, 'name')),
          arguments: String(at(item, 'arguments')),
        })),
    }
  },
  heard(events) {
    const spoken: Spoken = { text: '', calls: [] }
    for (const { event, data } of events) {
      if (event === 'response.output_text.delta') spoken.text += String(at(data, 'delta'))
      const item = at(data, 'item')
      if (event === 'response.output_item.added' && at(item, 'type') === 'function_call') {
        spoken.calls.push({
          id: String(at(item, 'call_id')),
          name: String(at(item, 'name')),
          arguments: '',
        })
      }
      const open = spoken.calls.at(-1)
      if (open && event === 'response.function_call_arguments.delta') {
        open.arguments += String(at(data, 'delta'))
      }
    }
    return spoken
  },
  usage: (usage) => [
    Number(at(usage, 'input_tokens')),
    Number(at(usage, 'input_tokens_details', 'cached_tokens')),
    Number(at(usage, 'output_tokens')),
  ],
  streamUsage: (events) => at(events.at(-1)?.data, 'response', 'usage'),
  error: (body) => at(body, 'error', 'message'),
}

const CLIENTS = [chat, messages, responses]

export {
  at,
  CLIENTS,
  type Client,
  chat,
  fixture,
  type Json,
  messages,
  parseSse,
  post,
  responses,
  start,
}
