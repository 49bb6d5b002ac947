// undici without web streams: `turn.watch` is told each piece of an answer that you pass on yourself.
//   node examples/undici.mjs http://engine-1:8000 http://engine-2:8000
import { createServer } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { Agent } from 'undici'
import { responseHeaders, Scheduler } from 'warmpath'

const scheduler = new Scheduler({ workers: process.argv.slice(2).map((url) => ({ url })) })
const agent = new Agent({ headersTimeout: 600_000, bodyTimeout: 300_000 })

async function serve(req, res, signal) {
  const { url: path, method, headers } = req
  const turn = await scheduler.submit({ path, method, headers, raw: await buffer(req), signal })
  try {
    const { origin, pathname, search } = new URL(turn.url)
    const options = { ...turn.init, origin, path: pathname + search }
    const { statusCode, headers: answered, body } = await agent.request(options)
    const watch = turn.watch({ status: statusCode, contentType: answered['content-type'] })
    res.writeHead(statusCode, responseHeaders(Object.entries(answered)).flat())
    await pipeline(watch ? watched(watch, body) : body, res)
  } catch (error) {
    turn.fail(error)
    throw error
  } finally {
    turn[Symbol.dispose]()
  }
}

async function* watched(watch, body) {
  try {
    for await (const piece of body) yield watch.push(piece)
    yield watch.end()
  } catch (error) {
    watch.fail()
    throw error
  } finally {
    watch.cancel() // without effect on an answer that has ended
  }
}

const server = createServer((req, res) => {
  const client = new AbortController()
  res.once('close', () => client.abort())
  serve(req, res, client.signal).catch((error) => {
    if (res.headersSent) res.destroy()
    else res.writeHead(error.status ?? 502).end(JSON.stringify({ error: error.message }))
  })
})
server.listen(Number(process.env.PORT ?? 8080), '127.0.0.1', () =>
  console.log(`listening on ${server.address().port}`),
)
