import { once } from 'node:events'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import test from 'ava'

import { Scheduler, type SchedulerOptions } from '../src/index.js'
import { crowdedTurn, settled } from './support/requests.js'

const options: SchedulerOptions = {
  workers: [{ id: 'a', url: 'http://a', capacityTokens: 2000 }],
  targets: { m: { credential: 'key' } },
  admission: { policy: 'thunderagent', intervalMs: 50 },
}

interface Thread {
  ask(deed: string, session?: string): Promise<{ value?: unknown; code?: string }>
  end(): Promise<number>
}

async function thread(name: string, own: SchedulerOptions = options): Promise<Thread> {
  const file = JSON.stringify(join(__dirname, 'support/shared-worker.ts'))
  const worker = new Worker(`require('tsx/cjs'); require(${file})`, {
    eval: true,
    workerData: { name, options: own },
    execArgv: [],
  })
  await once(worker, 'message')
  return {
    async ask(deed, session = '') {
      worker.postMessage({ deed, session })
      const [answer] = await once(worker, 'message')
      return answer
    },
    end: () => worker.terminate(),
  }
}

test('room that one thread gives back lets the turn of another go', async (t) => {
  const name = 'two threads'
  const [one, two] = await Promise.all([thread(name), thread(name)])
  t.deepEqual(await one.ask('same'), { value: true })
  t.deepEqual(await one.ask('submit', 'r1'), {
    value: { worker: 'a', url: 'http://a/v1/chat/completions', auth: 'Bearer key' },
  })
  await one.ask('submit', 'r2')
  let isDone = false
  const wait = two.ask('submit', 'h1').finally(() => {
    isDone = true
  })
  const here = Scheduler.shared(name, options)
  while (here.status().holds === 0) await settled()
  t.false(isDone)
  await one.ask('complete', 'r1')
  await one.ask('complete', 'r2')
  t.like(await wait, { value: { worker: 'a' } })
  await two.ask('complete', 'h1')
  t.is(here.status().reservations, 0)
  await Promise.all([one.end(), two.end()])
  here.close()
})

test('a worker that one thread adds takes turns of another', async (t) => {
  const name = 'one fleet'
  const other = await thread(name)
  const here = Scheduler.shared(name, options)
  t.is(Scheduler.shared(name, options), here)
  await other.ask('addWorker', 'b')
  here.drainWorker('a')
  const turn = await here.submit(crowdedTurn('s'))
  t.is(turn.url, 'http://b/v1/chat/completions')
  turn.complete()
  await other.end()
  here.close()
})

test('a thread that ends gives back what it had', async (t) => {
  const name = 'lost thread'
  const other = await thread(name)
  const here = Scheduler.shared(name, options)
  await other.ask('submit', 'r1')
  await other.ask('submit', 'r2')
  const wait = here.submit(crowdedTurn('h1'))
  t.like(here.status(), { reservations: 3, holds: 1 })
  await other.end()
  const keepAlive = setTimeout(() => undefined, 60_000)
  const turn = await wait
  clearTimeout(keepAlive)
  t.is(turn.worker, 'a')
  turn.complete()
  t.is(here.status().reservations, 0)
  here.close()
})

test('closing one face leaves the others, and a closed name starts anew', async (t) => {
  const name = 'faces'
  const other = await thread(name)
  const here = Scheduler.shared(name, options)
  here.close()
  t.like(await other.ask('submit', 's'), { value: { worker: 'a' } })
  const again = Scheduler.shared(name, options)
  t.not(again, here)
  t.is(again.status().reservations, 1)
  await other.ask('complete', 's')
  await other.ask('close')
  t.is((await other.ask('submit', 's')).code, 'WARMPATH_CLOSED')
  await other.end()
  again.close()
})

test('all callers must name the same targets', (t) => {
  const here = Scheduler.shared('targets', options)
  t.throws(() => new Scheduler({ ...options, targets: { other: {} } }, 'targets'), {
    code: 'WARMPATH_CONFIG',
    message: /^targets: shared scheduler "targets" has m$/,
  })
  here.close()
})
