// Hono: a fetch handler is a route. node examples/hono.mjs http://engine-1:8000 http://engine-2:8000
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { handler } from './fetch-handler.mjs'

const handle = handler(process.argv.slice(2))
const app = new Hono()
app.post('/v1/*', (context) => handle(context.req.raw))

serve({ fetch: app.fetch, hostname: '127.0.0.1', port: Number(process.env.PORT ?? 8080) }, (info) =>
  console.log(`listening on ${info.port}`),
)
