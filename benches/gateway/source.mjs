/**
 * A worker that streams: each answer is `tokens` events, one write each, `perSecond` of them, looked at
 * every `tickMs`; tells its address to its parent. The streams of one wake-up are those that are due, so they do not come in one
 * burst. Each event carries the time at which it was written (monotonic, nanoseconds, the same clock in
 * all processes of a machine). A request of the Chat Completions API may ask for `times` as many
 * events. What a client does not take is not written; any message of the parent is answered with
 * how many streams wait for that and how many there are.
 */
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'

const [tokens, perSecond, tickMs = 1] = process.argv.slice(2).map(Number)
const TEXT = ' word'

const chunk = (id, model, rest) =>
  `data: ${JSON.stringify({ id, object: 'chat.completion.chunk', created: 0, model, ...rest })}\n\n`
const event = (type, data) => `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`

/** What a stream of each wire API consists of; `at` is the time that an event carries. */
const APIS = {
  '/v1/chat/completions': {
    open: () => chunk('c', 'm', { choices: [choice({ role: 'assistant', content: '' })] }),
    token: (at, _, { times = 1 }) =>
      chunk('c', 'm', { choices: [choice({ content: TEXT })], at }).repeat(times),
    close: (body) => {
      const usage = { prompt_tokens: 20, completion_tokens: tokens, total_tokens: 20 + tokens }
      const asked = body.stream_options?.include_usage === true
      const last = chunk('c', 'm', { choices: [choice({}, 'stop')] })
      return `${last}${asked ? chunk('c', 'm', { choices: [], usage }) : ''}data: [DONE]\n\n`
    },
  },
  '/v1/messages': {
    open: () =>
      event('message_start', {
        message: { id: 'm', role: 'assistant', usage: { input_tokens: 20 } },
      }) + event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
    token: (at) =>
      event('content_block_delta', { index: 0, delta: { type: 'text_delta', text: TEXT }, at }),
    close: () =>
      event('content_block_stop', { index: 0 }) +
      event('message_delta', {
        delta: { stop_reason: 'end_turn', stop_sequence: null },
        usage: { output_tokens: tokens },
      }) +
      event('message_stop', {}),
  },
  '/v1/responses': {
    open: () =>
      event('response.created', { sequence_number: 0, response: response('in_progress') }),
    token: (at, number) =>
      event('response.output_text.delta', {
        sequence_number: number + 1,
        item_id: 'msg_r',
        output_index: 0,
        content_index: 0,
        delta: TEXT,
        at,
      }),
    close: () =>
      event('response.completed', {
        sequence_number: tokens + 1,
        response: {
          ...response('completed'),
          usage: { input_tokens: 20, output_tokens: tokens, total_tokens: 20 + tokens },
        },
      }),
  },
}

function choice(delta, finish_reason = null) {
  return { index: 0, delta, logprobs: null, finish_reason }
}

function response(status) {
  return { id: 'resp_r', object: 'response', status, model: 'm', output: [] }
}

const streams = new Set()
let last = performance.now()

function tick() {
  const now = performance.now()
  for (const stream of streams) {
    stream.owed += ((now - last) * perSecond) / 1000
    while (stream.owed >= 1 && streams.has(stream) && !stream.res.writableNeedDrain) advance(stream)
  }
  last = now
}

function advance(stream) {
  const { res, api, body } = stream
  stream.owed -= 1
  res.write(api.token(String(process.hrtime.bigint()), stream.sent, body))
  stream.sent += 1
  if (stream.sent < tokens) return
  streams.delete(stream)
  res.end(api.close(body))
}

setInterval(tick, tickMs)

const server = createServer({ keepAliveTimeout: 600_000 }, async (req, res) => {
  const api = APIS[req.url.split('?')[0]]
  if (api === undefined) return look(res, req.url)
  const body = JSON.parse(await text(req))
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  res.write(api.open())
  // A phase of its own, so that streams that begin together do not stay together.
  const stream = { res, api, body, sent: 0, owed: Math.random() }
  res.once('close', () => streams.delete(stream))
  streams.add(stream)
})

function look(res, path) {
  res.writeHead(200, { 'content-type': 'application/json' })
  const models = { object: 'list', data: [{ id: 'm', object: 'model', owned_by: 'bench' }] }
  res.end(path === '/v1/models' ? JSON.stringify(models) : '{"model_path":"m","model_id":"m"}')
}

server.listen(0, '127.0.0.1', () => process.send(`http://127.0.0.1:${server.address().port}`))
process.on('message', () => {
  const waiting = [...streams].filter(({ res }) => res.writableNeedDrain)
  process.send({ waiting: waiting.length, streams: streams.size })
})
process.on('disconnect', () => process.exit())
