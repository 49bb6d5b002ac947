/** Siblings that wait for the first of them, in front of engines that count what they compute. */
import test, { type ExecutionContext } from 'ava'
import { type Hold, Scheduler, type SchedulerOptions } from '../src/index.js'
import type { EngineDouble } from '../src/testing/index.js'
import { startDouble } from './gateway-support.js'
import { CHAT, chat, fleet } from './support/requests.js'

const SIBLINGS = 8
/** Some 20,000 tokens. */
const SHARED = 'What all of them have to read before they begin. '.repeat(2_000)

function asked(n: number) {
  return {
    path: CHAT,
    headers: { 'x-session-id': `child-${n}`, 'content-type': 'application/json' },
    body: {
      model: 'm',
      stream: true,
      messages: [
        { role: 'system', content: SHARED },
        { role: 'user', content: `Part ${n}, please.` },
      ],
    },
  }
}

/** Lets all siblings run at once; prompt tokens that the engines have computed. */
async function siblings(t: ExecutionContext, options: Partial<SchedulerOptions>) {
  const engines = await Promise.all(['a', 'b', 'c', 'd'].map((id) => startDouble(t, { id })))
  const workers = engines.map(({ url }, n) => ({ id: `w${n}`, url }))
  await using scheduler = new Scheduler({ workers, ...options })
  const children = Array.from({ length: SIBLINGS }, async (_, n) => {
    const turn = await scheduler.submit(asked(n))
    const answer = turn.observe(await fetch(turn.url, { ...turn.init, method: 'POST' }))
    t.is(answer.status, 200)
    await answer.text()
    return turn.receipt()
  })
  const receipts = await Promise.all(children)
  t.is(scheduler.status().reservations, 0)
  return { receipts, computed: engines.reduce((sum, each) => sum + computedBy(each), 0) }
}

function computedBy(engine: EngineDouble): number {
  const { queryTokens, hitTokens } = engine.status().engine
  return queryTokens - hitTokens
}

test('siblings that wait for the first one have its beginning computed once', async (t) => {
  const without = await siblings(t, {})
  t.true(without.receipts.every((receipt) => receipt?.followed === null))
  const waited = await siblings(t, { fanOut: true })
  const ends = waited.receipts.map((receipt) => receipt?.followed?.ended ?? null)
  t.deepEqual(ends.sort(), [...Array(SIBLINGS - 1).fill('read'), null].sort())
  t.true(waited.receipts.every((r) => !r?.followed || r.followed.tokens > 10_000))
  // On several engines it was computed on each.
  const once = waited.computed
  t.true(without.computed > 2 * once, `${without.computed} without, ${once} with`)
})

test('a leader that fails lets the next one lead, and everybody gets an answer', async (t) => {
  using f = fleet({ fanOut: { maxWaitSeconds: 30 } })
  const { scheduler } = f
  const leader = await scheduler.submit(chat('s0', SHARED))
  const holds: Hold[] = []
  const rest = [1, 2, 3].map((n) => {
    return scheduler.submit({ ...chat(`s${n}`, SHARED), onHold: (hold) => void holds.push(hold) })
  })
  await new Promise((resolve) => setImmediate(resolve))
  t.is(scheduler.status().holds, 3)
  t.deepEqual(
    holds.map((hold) => hold.position),
    [1, 2, 3],
  )
  leader.fail()
  const next = await Promise.race(rest)
  t.is(scheduler.status().holds, 2)
  t.is(next.receipt()?.followed?.ended, 'failed')
  next.firstToken()
  const turns = await Promise.all(rest)
  t.deepEqual(
    turns.map((turn) => turn.receipt()?.followed?.ended),
    ['failed', 'read', 'read'],
  )
  t.true(turns.every((turn) => turn.worker === next.worker))
  for (const turn of turns) turn.complete({})
  t.is(f.left(), 0)
})

test('the wait is bounded, and a client that leaves is not waited for', async (t) => {
  using f = fleet({ fanOut: { maxWaitSeconds: 5 } })
  const { scheduler } = f
  await scheduler.submit(chat('s0', SHARED))
  const gone = new AbortController()
  const left = scheduler.submit({ ...chat('s1', SHARED), signal: gone.signal })
  const late = scheduler.submit(chat('s2', SHARED))
  gone.abort()
  await t.throwsAsync(left, { code: 'WARMPATH_ABORTED' })
  f.pass(5_000)
  const turn = await late
  t.is(turn.heldMs, 5_000)
  t.is(turn.receipt()?.followed?.ended, 'late')
})
