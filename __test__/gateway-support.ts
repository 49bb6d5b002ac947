/**
 * What the gateway's specs share: workers that misbehave on cue, and a client that sees the bytes.
 *
 * Both are plain node:http, so that nothing between a test and the socket decodes, retries, pools
 * or hides a broken connection.
 */
import { once } from 'node:events'
import {
  Agent,
  type ClientRequest,
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ExecutionContext } from 'ava'

interface Received {
  method: string
  path: string
  headers: IncomingHttpHeaders
  body: string
}

type Handler = (req: Received, res: ServerResponse) => unknown

interface Worker {
  readonly url: string
  readonly port: number
  readonly received: Received[]
  /** Answers of turns from now on. */
  handler: Handler
  /** Answers whose connection has ended. */
  closed: number
  close(): Promise<void>
}

/** A worker on `port` (0: any) that answers what `handler` answers, and 200 on /health. */
async function startWorker(t: ExecutionContext, handler: Handler, port = 0): Promise<Worker> {
  const received: Received[] = []
  const server = createServer(async (req, res) => {
    res.on('error', () => {})
    res.once('close', () => {
      worker.closed += 1
    })
    if (req.url === '/health') return res.end()
    const seen = { method: req.method ?? '', path: req.url ?? '', headers: req.headers, body: '' }
    for await (const piece of req) seen.body += String(piece)
    received.push(seen)
    await worker.handler(seen, res)
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const bound = (server.address() as AddressInfo).port
  const close = async () => {
    server.closeAllConnections()
    if (server.listening) await new Promise((done) => server.close(done))
  }
  const url = `http://127.0.0.1:${bound}`
  const worker: Worker = { url, port: bound, received, handler, closed: 0, close }
  t.teardown(close)
  return worker
}

interface Answer {
  status: number
  headers: IncomingHttpHeaders
  body: string
  trailers: NodeJS.Dict<string>
  /** The connection broke before the answer was whole. */
  broken: boolean
}

interface Sent {
  method?: string
  headers?: Record<string, string>
  /** A string or bytes go as they are; anything else as JSON. */
  body?: unknown
}

/** Sends a request and gives the stream of its answer. */
async function open(url: string, sent: Sent = {}): Promise<[IncomingMessage, ClientRequest]> {
  const req = start(url, sent)
  const [res] = (await once(req, 'response')) as [IncomingMessage]
  return [res, req]
}

/** Sends a request without waiting for anything. */
function start(url: string, sent: Sent = {}): ClientRequest {
  const body = sent.body === undefined ? undefined : bytesOf(sent.body)
  const method = sent.method ?? (body === undefined ? 'GET' : 'POST')
  const headers = { ...sent.headers }
  if (body) headers['content-type'] ??= 'application/json'
  const req = request(url, { method, headers, agent: new Agent() })
  req.on('error', () => {})
  req.end(body)
  return req
}

function bytesOf(body: unknown): string | Uint8Array {
  return typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body)
}

/** A whole exchange. */
async function send(url: string, sent: Sent = {}): Promise<Answer> {
  const [res] = await open(url, sent)
  return finish(res)
}

async function finish(res: IncomingMessage): Promise<Answer> {
  const pieces: Buffer[] = []
  let broken = false
  try {
    for await (const piece of res) pieces.push(piece as Buffer)
  } catch {
    broken = true
  }
  const { statusCode: status = 0, headers, trailers } = res
  return { status, headers, body: Buffer.concat(pieces).toString(), trailers, broken }
}

/** Waits until `condition` holds; fails the test after `limitMs`. */
async function until(
  t: ExecutionContext,
  what: string,
  condition: () => boolean,
  limitMs = 10_000,
): Promise<void> {
  for (const end = Date.now() + limitMs; Date.now() < end; ) {
    if (condition()) {
      t.pass()
      return
    }
    await sleep(5)
  }
  t.fail(`never happened: ${what}`)
}

const API = {
  'openai-chat': {
    path: '/v1/chat/completions',
    request: { model: 'm', messages: [{ role: 'user', content: 'Hello' }] },
    answer: {
      id: 'chatcmpl-1',
      object: 'chat.completion',
      model: 'm',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 },
    },
    events: [
      'data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n',
      'data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
      'data: [DONE]\n\n',
    ],
  },
  'openai-responses': {
    path: '/v1/responses',
    request: { model: 'm', input: 'Hello' },
    answer: {
      id: 'resp_1',
      object: 'response',
      status: 'completed',
      output: [
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Hi' }] },
      ],
      usage: { input_tokens: 5, output_tokens: 1, total_tokens: 6 },
    },
    events: [
      'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_1"}}\n\n',
      'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"Hi"}\n\n',
      'event: response.completed\ndata: {"type":"response.completed","response":{"id":"resp_1","status":"completed"}}\n\n',
    ],
  },
  'anthropic-messages': {
    path: '/v1/messages',
    request: { model: 'm', max_tokens: 16, messages: [{ role: 'user', content: 'Hello' }] },
    answer: {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      content: [{ type: 'text', text: 'Hi' }],
      stop_reason: 'end_turn',
      usage: { input_tokens: 5, output_tokens: 1 },
    },
    events: [
      'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":5}}}\n\n',
      'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}\n\n',
      'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    ],
  },
} as const

type ApiName = keyof typeof API

const API_NAMES = Object.keys(API) as ApiName[]

/** Answers the API of the path, as JSON or as a stream. */
function answering(): Handler {
  return (req, res) => {
    const api = API[apiOf(req.path)]
    if (JSON.parse(req.body).stream !== true) return json(res, 200, api.answer)
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const event of api.events) res.write(event)
    res.end()
  }
}

function apiOf(path: string): ApiName {
  const name = API_NAMES.find((candidate) => path.split('?')[0] === API[candidate].path)
  if (name === undefined) throw new Error(`no such API: ${path}`)
  return name
}

function json(res: ServerResponse, status: number, value: unknown): void {
  res.writeHead(status, { 'content-type': 'application/json' })
  // Bytes: node would encode the head like a string that follows it.
  res.end(Buffer.from(JSON.stringify(value)))
}

export {
  type Answer,
  API,
  API_NAMES,
  type ApiName,
  answering,
  finish,
  type Handler,
  json,
  open,
  send,
  start,
  startWorker,
  until,
  type Worker,
}
