/** What is scraped is what happened. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { Registry } from 'prom-client'
import { metricsText, registerMetrics, type Turn, WarmpathError } from '../src/index.js'
import { gatewayOver } from './gateway-support.js'
import { send } from './support/http-client.js'
import { answering, startWorker } from './support/http-worker.js'
import { chat, crowdedTurn, fleet, settled } from './support/requests.js'
import { API } from './support/wire-apis.js'

/** Values by name and labels, as they stand in the text. */
function read(text: string): Map<string, number> {
  const rows = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(
    rows.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]),
  )
}

/** A generator of numbers below `n` that follow from a seed. */
function random(seed: number): (n: number) => number {
  let state = seed
  return (n) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    return (state >>> 8) % n
  }
}

test('what is scraped under load is what happened', async (t) => {
  const f = fleet({
    workers: ['a', 'b'].map((id) => ({ id, url: `http://${id}`, capacityTokens: 9_000 })),
    admission: { policy: 'lease', maxRunning: 3 },
  })
  const draw = random(7)
  const running: Turn[] = []
  /** Those that wait, by what withdraws them. */
  const pending = new Map<AbortController, number>()
  const did = { submitted: 0, completed: 0, cancelled: 0, failed: 0, heldMs: 0, tokens: 0 }
  let now = 0
  for (let step = 0; step < 600; step += 1) {
    const what = draw(10)
    if (what < 5) {
      const abort = new AbortController()
      did.submitted += 1
      pending.set(abort, now)
      f.scheduler.submit(crowdedTurn(`s${draw(9)}`, { signal: abort.signal })).then(
        (turn) => {
          pending.delete(abort)
          running.push(turn)
          did.tokens += turn.promptTokens
          did.heldMs += turn.heldMs
        },
        () => {
          did.cancelled += 1
        },
      )
    } else if (what === 5) {
      const [one] = pending
      if (one === undefined) continue
      pending.delete(one[0])
      one[0].abort()
      did.heldMs += now - one[1]
    } else {
      const [turn] = running.splice(draw(running.length || 1), 1)
      if (turn === undefined) continue
      if (what === 9) {
        turn.fail()
        did.failed += 1
      } else {
        turn.complete({ promptTokens: 900, cachedTokens: 100, completionTokens: 9 })
        did.completed += 1
      }
    }
    const ms = draw(900)
    now += ms
    f.pass(ms)
    await settled()
    if (step % 50 === 0) {
      const status = f.scheduler.status()
      const seen = read(metricsText(f.scheduler.metrics()))
      t.is(seen.get('warmpath_turns{state="held"}'), status.holds)
      t.is(seen.get('warmpath_turns{state="running"}'), status.reservations - status.holds)
      t.is(seen.get('warmpath_turns{state="running"}'), running.length)
    }
  }
  const seen = read(metricsText(f.scheduler.metrics()))
  const status = f.scheduler.status()
  const of = (name: string) => seen.get(`warmpath_${name}`) ?? Number.NaN
  t.is(of('turns_submitted_total'), did.submitted)
  t.is(of('turns_ended_total{outcome="completed"}'), did.completed)
  t.is(of('turns_ended_total{outcome="failed"}'), did.failed)
  t.is(of('turns_ended_total{outcome="cancelled"}'), did.cancelled)
  t.is(of('holds_ended_total{outcome="cancelled"}'), did.cancelled)
  t.is(status.holds, pending.size)
  t.is(of('prompt_tokens_total'), did.tokens)
  t.is(of('reported_tokens_total{kind="prompt"}'), 900 * did.completed)
  t.is(of('reported_tokens_total{kind="cached"}'), 100 * did.completed)
  t.is(of('reported_tokens_total{kind="completion"}'), 9 * did.completed)
  t.is(of('sessions{phase="reasoning"}') + of('sessions{phase="acting"}'), status.sessions)
  const ended = [...seen].filter(([name]) => name.startsWith('warmpath_holds_ended_total'))
  const ends = ended.reduce((sum, [, value]) => sum + value, 0)
  t.is(ends, status.counters.held - status.holds)
  t.true(ends > 50, `${ends} holds`)
  t.is(of('hold_seconds_count'), ends)
  t.is(of('hold_seconds_bucket{le="+Inf"}'), ends)
  t.is(Math.round(of('hold_seconds_sum') * 1000), Math.round(did.heldMs))
  const buckets = [...seen].filter(([name]) => name.startsWith('warmpath_hold_seconds_bucket'))
  t.deepEqual(
    buckets.map(([, value]) => value),
    buckets.map(([, value]) => value).sort((a, b) => a - b),
  )
  // Who waited twice, at the gates and for room, waited for two reasons.
  const holds = [...seen].filter(([name]) => name.startsWith('warmpath_holds_total'))
  t.true(holds.reduce((sum, [, value]) => sum + value, 0) >= status.counters.held)
  t.true(of('session_moves_bucket{le="+Inf"}') >= of('session_moves_bucket{le="0"}'))
  f.scheduler.close()
})

test('pauses, moves, reroutes and withdrawn turns are counted once each', async (t) => {
  using f = fleet()
  const first = await f.scheduler.submit(chat('s'))
  const was = first.worker
  t.true(first.next())
  first.complete({ promptTokens: 10 })
  f.scheduler.setHealth(first.worker, 'down')
  const second = await f.scheduler.submit(chat('s', 'hello again'))
  t.is(second.worker, was)
  second[Symbol.dispose]()
  const seen = read(metricsText(f.scheduler.metrics()))
  t.is(seen.get('warmpath_reroutes_total'), 1)
  t.is(seen.get('warmpath_turns_ended_total{outcome="cancelled"}'), 1)
  t.is(seen.get('warmpath_session_moves_sum'), 2)
  t.is(seen.get('warmpath_session_moves_bucket{le="1"}'), 0)
  t.is(seen.get('warmpath_session_moves_bucket{le="3"}'), 1)
  const up = (id: string) => seen.get(`warmpath_worker_up{worker="${id}"}`) ?? Number.NaN
  t.is(up('a') + up('b'), 1)
})

test('a registry of prom-client has them, and tells the same', async (t) => {
  using f = fleet({ workers: [{ id: 'a"\\', url: 'http://a', capacityTokens: 5 }] })
  const registry = new Registry()
  registerMetrics(registry, f.scheduler)
  t.throws(() => registerMetrics(registry, f.scheduler))
  const turn = await f.scheduler.submit(chat('s'))
  const plain = (text: string) =>
    text
      .split('\n')
      .filter((line) => line !== '')
      .sort()
  t.deepEqual(plain(await registry.metrics()), plain(metricsText(f.scheduler.metrics())))
  turn.complete({ promptTokens: 5 })
  await settled()
  const seen = read(await registry.metrics())
  t.is(seen.get('warmpath_turns_ended_total{outcome="completed"}'), 1)
})

test('/metrics of the gateway names no session and no tenant', async (t) => {
  const worker = await startWorker(t, answering())
  const gateway = await gatewayOver(t, [worker])
  const { path, request } = API['openai-chat']
  const headers = { 'x-session-id': 'secret-session', authorization: 'Bearer secret-key' }
  await send(gateway.url + path, { body: request, headers })
  const { status, body, headers: about } = await send(`${gateway.url}/metrics`)
  t.is(status, 200)
  t.is(about['content-type'], 'text/plain; version=0.0.4; charset=utf-8')
  t.is(read(body).get('warmpath_turns_submitted_total'), 1)
  t.notRegex(body, /secret/)
  t.is((await send(`${gateway.url}/metrics`, { method: 'POST' })).status, 405)
})

test('the page has every metric with its type and its help', (t) => {
  using f = fleet()
  const page = readFileSync(join(__dirname, '../docs/metrics.md'), 'utf8')
  const rows = page.split('\n').filter((line) => line.startsWith('| `warmpath_'))
  const cells = rows.map((row) => row.split('|').map((cell) => cell.trim()))
  t.deepEqual(
    cells.map(([, name, type, , help]) => [name?.replaceAll('`', ''), type, help]),
    f.scheduler.metrics().map(({ name, type, help }) => [name, type, help]),
  )
})

test('what is no registry, no scheduler and no list is refused by name', (t) => {
  const f = fleet({ workers: [{ id: 'a', url: 'http://a' }] })
  const registry = new Registry()
  for (const [call, field] of [
    [() => registerMetrics({} as Registry, f.scheduler), 'registry'],
    [() => registerMetrics(null as unknown as Registry, f.scheduler), 'registry'],
    [() => registerMetrics(registry, {} as typeof f.scheduler), 'scheduler'],
    [() => metricsText(5 as unknown as []), 'families'],
  ] as const) {
    const error = t.throws(call, { instanceOf: WarmpathError, code: 'WARMPATH_INVALID_ARGUMENT' })
    t.is(error?.detail?.field, field)
  }
  f.scheduler.close()
})

test('each worker has one trust, and events only where its engine tells some', (t) => {
  const f = fleet({
    workers: [
      { id: 'a', url: 'http://a' },
      { id: 'b', url: 'http://b', kvEvents: 'tcp://127.0.0.1:9' },
    ],
  })
  const seen = read(metricsText(f.scheduler.metrics()))
  for (const { id, evidence } of f.scheduler.status().workers) {
    const found = ['none', 'predicted', 'degraded', 'exact'].filter(
      (trust) => seen.get(`warmpath_worker_trust{worker="${id}",trust="${trust}"}`) === 1,
    )
    t.deepEqual(found, [evidence.trust])
  }
  t.is(seen.get('warmpath_event_gaps_total{worker="b"}'), 0)
  t.is(seen.get('warmpath_worker_disagreement{worker="b"}'), 0)
  t.false(seen.has('warmpath_event_gaps_total{worker="a"}'))
  f.scheduler.close()
})
