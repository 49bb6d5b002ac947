// A whole gateway around one scheduler: node examples/embed.mjs http://engine-1:8000 http://engine-2:8000
import { createServer } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { responseHeaders, Scheduler } from 'warmpath'

const scheduler = new Scheduler({ workers: process.argv.slice(2).map((url) => ({ url })) })

async function serve(req, res, signal) {
  const { url: path, method, headers } = req
  const turn = await scheduler.submit({ path, method, headers, raw: await buffer(req), signal })
  try {
    const response = turn.observe(await fetch(turn.url, turn.init))
    res.writeHead(response.status, responseHeaders(response.headers).flat())
    await pipeline(response.body ?? [], res)
  } finally {
    turn[Symbol.dispose]()
  }
}

const server = createServer((req, res) => {
  const client = new AbortController()
  res.on('close', () => client.abort())
  serve(req, res, client.signal).catch((error) => {
    if (res.headersSent) res.destroy()
    else res.writeHead(error.status ?? 502).end(JSON.stringify({ error: error.message }))
  })
})
server.listen(process.env.PORT ?? 8080, () => console.log(`listening on ${server.address().port}`))
