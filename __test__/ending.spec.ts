/** A turn that is ended by hand ends in the core too, whatever it is told and whatever throws. */
import test from 'ava'

import { type Logger, Scheduler, type Turn, type TurnRequest } from '../src/index.js'
import { Link } from '../src/link.js'
import { chat, crowded, crowdedTurn, fleet } from './support/requests.js'

const ODD = [5n, -1, Number.NaN, 1.5, 1e300, '7', null, Symbol('s'), {}, [], () => 1]

test('figures that are none count as unknown, and the turn ends', async (t) => {
  using f = fleet()
  for (const odd of ODD) {
    const turn = await f.scheduler.submit(chat('s'))
    turn.complete({ promptTokens: odd, cachedTokens: odd, completionTokens: 3 } as never)
    t.is(turn.state, 'ended')
    t.deepEqual(turn.receipt()?.outcome, {
      state: 'completed',
      promptTokens: null,
      cachedTokens: null,
      completionTokens: 3,
    })
    const other = await f.scheduler.submit(chat('s'))
    other.complete(odd as never, odd as never)
    t.is(other.receipt()?.outcome.state, 'completed')
    const third = await f.scheduler.submit(chat('s'))
    third.complete({}, { toolCalls: odd, state: [odd, ''], finished: odd } as never)
    t.is(third.receipt()?.outcome.state, 'completed')
  }
  t.is(f.left(), 0)
})

const ANSWERS: [reason: string, path: string, answer: object, isOver: boolean][] = [
  ['stop', '/v1/chat/completions', { choices: [{ finish_reason: 'stop' }] }, true],
  ['tool calls', '/v1/chat/completions', { choices: [{ finish_reason: 'tool_calls' }] }, false],
  [
    'function call',
    '/v1/chat/completions',
    { choices: [{ finish_reason: 'function_call' }] },
    false,
  ],
  ['end of turn', '/v1/messages', { type: 'message', stop_reason: 'end_turn' }, true],
  ['paused turn', '/v1/messages', { type: 'message', stop_reason: 'pause_turn' }, false],
]

for (const [reason, path, answer, isOver] of ANSWERS) {
  test(`a loop that is over gives its room, one that goes on keeps it: ${reason} of ${path}`, async (t) => {
    using f = crowded()
    const turn = await f.scheduler.submit({ ...crowdedTurn('s'), path })
    await turn.observe(Response.json(answer)).text()
    t.is(f.left(), 0)
    t.is(f.scheduler.status().workers[0]?.usedTokens === 0, isOver)
  })
}

test('a usage that throws leaves the turn to be ended again', async (t) => {
  using f = fleet()
  const turn = await f.scheduler.submit(chat('s'))
  const usage = {
    get promptTokens(): number {
      throw new RangeError('mine')
    },
  }
  t.throws(() => turn.complete(usage))
  t.is(turn.state, 'running')
  t.is(f.left(), 1)
  turn.complete()
  t.is(f.left(), 0)
})

const ends: [string, (turn: Turn) => void][] = [
  ['complete', (turn) => turn.complete()],
  ['fail', (turn) => turn.fail()],
  ['dispose', (turn) => turn[Symbol.dispose]()],
]

for (const [name, end] of ends) {
  test(`${name} ends a turn also while the clock fails; no time passes then`, async (t) => {
    const errors: object[] = []
    let clock: () => unknown = () => 1_700_000_000_000
    const silent = () => undefined
    const logger: Logger = {
      debug: silent,
      info: silent,
      warn: silent,
      error: (about) => errors.push(about),
    }
    using scheduler = new Scheduler({
      workers: [{ url: 'http://a' }],
      clock: () => clock() as number,
      logger,
    })
    for (const broken of [...ODD.filter((odd) => typeof odd !== 'number'), -1, Number.NaN]) {
      const turn = await scheduler.submit(chat('s'))
      clock = () => broken
      end(turn)
      t.like(scheduler.status(), { reservations: 0, anomalies: { clockStepsBack: 0 } })
      clock = () => 1_700_000_000_000
    }
    const turn = await scheduler.submit(chat('s'))
    clock = () => {
      throw new Error('broken')
    }
    end(turn)
    t.is(turn.state, 'ended')
    const held = await scheduler.submit(chat('s'))
    t.is(held.receipt()?.at, 1_700_000_000_000)
    end(held)
    t.is(scheduler.status().reservations, 0)
    t.is(errors.length, 1)
  })
}

test('a logger that throws costs nothing', async (t) => {
  const loud = () => {
    throw new Error('disk full')
  }
  const logger = { debug: loud, info: loud, warn: loud, error: loud }
  const f = crowded({ logger })
  await t.throwsAsync(f.scheduler.submit({ path: '/nothing' }), {
    code: 'WARMPATH_UNSUPPORTED_PATH',
  })
  const first = await f.scheduler.submit(crowdedTurn('r1'))
  await f.scheduler.submit(crowdedTurn('r2'))
  const wait = f.scheduler.submit(crowdedTurn('h1'))
  t.is(f.scheduler.status().holds, 1)
  f.scheduler.addWorker({ id: 'b', url: 'http://b' })
  first.complete()
  f.scheduler.close()
  await t.throwsAsync(wait, { code: 'WARMPATH_CLOSED' })
})

const targets = { one: { workers: ['a'] }, two: { workers: ['b'] } }
const aliases = { first: ['one', 'two'], second: ['two', 'one'] }

/** The next turn of a session, which hands in the result of `id` and prefers the other target. */
function resultOf(id: string): TurnRequest {
  const messages = [
    { role: 'user', content: 'hello' },
    { role: 'assistant', tool_calls: [{ id, type: 'function', function: { name: 'f' } }] },
    { role: 'tool', tool_call_id: id, content: 'done' },
  ]
  return { ...chat('s'), body: { model: 'second', messages } }
}

test('a tool call told by hand locks its result to the target that made it', async (t) => {
  using f = fleet({ targets, aliases })
  const start = await f.scheduler.submit({ ...chat('s'), model: 'first' })
  t.is(start.target, 'one')
  start.complete({ promptTokens: 9 }, { toolCalls: ['call_1'] })
  const locked = await f.scheduler.submit(resultOf('call_1'))
  t.is(locked.target, 'one')
  t.is(locked.receipt()?.lock.decided, 'tool-loop')
  locked.complete({}, { toolCalls: [] })
  const free = await f.scheduler.submit({ ...chat('t'), model: 'second' })
  t.is(free.target, 'two')
  t.is(free.receipt()?.lock.decided, 'free')
  free.complete()
})

test('state told by hand is asked of its owner', async (t) => {
  using f = fleet({ targets, aliases })
  const path = '/v1/responses'
  const turn = await f.scheduler.submit({ path, model: 'first', body: { model: 'm', input: 'x' } })
  turn.complete(undefined, { state: ['response:resp_1'] })
  t.like(f.scheduler.responseOwner('resp_1'), { worker: 'a', target: 'one' })
  const body = { model: 'm', input: 'y', previous_response_id: 'resp_1' }
  const next = await f.scheduler.submit({ path, model: 'second', body })
  t.is(next.target, 'one')
  next.complete()
})

const kinds: [string, string[] | undefined, boolean | undefined][] = [
  ['unknown', undefined, undefined],
  ['open calls', ['call_1'], undefined],
  ['no calls', [], undefined],
  ['said to be over', ['call_1'], true],
  ['said to go on', undefined, false],
]

for (const [what, toolCalls, finished] of kinds) {
  test.serial(
    `what is told by hand reaches the core as what is read from an answer: ${what}`,
    async (t) => {
      using f = fleet()
      const turn = await f.scheduler.submit(chat('s'))
      const seen: unknown[] = []
      const complete = Link.prototype.complete
      Link.prototype.complete = function (id, completion) {
        seen.push(completion)
        complete.call(this, id, completion)
      }
      turn.complete(
        {},
        { ...(toolCalls && { toolCalls }), ...(finished !== undefined && { finished }) },
      )
      Link.prototype.complete = complete
      const expected =
        { unknown: undefined, 'open calls': false, 'no calls': true }[what] ?? finished
      t.like(seen[0], { finished: expected, toolCalls: toolCalls ?? [], state: [] })
    },
  )
}
