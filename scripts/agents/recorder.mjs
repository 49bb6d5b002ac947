/**
 * What agents see: a pipe between them and the gateway that writes down each exchange.
 *
 * Bytes pass as they come, in both directions; a client that leaves takes its request with it. Every
 * request gets an `x-request-id`, by which what an engine saw is found again.
 */
import { createServer, request } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { roleOf } from './task.mjs'

/** How a stream says that it is whole, and that it failed. */
const WHOLE = /^event: (message_stop|response\.(completed|incomplete))$|^data: \[DONE\]$/m
const FAILED = /^event: (error|response\.failed)$|^data: \{"error":/m

/** Starts one; `exchanges` fills as agents work. */
export async function startRecorder(gateway) {
  const exchanges = []
  const server = createServer((req, res) => {
    pass(gateway, exchanges, req, res).catch(() => res.destroy())
  })
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening))
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    exchanges,
    close: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}

async function pass(gateway, exchanges, req, res) {
  const raw = await buffer(req)
  const exchange = {
    id: `exchange-${exchanges.length}`,
    method: req.method,
    path: req.url.split('?')[0],
    ...describe(raw),
    begun: Date.now(),
    body: '',
  }
  exchanges.push(exchange)
  const { host: _, connection: __, 'transfer-encoding': ___, ...headers } = req.headers
  const up = request(gateway + req.url, {
    method: req.method,
    headers: { ...headers, 'content-length': raw.length, 'x-request-id': exchange.id },
  })
  res.on('close', () => {
    if (res.writableFinished) return
    exchange.left = true
    up.destroy()
  })
  up.on('error', () => {
    if (!res.headersSent) exchange.broken = true
    res.destroy()
  })
  up.on('response', (answer) => record(exchange, answer, res))
  up.end(raw)
}

function describe(raw) {
  try {
    const body = JSON.parse(raw)
    return { ...roleOf(body), stream: body.stream === true }
  } catch {
    return {}
  }
}

function record(exchange, answer, res) {
  exchange.status = answer.statusCode
  res.writeHead(answer.statusCode, answer.rawHeaders)
  answer.on('data', (piece) => {
    exchange.body += piece
    res.write(piece)
  })
  answer.on('close', () => {
    exchange.broken = !answer.complete && !exchange.left
    exchange.ended = Date.now()
    for (const name of ['worker', 'session', 'receipt', 'target', 'model']) {
      const header = `x-warmpath-${name}`
      exchange[name] = answer.headers[header] ?? answer.trailers[header]
    }
    exchange.whole = exchange.stream ? WHOLE.test(exchange.body) : answer.complete
    exchange.told = exchange.status >= 400 || FAILED.test(exchange.body)
    if (answer.complete) res.end()
    else res.destroy()
  })
  answer.on('error', () => {})
}
