/** Sessions that stay on their worker, and workers that give theirs away. */
import test from 'ava'
import {
  type ErrorCode,
  type Scheduler,
  type SchedulerOptions,
  WarmpathError,
} from '../src/index.js'
import { chat, fleet } from './support/requests.js'

const LONG = 'the same words over and over '.repeat(400)

const ANSWERED = {
  messages: [
    { role: 'user', content: LONG },
    { role: 'assistant', content: null, tool_calls: [call('call_1')] },
    { role: 'tool', tool_call_id: 'call_1', content: 'done' },
  ],
}

function call(id: string) {
  return { id, type: 'function', function: { name: 'f', arguments: '{}' } }
}

/** One turn from its submit to its end: where it went, and what affinity said. */
async function round(scheduler: Scheduler, session: string, text = LONG, extra: object = {}) {
  const turn = await scheduler.submit(chat(session, text, extra))
  const { affinity, candidates } = turn.receipt() ?? {}
  turn.complete({})
  return { worker: turn.worker, affinity, candidates }
}

const other = (worker: string) => (worker === 'a' ? 'b' : 'a')

function moved(scheduler: Scheduler, id: string) {
  return scheduler.status().workers.find((worker) => worker.id === id)?.leaving
}

test('a hard home takes its session back after an outage, and its receipt says why', async (t) => {
  using f = fleet({ sessionAffinity: { mode: 'hard' } })
  const { worker: home, affinity } = await round(f.scheduler, 's')
  t.is(affinity, null)
  f.scheduler.setHealth(home, 'down')
  const away = await round(f.scheduler, 's')
  t.is(away.worker, other(home))
  t.deepEqual(away.affinity, { worker: home, tie: 'own', came: 'detour' })
  f.scheduler.setHealth(home, 'up')
  const back = await round(f.scheduler, 's')
  t.is(back.worker, home)
  t.deepEqual(back.affinity, { worker: home, tie: 'own', came: 'stayed' })
})

test('a soft credit is in the rows, bounded, and nobody is credited without', async (t) => {
  for (const [options, most] of [
    [{ mode: 'soft', creditTokens: 300 }, 300],
    [{ mode: 'soft', creditTokens: 0 }, 0],
    [{}, 0],
  ] as const) {
    using f = fleet({ sessionAffinity: options })
    await round(f.scheduler, 's')
    const { candidates } = await round(f.scheduler, 's')
    t.deepEqual(
      candidates?.map((row) => row.affinityTokens).sort((a, b) => a - b),
      [0, most],
    )
  }
})

test('a worker that drains by a deadline keeps what is open, then nothing', async (t) => {
  using f = fleet()
  const turn = await f.scheduler.submit(chat('s', LONG))
  turn.complete({}, { toolCalls: ['call_1'] })
  const home = turn.worker
  f.scheduler.drainWorker(home, { deadlineSeconds: 60 })
  t.is((await round(f.scheduler, 'new', 'another')).worker, other(home))
  t.is((await round(f.scheduler, 's', '', ANSWERED)).worker, home)
  t.is(moved(f.scheduler, home)?.moved, 0)
  t.is((await round(f.scheduler, 's')).worker, other(home))
  t.is(moved(f.scheduler, home)?.moved, 1)
  f.pass(61_000)
  const status = f.scheduler.status().workers.find((worker) => worker.id === home)
  t.deepEqual([status?.health, status?.leaving], ['draining', null])
})

test('a worker sheds as many sessions as it is told to', async (t) => {
  using f = fleet({ sessionAffinity: { mode: 'hard' } })
  const homes = new Map<string, string>()
  for (let n = 0; n < 12; n += 1) {
    homes.set(`s${n}`, (await round(f.scheduler, `s${n}`, `${n} ${LONG}`)).worker)
  }
  const here = [...homes].filter(([, worker]) => worker === 'a').map(([session]) => session)
  t.true(here.length > 3)
  f.scheduler.shedSessions('a', { sessions: 2 })
  t.like(moved(f.scheduler, 'a'), { sessions: 2, moved: 0 })
  const went: string[] = []
  for (const session of here) {
    const text = `${session.slice(1)} ${LONG}`
    went.push((await round(f.scheduler, session, text)).worker)
  }
  t.is(went.filter((worker) => worker === 'b').length, 2)
  t.is(moved(f.scheduler, 'a'), null)
})

const refused: [string, (scheduler: Scheduler) => void, ErrorCode][] = [
  ['an unknown worker', (s) => s.drainWorker('z', { deadlineSeconds: 1 }), 'WARMPATH_UNKNOWN_ID'],
  ['no time', (s) => s.drainWorker('a', { deadlineSeconds: -1 }), 'WARMPATH_INVALID_ARGUMENT'],
  [
    'a field that nobody knows',
    (s) => s.drainWorker('a', { deadline: 600 } as object),
    'WARMPATH_INVALID_ARGUMENT',
  ],
  [
    'no number',
    (s) => s.drainWorker('a', { deadlineSeconds: Number.NaN }),
    'WARMPATH_INVALID_ARGUMENT',
  ],
  ['no sessions', (s) => s.shedSessions('a', { sessions: 0 }), 'WARMPATH_INVALID_ARGUMENT'],
  ['half a session', (s) => s.shedSessions('a', { sessions: 0.5 }), 'WARMPATH_INVALID_ARGUMENT'],
  ['no options', (s) => s.shedSessions('a', undefined as never), 'WARMPATH_INVALID_ARGUMENT'],
  [
    'one that is down',
    (s) => {
      s.setHealth('a', 'down')
      s.shedSessions('a', { sessions: 1 })
    },
    'WARMPATH_INVALID_ARGUMENT',
  ],
]

for (const [name, run, code] of refused) {
  test(`a departure of ${name} is refused`, (t) => {
    using f = fleet()
    const error = t.throws(() => run(f.scheduler), { instanceOf: WarmpathError })
    t.is(error?.code, code)
    t.is(moved(f.scheduler, 'a'), null)
  })
}

const wrong: [Partial<SchedulerOptions>, string][] = [
  [{ sessionAffinity: { mode: 'firm' as never } }, 'sessionAffinity.mode'],
  [{ sessionAffinity: { mode: 'soft', creditTokens: -1 } }, 'sessionAffinity.creditTokens'],
  [{ sessionAffinity: { creditTokens: 5 } }, 'sessionAffinity.creditTokens'],
  [{ sessionAffinity: { mode: 'off', creditTokens: 5 } }, 'sessionAffinity.creditTokens'],
  [{ sessionAffinity: { credit: 1 } as never }, 'sessionAffinity.credit'],
  [{ fanOut: { minTokens: 0 } }, 'fanOut.minTokens'],
  [{ fanOut: { maxWaitSeconds: 0 } }, 'fanOut.maxWaitSeconds'],
  [{ fanOut: 1 as never }, 'fanOut'],
]

for (const [options, field] of wrong) {
  test(`the option ${field} is checked: ${JSON.stringify(options)}`, (t) => {
    const error = t.throws(() => fleet(options), { instanceOf: WarmpathError })
    t.is(error?.code, 'WARMPATH_CONFIG')
    t.deepEqual(error?.detail, { field })
  })
}
