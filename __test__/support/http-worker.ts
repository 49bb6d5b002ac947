/**
 * Workers that misbehave on cue, and plain servers: node:http, so that nothing hides what was asked
 * and what went wrong.
 */
import { once } from 'node:events'
import {
  createServer,
  type IncomingHttpHeaders,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import type { ExecutionContext } from 'ava'
import { API, API_NAMES, type ApiName } from './wire-apis.js'

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
  /** Connections that are open, and how many there have ever been. */
  readonly connections: { open: number; ever: number }
  close(): Promise<void>
}

const LOOPBACK = '127.0.0.1'

/** A worker at `at` (default: any port) that answers what `handler` answers, and 200 on /health. */
async function startWorker(
  t: ExecutionContext,
  handler: Handler,
  at: { port?: number; host?: string } = {},
): Promise<Worker> {
  const received: Received[] = []
  const { server, url } = await listen(t, at, async (req, res) => {
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
  const connections = { open: 0, ever: 0 }
  server.on('connection', (socket) => {
    connections.open += 1
    connections.ever += 1
    socket.once('close', () => {
      connections.open -= 1
    })
  })
  const bound = Number(new URL(url).port)
  const close = () => stop(server)
  const worker: Worker = { url, port: bound, received, handler, closed: 0, connections, close }
  return worker
}

/** The address of a server that answers what `listener` answers. */
async function serve(t: ExecutionContext, listener: RequestListener): Promise<string> {
  return (await listen(t, {}, listener)).url
}

/** A server that lives as long as the test. */
async function listen(
  t: ExecutionContext,
  { port = 0, host = LOOPBACK }: { port?: number; host?: string },
  listener: RequestListener,
) {
  const server = createServer(listener).listen(port, host)
  t.teardown(() => stop(server))
  await once(server, 'listening')
  return { server, url: `http://${host}:${(server.address() as AddressInfo).port}` }
}

async function stop(server: Server): Promise<void> {
  server.closeAllConnections()
  if (server.listening) await new Promise((done) => server.close(done))
}

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

export { answering, type Handler, json, serve, startWorker, type Worker }
