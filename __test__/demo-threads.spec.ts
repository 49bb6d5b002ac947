import test from 'ava'
import type { RouterData, RouterDone, RouterNote, RouterReady } from '../src/demo/router-thread.js'
import { Hosted } from '../src/demo/threads.js'

const FLAGS = ['--require=tsx/cjs']
type Router = Hosted<RouterData, RouterReady, RouterNote, RouterDone>

function data(router: RouterData['router']): RouterData {
  const workers = ['http://127.0.0.1:9']
  return { router, workers, capacityTokens: 100_000, speed: 10, seed: 1 }
}

test('a thread serves one part after another, each new', async (t) => {
  const thread: Router = new Hosted('router-thread', FLAGS)
  t.teardown(() => thread.stop())
  for (const router of ['round-robin', 'warmpath'] as const) {
    const { url } = await thread.start(data(router))
    const status = (await fetch(`${url}/healthz`)).status
    t.is(status, router === 'warmpath' ? 200 : 502, 'no engine answers a plain balancer here')
    t.deepEqual(await thread.finish(), { heldMs: new Map(), reservationsLeft: 0 })
  }
})

test('a part that cannot start rejects, and so does whatever is asked after', async (t) => {
  const thread: Router = new Hosted('router-thread', FLAGS)
  t.teardown(() => thread.stop())
  await t.throwsAsync(thread.start({ ...data('warmpath'), capacityTokens: -1 }), { any: true })
  await t.throwsAsync(thread.finish(), { any: true })
})

test('a thread that fails while nobody waits is told of at the next question', async (t) => {
  const thread: Router = new Hosted('no-such-thread', FLAGS)
  t.teardown(() => thread.stop())
  await new Promise((resolve) => setTimeout(resolve, 500))
  const error = await t.throwsAsync(thread.start(data('round-robin')), { any: true })
  t.regex(String(error), /no-such-thread/)
})
