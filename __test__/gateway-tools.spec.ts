/**
 * Tools that a harness tells the gateway of. One worker with room for two of three large sessions: an idle
 * one keeps its room while its lease runs, so the third is held unless somebody says that the tool of the
 * first will take too long to wait for.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { Scheduler } from '../src/index.js'
import { openGateway } from './gateway-support.js'
import { type Sent, send } from './support/http-client.js'
import { json, startWorker } from './support/http-worker.js'
import { settled } from './support/requests.js'
import { API } from './support/wire-apis.js'

const { path, request, answer } = API['anthropic-messages']
const OWN = { authorization: 'Bearer of-the-harness' }
const TOKENS = 25_600

function large(session: string, headers: Record<string, string>) {
  const content = `${session} ${'word '.repeat(20_000)}`
  return {
    headers: { ...OWN, ...headers },
    body: { ...request, messages: [{ role: 'user', content }] },
  }
}

/** Whether a new session is held after `told` was sent to the gateway, and what that was answered. */
async function crowded(
  t: ExecutionContext,
  named: Record<string, string>,
  [event, told]: readonly [string, Sent],
) {
  const usage = { input_tokens: TOKENS, output_tokens: 1 }
  const worker = await startWorker(t, (_, res) => json(res, 200, { ...answer, usage }))
  const scheduler = new Scheduler({
    workers: [{ id: 'w0', url: worker.url, capacityTokens: 60_000 }],
    admission: { policy: 'lease' },
    clock: () => 1_700_000_000_000,
  })
  const gateway = await openGateway(t, { scheduler })
  t.is((await send(gateway.url + path, large('idle', named))).status, 200)
  const running = await scheduler.submit({
    path,
    ...large('running', { 'x-session-id': 'running' }),
  })
  running.firstToken()
  const { status, body } = await send(`${gateway.url}/tools/${event}`, { method: 'POST', ...told })
  const wait = scheduler.submit({ path, ...large('new', { 'x-session-id': 'new' }) })
  await settled()
  const isHeld = scheduler.status().holds === 1
  scheduler.close()
  await wait.catch(() => undefined)
  return { isHeld, status, body }
}

const CLAUDE = { 'x-claude-code-session-id': 'main' }
const AGENT = { ...CLAUDE, 'x-claude-code-agent-id': 'sub' }
const LONG = 'started?expectedSeconds=900'
const HOOK = {
  session_id: 'main',
  transcript_path: '/t.jsonl',
  hook_event_name: 'PreToolUse',
  tool_name: 'Bash',
  tool_input: { command: 'make', session_id: 'not this one' },
}

type Case = [named: Record<string, string>, event: string, told: Sent, isHeld: boolean]

const CASES: Record<string, Case> = {
  'by the header of its turns': [CLAUDE, LONG, { headers: { ...OWN, ...CLAUDE } }, false],
  'by the body of a hook': [CLAUDE, LONG, { headers: OWN, body: HOOK }, false],
  'by the body of a hook in a subagent': [
    AGENT,
    LONG,
    { headers: OWN, body: { ...HOOK, agent_id: 'sub' } },
    false,
  ],
  'for its parent, which is another session': [AGENT, LONG, { headers: OWN, body: HOOK }, true],
  'with the name of a session of somebody else': [
    CLAUDE,
    LONG,
    { headers: CLAUDE, body: HOOK },
    true,
  ],
  'without saying for how long': [CLAUDE, 'started', { headers: OWN, body: HOOK }, true],
  'with a time that is short': [
    CLAUDE,
    'started?expectedSeconds=0.1',
    { headers: OWN, body: HOOK },
    true,
  ],
}

for (const [how, [named, event, told, held]] of Object.entries(CASES)) {
  test(`a tool that starts is told ${how}`, async (t) => {
    const { isHeld, status, body } = await crowded(t, named, [event, told])
    t.deepEqual({ isHeld, status, body }, { isHeld: held, status: 204, body: '' })
  })
}

/** A gateway, and what it tells its scheduler of tools. */
async function listening(t: ExecutionContext) {
  const scheduler = new Scheduler({ workers: [{ url: 'http://a' }] })
  t.teardown(() => scheduler.close())
  const told: unknown[] = []
  scheduler.toolStarted = (...given) => told.push(['started', ...given])
  scheduler.toolEnded = (...given) => told.push(['ended', ...given])
  const gateway = await openGateway(t, { scheduler })
  return { scheduler, gateway, told }
}

test('a tool that has ended keeps the room of its session again', async (t) => {
  const { isHeld, status } = await crowded(t, CLAUDE, ['ended', { headers: OWN, body: HOOK }])
  t.deepEqual({ isHeld, status }, { isHeld: true, status: 204 })
  const { gateway, told } = await listening(t)
  for (const event of ['started', LONG, 'ended']) {
    await send(`${gateway.url}/tools/${event}`, { body: HOOK })
  }
  const session = { session: 'main', tenant: '' }
  t.deepEqual(told, [
    ['started', session, {}],
    ['started', session, { expectedSeconds: 900 }],
    ['ended', session],
  ])
})

test('the hook of the guide tells the gateway what it is told', async (t) => {
  const guide = readFileSync(join(__dirname, '../docs/guides/admission.md'), 'utf8')
  const script = /```sh\n(#!\/bin\/sh\n# warmpath-hook.*?)```/s.exec(guide)?.[1] ?? ''
  const { scheduler, gateway, told } = await listening(t)
  const env = {
    ...process.env,
    ANTHROPIC_BASE_URL: gateway.url,
    ANTHROPIC_AUTH_TOKEN: 'of-the-harness',
  }
  const run = async (event: string) => {
    const child = spawn('sh', ['-c', script, 'warmpath-hook.sh', event], { env })
    child.stdin.end(JSON.stringify({ ...HOOK, agent_id: 'sub' }, null, 2))
    t.deepEqual(await once(child, 'exit'), [0, null])
  }
  await run('started')
  await run('ended')
  const session = { session: 'sub', tenant: scheduler.tenantOf(OWN) }
  t.deepEqual(told, [
    ['started', session, {}],
    ['ended', session],
  ])
  await gateway.close()
  await run('started')
})

test('what names no session or no time is refused by a code', async (t) => {
  const worker = await startWorker(t, (_, res) => json(res, 200, answer))
  const gateway = await openGateway(t, {
    scheduler: { workers: [{ url: worker.url }] },
    limits: { bodyBytes: 5_000 },
  })
  const named = { session_id: 's' }
  const refused: [told: Sent, status: number, code: string][] = [
    [{ method: 'POST' }, 400, 'WARMPATH_INVALID_ARGUMENT'],
    [{ body: {} }, 400, 'WARMPATH_INVALID_ARGUMENT'],
    [{ body: { session_id: { a: 1 } } }, 400, 'WARMPATH_INVALID_ARGUMENT'],
    ...[5, {}, [], true].map((agent_id): [Sent, number, string] => {
      return [{ body: { ...named, agent_id } }, 400, 'WARMPATH_INVALID_ARGUMENT']
    }),
    ...['text/plain', 'application/x-www-form-urlencoded', 'application/jsonp', ''].map(
      (type): [Sent, number, string] => {
        const headers = { 'content-type': type, origin: 'http://elsewhere' }
        return [{ headers, body: named }, 400, 'WARMPATH_INVALID_ARGUMENT']
      },
    ),
    [{ body: '{"session_id":' }, 400, 'WARMPATH_INVALID_BODY'],
    [{ body: '["s"]' }, 400, 'WARMPATH_INVALID_BODY'],
    [{ body: `${'['.repeat(2_000)}${']'.repeat(2_000)}` }, 400, 'WARMPATH_INVALID_BODY'],
    [{ body: { ...named, tool_input: 'x'.repeat(5_000) } }, 413, 'WARMPATH_BODY_TOO_LARGE'],
    [{ method: 'GET' }, 405, 'WARMPATH_UNSUPPORTED_PATH'],
  ]
  for (const [told, status, code] of refused) {
    const answered = await send(`${gateway.url}/tools/started`, told)
    const found = [answered.status, JSON.parse(answered.body).error.code]
    t.deepEqual(found, [status, code], JSON.stringify(told).slice(0, 100))
  }
  const queries = [
    ...['started?expectedSecond=9', 'started?expectedSeconds=9&expectedSeconds=1', 'started?x'],
    ...['ended?expectedSeconds=9', 'started?expectedSeconds=9&other=1'],
  ]
  for (const query of queries) {
    const { status, body } = await send(`${gateway.url}/tools/${query}`, { body: named })
    t.deepEqual([status, JSON.parse(body).error.code], [400, 'WARMPATH_INVALID_ARGUMENT'], query)
  }
  const odd = ['0x28', '4e1', '0b1', '1_0', '%2B4', '.5', '5.', '2000000000']
  for (const seconds of ['-1', 'soon', '', '%20', '1e10', 'Infinity', '40s', ...odd]) {
    const url = `${gateway.url}/tools/started?expectedSeconds=${seconds}`
    const answered = await send(url, { body: named })
    t.is(answered.status, 400, seconds)
    t.regex(JSON.parse(answered.body).error.message, /expectedSeconds/)
  }
  const lone = [{ agent_id: '' }, { agent_id: null }].map((agent) => ({ ...named, ...agent }))
  for (const body of [{ session_id: 'nobody' }, { session_id: 's'.repeat(600) }, ...lone]) {
    const headers = { 'content-type': 'Application/JSON; charset=utf-8' }
    for (const path of ['ended', 'ended/', 'started/?expectedSeconds=0.5']) {
      t.is((await send(`${gateway.url}/tools/${path}`, { headers, body })).status, 204, path)
    }
  }
  t.is((await send(`${gateway.url}/tools/paused`, { body: named })).status, 404)
})
