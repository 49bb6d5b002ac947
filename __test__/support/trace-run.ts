/**
 * A few sessions through a gateway that writes a trace: a tool loop, a child of it, an answer that its
 * client left, a worker that fails, a client that names no session.
 */
import { once } from 'node:events'
import { join } from 'node:path'
import type { ExecutionContext } from 'ava'
import { jsonl, type TraceOptions, type TraceRecord } from '../../src/index.js'
import type { ScriptedAnswer } from '../../src/testing/index.js'
import { type Gateway, openGateway, startDouble, until } from '../gateway-support.js'
import { open, send } from './http-client.js'
import { folder, lines } from './trace.js'

type Request = TraceRecord['event']['request']

/** A record as its line has it; hashes are texts, since as numbers they would lose digits. */
export interface Line {
  timestamp: number
  event: Omit<TraceRecord['event'], 'request'> & {
    request: Omit<Request, 'replay'> & {
      replay: Omit<Request['replay'], 'input_sequence_hashes'> & { input_sequence_hashes: string[] }
    }
  }
}

export function parse(line: string): Line {
  const quoted = line.replace(/"input_sequence_hashes":\[([\d,]*)\]/, (_, list: string) => {
    return `"input_sequence_hashes":${JSON.stringify(list === '' ? [] : list.split(','))}`
  })
  return JSON.parse(quoted)
}

const PATH = '/v1/chat/completions'
const SYSTEM = { role: 'system', content: 'You are careful. '.repeat(120) }
const TOOLS = [
  { type: 'function', function: { name: 'read_file', parameters: { type: 'object' } } },
]

const user = (content: string) => ({ role: 'user', content })

function body(messages: unknown[], more: object = {}): object {
  return { model: 'm', tools: TOOLS, messages: [SYSTEM, ...messages], ...more }
}

/** Two calls of a tool, then the answer, as a stream. */
async function toolLoop(t: ExecutionContext, url: string): Promise<void> {
  const headers = { 'x-session-id': 'main' }
  const messages: unknown[] = [user('Mend the tests. '.repeat(60))]
  for (let call = 0; call < 2; call += 1) {
    const answer = await send(url + PATH, { headers, body: body(messages) })
    t.is(answer.status, 200, answer.body)
    const { message } = JSON.parse(answer.body).choices[0]
    const [{ id }] = message.tool_calls
    messages.push(message, { role: 'tool', tool_call_id: id, content: 'fn x() {} '.repeat(40) })
  }
  await send(url + PATH, { headers, body: body(messages, { stream: true }) })
}

/** Reads the beginning of an answer and goes away. */
async function leave(t: ExecutionContext, { url, scheduler }: Gateway): Promise<void> {
  const [answer, request] = await open(url + PATH, {
    headers: { 'x-session-id': 'left' },
    body: body([user('Go on.')], { stream: true, max_tokens: 10_000 }),
  })
  answer.on('error', () => {})
  await once(answer, 'data')
  request.destroy()
  await until(t, 'the turn has ended', () => scheduler.status().reservations === 0)
}

const CALL = { name: 'read_file', arguments: { path: 'a' } }
/** Of the tool loop and its child; what comes then is long. */
const ANSWERS: readonly ScriptedAnswer[] = [
  { textTokens: 4, toolCalls: [CALL] },
  { textTokens: 4, toolCalls: [CALL] },
  { textTokens: 8 },
  { textTokens: 8 },
]

/** Gives the lines of the file, in order. */
export async function served(t: ExecutionContext, trace: TraceOptions = {}): Promise<Line[]> {
  const path = join(folder(t), 'trace.jsonl')
  const left = [...ANSWERS]
  const script = () => left.shift() ?? { textTokens: 5_000 }
  const double = await startDouble(t, { id: 'a', speed: 20, script })
  const workers = [{ id: 'a', url: double.url }]
  const gateway = await openGateway(t, {
    scheduler: { workers, trace: { sink: jsonl({ path }), ...trace } },
    retry: { attempts: 1 },
  })
  const { url } = gateway
  await toolLoop(t, url)
  const child = { 'x-session-id': 'child', 'x-parent-session-id': 'main' }
  await send(url + PATH, {
    headers: { ...child, 'x-dynamo-session-final': 'true' },
    body: body([user('Look there.')]),
  })
  await leave(t, gateway)
  double.fail('503')
  await send(url + PATH, { headers: { 'x-session-id': 'failed' }, body: body([user('Hello?')]) })
  const unnamed = { model: 'm', max_tokens: 2, messages: [user('Who am I?')] }
  await send(url + PATH, { body: unnamed })
  await gateway.close()
  t.deepEqual(gateway.scheduler.status().trace, { written: 7, dropped: 0, lost: 0, waiting: 0 })
  return lines(path).map(parse)
}
