/** Which turns read what others have had cached on the same worker. */
import test from 'ava'
import { Scheduler, type SchedulerOptions } from '../src/index.js'

const WORKER = { id: 'w', url: 'http://127.0.0.1:9000' }
const TEXT = 'A line of the instructions that every session begins with. '.repeat(100)

interface Sent {
  readonly model: string
  readonly key?: string
  readonly salt?: string
}

/** What the scheduler counts as cached of the same prompt, sent in this way and order. */
async function cached(targets: SchedulerOptions['targets'], sent: readonly Sent[]) {
  using scheduler = new Scheduler({ workers: [WORKER], ...(targets && { targets }) })
  const counts: boolean[] = []
  for (const { model, key = 'k', salt } of sent) {
    const turn = await scheduler.submit({
      path: '/v1/chat/completions',
      headers: { authorization: `Bearer ${key}` },
      body: {
        model,
        messages: [{ role: 'user', content: TEXT }],
        ...(salt !== undefined && { cache_salt: salt }),
      },
    })
    counts.push(turn.predictedCachedTokens > 0)
    turn.complete({ promptTokens: turn.promptTokens }, { finished: true })
  }
  return counts
}

const a = { model: 'a' }
const b = { model: 'b' }

test('two models on one worker have a cache each', async (t) => {
  t.deepEqual(await cached({ a: {}, b: {} }, [a, b, a, b]), [false, false, true, true])
})

test('two names of one model and credential have one cache', async (t) => {
  const same = { a: { model: 'm' }, b: { model: 'm' } }
  t.deepEqual(await cached(same, [a, b, a]), [false, true, true])
})

test('two credentials have a cache each', async (t) => {
  const keys = { a: { model: 'm', credential: 'key-1' }, b: { model: 'm', credential: 'key-2' } }
  t.deepEqual(await cached(keys, [a, b, b]), [false, false, true])
})

test('what a hosted provider has cached is of the account that sent it', async (t) => {
  const own = { a: { provider: 'openai', credential: 'pass-through', workers: ['w'] } }
  const sent = ['x', 'y', 'x'].map((key) => ({ ...a, key }))
  t.deepEqual(await cached(own, sent), [false, false, true])
})

test('without targets each model that is asked for has a cache', async (t) => {
  t.deepEqual(await cached(undefined, [a, b, a, b]), [false, false, true, true])
})

test('what an engine of our own has cached is everybody’s, unless a salt sets it apart', async (t) => {
  const users = ['x', 'y'].map((key) => ({ ...a, key }))
  t.deepEqual(await cached(undefined, users), [false, true])
  const salted = ['1', '2', '1'].map((salt) => ({ ...a, salt }))
  t.deepEqual(await cached(undefined, [...salted, a]), [false, false, true, false])
})
