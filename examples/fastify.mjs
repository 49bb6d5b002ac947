// Fastify: node examples/fastify.mjs http://engine-1:8000 http://engine-2:8000
import { Readable } from 'node:stream'
import fastify from 'fastify'
import { responseHeaders, Scheduler } from 'warmpath'

const scheduler = new Scheduler({ workers: process.argv.slice(2).map((url) => ({ url })) })
const app = fastify({ bodyLimit: 64 * 1024 * 1024 })

// The body as it came, so that it can be sent on as it came.
app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
app.removeContentTypeParser('application/json')
app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) =>
  done(null, body),
)

app.post('/v1/*', async (request, reply) => {
  const client = new AbortController()
  reply.raw.once('close', () => client.abort())
  const { url: path, headers, body: raw } = request
  const turn = await scheduler.submit({ path, headers, raw, signal: client.signal })
  try {
    const answer = turn.observe(await fetch(turn.url, turn.init))
    reply.code(answer.status)
    for (const [name, value] of responseHeaders(answer.headers)) reply.header(name, value)
    return reply.send(answer.body === null ? null : Readable.fromWeb(answer.body))
  } catch (error) {
    turn.fail(error)
    throw error
  }
})

app.setErrorHandler((error, _request, reply) => {
  reply.code(error.status ?? error.statusCode ?? 502).send({ error: { message: error.message } })
})
app.addHook('onClose', async () => scheduler.close())

const address = await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT ?? 8080) })
console.log(`listening on ${new URL(address).port}`)
