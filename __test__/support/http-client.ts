/**
 * A client that sees the bytes: plain node:http, so that nothing between a test and the socket
 * decodes, retries, pools or hides a broken connection.
 */
import { once } from 'node:events'
import {
  Agent,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
} from 'node:http'

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

export { type Answer, finish, open, type Sent, send, start }
