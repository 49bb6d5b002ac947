/** One name for a session wherever it is shown, and it ends by that name, of its tenant only. */
import test from 'ava'

import type { TurnRequest } from '../src/index.js'
import { gatewayOver } from './gateway-support.js'
import { send } from './support/http-client.js'
import { answering, startWorker } from './support/http-worker.js'
import { CHAT, chat, fleet } from './support/requests.js'
import { API } from './support/wire-apis.js'

const unnamed: TurnRequest = {
  path: CHAT,
  body: { model: 'm', messages: [{ role: 'user', content: 'hello' }] },
}
const key = { authorization: 'Bearer key' }
const named: TurnRequest = { ...chat('s'), headers: { 'x-session-id': 's', ...key } }

for (const [what, request, name] of [
  ['a session with a name and a tenant', named, /^s$/],
  ['a session without a name', unnamed, /^prompt-[0-9a-f]{16}$/],
  ['a session of a tenant without a name', { ...unnamed, headers: key }, /^prompt-[0-9a-f]{16}$/],
] as const) {
  test(`${what} has one name, and ends by it`, async (t) => {
    using f = fleet()
    const sessions = () => f.scheduler.status().sessions
    const turn = await f.scheduler.submit(request)
    t.regex(turn.session, name)
    t.is(turn.receipt()?.session, turn.session)
    t.is(turn.tenant, f.scheduler.tenantOf(request.headers ?? {}))
    turn.complete()
    t.is(sessions(), 1)
    f.scheduler.endSession(turn.session, 'another tenant')
    f.scheduler.endSession('prompt-0123456789abcdef', turn.tenant)
    t.is(sessions(), 1)
    f.scheduler.endSession(turn.session, turn.tenant)
    t.is(sessions(), 0)
    const next = await f.scheduler.submit(request)
    next.complete()
    t.regex(next.session, name)
    f.scheduler.endSession(next)
    f.scheduler.endSession(next)
    t.is(sessions(), 0)
  })
}

test('the same prompt of two tenants is two sessions', async (t) => {
  using f = fleet()
  const mine = await f.scheduler.submit({ ...unnamed, headers: key })
  const other = await f.scheduler.submit(unnamed)
  t.not(mine.session, other.session)
  mine.complete()
  other.complete()
  f.scheduler.endSession(mine.session)
  t.is(f.scheduler.status().sessions, 2)
  f.scheduler.endSession(mine)
  t.is(f.scheduler.status().sessions, 1)
})

test('a client ends its session at the gateway by the name that its answers tell', async (t) => {
  const worker = await startWorker(t, answering())
  const gateway = await gatewayOver(t, [worker])
  const sessions = () => gateway.scheduler.status().sessions
  const { path, request } = API['openai-chat']
  for (const headers of [key, { ...key, 'x-session-id': 's 1/2' }, {}]) {
    const answer = await send(gateway.url + path, { headers, body: request })
    const shown = String(answer.headers['x-warmpath-session'])
    const own = 'x-session-id' in headers ? encodeURIComponent('s 1/2') : shown
    const receipt = await send(`${gateway.url}/receipts/${answer.headers['x-warmpath-receipt']}`)
    t.is(encodeURIComponent(JSON.parse(receipt.body).session), own)
    t.is(sessions(), 1)
    const end = (id: string, by: Record<string, string>) =>
      send(`${gateway.url}/sessions/${id}`, { method: 'DELETE', headers: by })
    for (const [id, by] of [
      [own, { authorization: 'Bearer other' }],
      ['another', headers],
      ['prompt-0123456789abcdef', headers],
    ] as const) {
      t.is((await end(id, by)).status, 204)
      t.is(sessions(), 1)
    }
    for (const _ of ['once', 'again']) {
      const ended = await end(own, headers)
      t.deepEqual([ended.status, ended.body], [204, ''])
      t.is(sessions(), 0)
    }
  }
  const other = await send(`${gateway.url}/sessions/s`, { method: 'GET' })
  t.deepEqual([other.status, other.headers.allow], [405, 'DELETE'])
  t.is((await send(`${gateway.url}/sessions/%zz`, { method: 'DELETE' })).status, 400)
})
