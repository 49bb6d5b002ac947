/** A replay over HTTP against the engine double: sharing, loops, bounds, failures. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import test, { type ExecutionContext } from 'ava'
import { drive, type TurnOutcome } from '../src/replay/endpoint/drive.js'
import { Requests } from '../src/replay/endpoint/requests.js'
import { arrivals, type Loop } from '../src/replay/endpoint/schedule.js'
import { failures, report } from '../src/replay/endpoint/tally.js'
import { type EngineDouble, type RequestEnd, startEngineDouble } from '../src/testing/index.js'
import { Workload } from '../src/workload.js'

const SPEED = 50
const workload = Workload.generate(
  {
    sessions: 4,
    turns: 4,
    blockTokens: 16,
    systemTokens: 320,
    addedTokens: 100,
    outputTokens: 8,
    arrivalsMs: 500,
    toolMs: 500,
    personMs: 1000,
  },
  3,
)
const turns = workload.turns()
const count = turns.session.length

async function double(t: ExecutionContext, ends: RequestEnd[] = []): Promise<EngineDouble> {
  const engine = await startEngineDouble({
    speed: SPEED,
    engine: { blockSize: 16 },
    onRequestEnd: (end) => ends.push(end),
  })
  t.teardown(() => engine.close())
  return engine
}

function send(url: string, more: { loop?: Loop; concurrency?: number; patienceMs?: number } = {}) {
  const requests = new Requests(workload, turns, { model: 'm', salt: 1 })
  const options = { loop: 'trace' as Loop, concurrency: 64, speed: SPEED, ...more }
  return drive({ url, turns, request: (turn) => requests.of(turn), ...options })
}

test('the engine sees the tokens of the trace, and the sharing that an endless cache would have', async (t) => {
  const ends: RequestEnd[] = []
  const { url } = await double(t, ends)
  const outcomes = await send(url)
  t.is(outcomes.length, count)
  t.deepEqual(failures(outcomes), [])
  for (const { turn, promptTokens, outputTokens } of outcomes) {
    t.is(promptTokens, turns.inputTokens[turn])
    t.is(outputTokens, turns.outputTokens[turn])
  }
  const found = report('double', turns, outcomes)
  const { infinite_tokens, prompt_tokens } = await workload.bounds(1e9)
  t.is(found.work.prompt_tokens, prompt_tokens)
  // Prompts that overlap in time may both compute what they share.
  const cached = found.work.cached_tokens
  t.true(cached <= infinite_tokens && cached > 0.9 * infinite_tokens, `${cached}`)
  t.is(found.sessions.finished, turns.sessions.length)
  t.true((found.latency.ttft.p50_ms ?? 0) > 0)
  t.is(found.turns.completed, count)
})

test('a turn is sent after those that it waits for, not before its pause is over', async (t) => {
  const { url } = await double(t)
  const outcomes = await send(url)
  const of = new Map(outcomes.map((outcome) => [outcome.turn, outcome]))
  let waited = 0
  for (const [turn, waits] of turns.waits.entries()) {
    for (const wait of waits) {
      const [before, after] = [of.get(wait.turn), of.get(turn)] as [TurnOutcome, TurnOutcome]
      waited += 1
      t.true(after.dueMs + 2 >= before.endMs + wait.delayMs / SPEED)
    }
  }
  t.true(waited > 5)
})

test('an open loop waits for nobody; a bound on requests is kept, and the wait counted apart', async (t) => {
  const { url } = await double(t)
  const times = arrivals(turns)
  const open = await send(url, { loop: 'open' })
  for (const { turn, dueMs } of open) t.true(dueMs + 2 >= (times[turn] ?? 0) / SPEED)
  const bound = await send(url, { loop: 'closed', concurrency: 1 })
  const inOrder = [...bound].sort((a, b) => a.sentMs - b.sentMs)
  for (const [index, { sentMs }] of inOrder.entries()) {
    t.true(sentMs >= (inOrder[index - 1]?.endMs ?? 0) - 1)
  }
  t.true(bound.some(({ dueMs, sentMs }) => sentMs > dueMs + 1))
})

test('failures are counted by kind, and the sessions go on', async (t) => {
  const engine = await double(t)
  engine.fail('503', 2)
  const outcomes = await send(engine.url)
  t.is(outcomes.length, count)
  t.deepEqual(failures(outcomes), [['status 503', 2]])
  t.is(report('d', turns, outcomes).turns.refused, 2)
  engine.fail('stall', 1)
  const stalled = await send(engine.url, { patienceMs: 400 })
  t.deepEqual(failures(stalled), [['no token in time', 1]])
  t.is(report('d', turns, stalled).turns.given_up, 1)
  engine.fail('cut', 1)
  const [cut] = failures(await send(engine.url))
  t.is(cut?.[1], 1)
})

test('an address that nobody listens on fails every turn and ends', async (t) => {
  const server: Server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  const outcomes = await send(`http://127.0.0.1:${port}`)
  t.deepEqual(failures(outcomes), [['ECONNREFUSED', count]])
})
