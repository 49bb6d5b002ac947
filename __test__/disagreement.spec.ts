/** Prompts whose tokens are not the engine's: found by what it reports, said once, then known by text. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { Scheduler } from '../src/index.js'
import { Engine } from './support/publisher.js'
import { chat } from './support/requests.js'

const OURS = Uint32Array.from({ length: 33 }, (_, at) => at)

test('an engine that counts one token more is found out, and text takes over', async (t) => {
  await using engine = await Engine.start()
  const asked: unknown[] = []
  const warned: object[] = []
  using s = new Scheduler({
    cache: { blockTokens: 16 },
    workers: [
      { id: 'a', url: 'http://a', kvEvents: { endpoint: engine.events, replay: engine.replay } },
      { id: 'b', url: 'http://b' },
    ],
    targets: { m: { workers: ['a'] }, other: { workers: ['b'] } },
    tokens: {
      tokenize: (prompt) => {
        asked.push(prompt)
        return OURS
      },
    },
    logger: {
      debug: () => undefined,
      info: () => undefined,
      warn: (about) => warned.push(about),
      error: () => undefined,
    },
  })
  const told: unknown[] = []
  const listen = (message: unknown) => told.push(message)
  subscribe('warmpath:disagreement', listen)
  t.teardown(() => unsubscribe('warmpath:disagreement', listen))
  const worker = () => s.status().workers[0]
  while (worker()?.evidence.trust !== 'exact') await sleep(5)

  const turn = async (model = 'm') => {
    const taken = await s.submit(chat('s', 'hello', { model }))
    const receipt = taken.receipt()
    taken.complete({ promptTokens: 34, cachedTokens: 0 })
    return receipt
  }
  for (let n = 0; n < 4; n += 1) t.is((await turn())?.prompt.origin, 'tokenizer')
  t.like(worker()?.events?.disagreement, { cause: 'bos', ours: 33, theirs: 34 })
  t.like(worker()?.evidence, { trust: 'predicted', doubt: 'tokens', cause: 'bos' })
  t.deepEqual(told, [])
  for (let n = 0; n < 3; n += 1) {
    const receipt = await turn()
    t.like(receipt?.prompt, { form: 'text', origin: 'disagreement' })
    t.is(receipt?.evidence.cause, 'bos')
  }
  const found = { worker: 'a', cause: 'bos', ours: 33, theirs: 34 }
  t.deepEqual(told, [found], 'once')
  t.deepEqual(warned, [{ ...found, target: 'm' }])
  t.is(asked.length, 4, 'nobody is asked for what would not be believed')
  t.is((await turn('other'))?.prompt.origin, 'tokenizer', 'another group is another matter')

  // The engine begins anew, perhaps with another template.
  s.resetCache('a')
  t.is((await turn())?.prompt.origin, 'tokenizer')
  t.is(worker()?.events?.disagreement, null)
})
