/** What a provider stores for one tenant is not another's, although both are one account there. */
import { gzipSync } from 'node:zlib'
import test, { type ExecutionContext } from 'ava'
import { Scheduler, type SchedulerOptions } from '../src/index.js'
import { openGateway } from './gateway-support.js'
import { send } from './support/http-client.js'
import { json, startWorker } from './support/http-worker.js'

const worker = (id: string) => ({ id, url: `http://${id}.invalid` })

function open(t: ExecutionContext, options: Partial<SchedulerOptions> = {}): Scheduler {
  const scheduler = new Scheduler({ workers: [worker('a')], ...options })
  t.teardown(() => scheduler.close())
  return scheduler
}

const asked = (key: string, body: object, path = '/v1/responses') => ({
  path,
  headers: { authorization: `Bearer ${key}` },
  body: { model: 'm', input: 'Hi.', ...body },
})

const STORED: [state: string, body: object, path?: string][] = [
  ['response:r1', { previous_response_id: 'r1' }],
  ['conversation:c1', { conversation: 'c1' }],
  ['conversation:c1', { conversation: { id: 'c1' } }],
  ['item:i1', { input: [{ type: 'item_reference', id: 'i1' }] }],
  ['item:i1', { input: [{ type: 'item_reference', id: 'i1', output: 'x' }] }],
  ['item:i1', { input: [{ id: 'i1', content: '' }] }],
  ['item:i1', { input: [{ id: 'i1' }] }],
  ['item:i1', { input: [{ type: null, id: 'i1' }] }],
  ['item:i1', { input: [{ type: 'reasoning', id: 'i1', summary: [] }] }],
  ['item:i1', { input: [{ type: 'image_generation_call', id: 'i1', result: null }] }],
  ['item:i1', { input: [{ type: 'message', role: 'assistant', id: 'i1' }] }],
  ['container:k1', { tools: [{ type: 'code_interpreter', container: 'k1' }] }],
  [
    'container:k1',
    { input: [{ type: 'code_interpreter_call', id: 'c', code: 'x', container_id: 'k1' }] },
  ],
  [
    'container:k1',
    {
      tools: [{ type: 'shell', environment: { type: 'container_reference', container_id: 'k1' } }],
    },
  ],
  [
    'container:k1',
    { container: 'k1', max_tokens: 5, messages: [{ role: 'user', content: 'Hi.' }] },
    '/v1/messages',
  ],
]

for (const [state, body, path] of STORED) {
  test(`only who was given it may lean on it: ${JSON.stringify(body)}`, async (t) => {
    const scheduler = open(t)
    const first = await scheduler.submit(asked('one', {}, path && '/v1/responses'))
    first.complete({}, { state: [state] })
    const own = await scheduler.submit(asked('one', body, path))
    t.is(own.worker, 'a')
    own.complete()
    const error = await t.throwsAsync(scheduler.submit(asked('two', body, path)), {
      code: 'WARMPATH_UNKNOWN_ID',
      message: new RegExp(state),
    })
    t.is((error as { status?: number }).status, 404)
    t.is(scheduler.status().reservations, 0)
  })
}

for (const [path, body] of [
  ['/v1/responses/input_tokens', { previous_response_id: 'r1', input: 'Hi.' }],
  ['/v1/messages/count_tokens', { container: 'k1', messages: [] }],
] as const) {
  test(`nor may its tokens be counted for somebody else: ${path}`, async (t) => {
    const worker = await startWorker(t, (_, res) => json(res, 200, { input_tokens: 5 }))
    const gateway = await openGateway(t, {
      scheduler: {
        workers: [{ id: 'a', url: worker.url }],
        targets: { m: { workers: ['a'], credential: 'own' } },
      },
    })
    const turn = await gateway.scheduler.submit(asked('one', { model: 'm' }))
    turn.complete({}, { state: ['response:r1', 'container:k1'] })
    const count = async (key: string) => {
      const headers = { authorization: `Bearer ${key}` }
      return (await send(gateway.url + path, { headers, body: { model: 'm', ...body } })).status
    }
    t.deepEqual([await count('one'), await count('two')], [200, 404])
  })
}

test('where all clients are one account it passes, and where each has its own', async (t) => {
  const body = { previous_response_id: 'unheard-of' }
  const one = open(t, { identity: { unknownState: 'pass' } })
  const passed = await one.submit(asked('two', body))
  passed.complete()
  const own = open(t, {
    targets: { m: { provider: 'openai', credential: 'pass-through' } },
    workers: [],
  })
  const turn = await own.submit(asked('two', body))
  t.is(turn.target, 'm')
  turn.complete()
})

test('sealed reasoning and files stand in the request: they are nobody else’s', async (t) => {
  const scheduler = open(t)
  const body = {
    input: [
      { role: 'user', content: [{ type: 'input_file', file_id: 'f1' }] },
      { type: 'reasoning', id: 'rs_1', encrypted_content: 'sealed', summary: [] },
      { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c', output: 'x' },
    ],
  }
  const turn = await scheduler.submit(asked('two', body))
  turn.complete()
  t.pass()
})

test('a header may name the tenant', async (t) => {
  const scheduler = open(t, { identity: { tenant: 'X-Team' } })
  t.is(scheduler.tenantOf({ 'x-team': 'red', authorization: 'Bearer k' }), 'red')
  // Where it is missing, nobody is taken for somebody else.
  const alone = ['k', 'l'].map((key) => scheduler.tenantOf({ authorization: `Bearer ${key}` }))
  t.is(new Set(['', 'red', ...alone]).size, 4)
  for (const [identity, message] of [
    [{ tenant: 'no header' }, /^identity\.tenant: must be a header name/],
    [{ tenant: 'x-auth-token' }, /^identity\.tenant: must be a header that is no credential/],
    [{ tenant: 'X-Api-Key' }, /^identity\.tenant: must be a header that is no credential/],
    [{ tenant: 5 }, /^identity\.tenant: must be a function/],
    [{ unknownState: 'ask' }, /^identity\.unknownState: must be one of refuse, pass/],
  ] as const) {
    t.throws(() => open(t, { identity } as never), { code: 'WARMPATH_CONFIG', message })
  }
})

test('a header that names the tenant does not stand in the way of a reload', (t) => {
  const options = { workers: [worker('a')], identity: { tenant: 'x-team' } }
  const scheduler = open(t, options)
  t.deepEqual(scheduler.reconfigure({ ...options }).workersAdded, [])
  t.throws(() => scheduler.reconfigure({ workers: [worker('a')] }), { message: /^identity has/ })
})

test('a count under another form of the same body is under the same guard', async (t) => {
  const worker = await startWorker(t, (_, res) => json(res, 200, { input_tokens: 5 }))
  const gateway = await openGateway(t, {
    scheduler: {
      workers: [{ id: 'a', url: worker.url }],
      targets: { m: { workers: ['a'], credential: 'own' } },
    },
  })
  const text = '{"model":"m","previous_response_id":"of-another","input":"Hi."}'
  const twice = text
    .replace('{', '{"previous_response_id":"of-another",')
    .replace('"of-another",', 'null,')
  for (const [body, more] of [
    [gzipSync(text), { 'content-encoding': 'gzip' }],
    [` \n${text}`, {}],
    [`\ufeff${text}`, {}],
    [twice, {}],
  ] as const) {
    const headers = { authorization: 'Bearer two', 'content-type': 'application/json', ...more }
    const { status } = await send(`${gateway.url}/v1/responses/input_tokens`, { headers, body })
    t.is(status, 404)
  }
  t.is(worker.received.length, 0)
})

test('a key among the worker’s headers is ours, also where the target passes the client’s on', async (t) => {
  const scheduler = open(t, {
    workers: [{ ...worker('a'), headers: { 'x-litellm-api-key': 'ours' } }],
    targets: { m: { workers: ['a'], credential: 'pass-through' } },
  })
  await t.throwsAsync(scheduler.submit(asked('two', { previous_response_id: 'r' })), {
    code: 'WARMPATH_UNKNOWN_ID',
  })
})

test('what is being made in the background is its tenant’s before it has ended', async (t) => {
  const answer = { id: 'r1', object: 'response', status: 'queued', background: true, output: [] }
  const worker = await startWorker(t, (_, res) => json(res, 200, answer))
  const gateway = await openGateway(t, { scheduler: { workers: [{ id: 'a', url: worker.url }] } })
  const headers = { authorization: 'Bearer one' }
  await send(`${gateway.url}/v1/responses`, {
    headers,
    body: { model: 'm', input: 'Hi.', background: true },
  })
  const get = (key: string) =>
    send(`${gateway.url}/v1/responses/r1`, { headers: { authorization: `Bearer ${key}` } })
  t.deepEqual([(await get('one')).status, (await get('two')).status], [200, 404])
})
