import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import test, { type ExecutionContext } from 'ava'

import { Scheduler, type SchedulerOptions } from '../src/index.js'
import { collected } from './support/gc.js'
import { crowdedTurn, settled } from './support/requests.js'

const options: SchedulerOptions = {
  workers: [{ id: 'a', url: 'http://a', capacityTokens: 2000 }],
  targets: { m: { credential: 'key' } },
  admission: { policy: 'thunderagent', intervalMs: 50 },
}

/** Longer than any of these answers takes; an answer that does not come fails its test. */
const PATIENCE_MS = 20_000

interface Thread {
  ask(deed: string, argument?: string): Promise<{ value?: unknown; code?: string }>
  end(): Promise<number>
}

/** `clockStart`: its clock stands there until it is asked to `pass` milliseconds. */
async function thread(
  t: ExecutionContext,
  name: string,
  own = options,
  clockStart?: number,
): Promise<Thread> {
  const file = JSON.stringify(join(__dirname, 'support/shared-worker.ts'))
  const worker = new Worker(`require('tsx/cjs'); require(${file})`, {
    eval: true,
    workerData: { name, options: own, clockStart },
    execArgv: [],
  })
  t.teardown(() => worker.terminate())
  await once(worker, 'message')
  return {
    async ask(deed, argument = '') {
      worker.postMessage({ deed, argument })
      const signal = AbortSignal.timeout(PATIENCE_MS)
      const [answer] = await once(worker, 'message', { signal })
      return answer
    },
    end: () => worker.terminate(),
  }
}

/** This thread's face of the scheduler. */
function face(t: ExecutionContext, name: string, own = options): Scheduler {
  const scheduler = Scheduler.shared(name, own)
  t.teardown(() => scheduler.close())
  return scheduler
}

/** What the promise gives, or undefined when it takes too long. Keeps the process alive meanwhile. */
async function inTime<T>(promise: Promise<T>): Promise<T | undefined> {
  const stop = new AbortController()
  const late = sleep(PATIENCE_MS, undefined, { signal: stop.signal }).catch(() => undefined)
  try {
    return await Promise.race([promise, late])
  } finally {
    stop.abort()
  }
}

async function untilHeld(scheduler: Scheduler): Promise<void> {
  const end = Date.now() + PATIENCE_MS
  while (scheduler.status().holds === 0) {
    if (Date.now() > end) throw new Error('nothing is held')
    await settled()
  }
}

const START = 1_700_000_000_000
/** No timer fires in time to be of help. */
const patient: SchedulerOptions = {
  ...options,
  admission: { policy: 'thunderagent', intervalMs: 60_000 },
}

/**
 * Three faces on one scheduler whose timers are a minute away: what `waiter` waits for can only come
 * from what `actor` does, and reach it only by being woken.
 */
async function heldElsewhere(
  t: ExecutionContext,
  name: string,
  second: 'submit' | 'submitSmall' = 'submit',
) {
  const actor = await thread(t, name, patient, START)
  const waiter = await thread(t, name, patient, START)
  const here = face(t, name, { ...patient, clock: () => START })
  t.deepEqual(await actor.ask('same'), { value: true })
  t.deepEqual(await actor.ask('submit', 'r1'), {
    value: { worker: 'a', url: 'http://a/v1/chat/completions', auth: 'Bearer key' },
  })
  await actor.ask(second, 'r2')
  const wait = waiter.ask('submit', 'h1')
  await untilHeld(here)
  return { actor, waiter, here, wait }
}

test('room that one thread gives back lets the turn of another go', async (t) => {
  const { actor, waiter, here, wait } = await heldElsewhere(t, 'two threads')
  await actor.ask('complete', 'r1')
  t.is(here.status().holds, 1, 'another turn is running still')
  await actor.ask('complete', 'r2')
  t.like(await wait, { value: { worker: 'a' } })
  await waiter.ask('complete', 'h1')
  t.is(here.status().reservations, 0)
})

test('a turn that one thread finds room for in time goes in another', async (t) => {
  const { actor, here, wait } = await heldElsewhere(t, 'in time', 'submitSmall')
  await actor.ask('complete', 'r1')
  t.is(here.status().holds, 1, 'another turn is running still')
  await actor.ask('pass', '60000')
  t.like(await wait, { value: { worker: 'a' } })
  t.is(here.status().reservations, 2)
})

test('a fleet that one thread takes away ends the wait of another', async (t) => {
  const { actor, here, wait } = await heldElsewhere(t, 'no fleet')
  await actor.ask('removeWorker', 'a')
  t.like(await wait, { code: 'WARMPATH_NO_WORKER' })
  t.is(here.status().holds, 0)
})

test('a face that is forgotten with two held turns stays until both are settled', async (t) => {
  const name = 'two held'
  const actor = await thread(t, name, patient, START)
  for (const session of ['r1', 'r2']) await actor.ask('submit', session)
  const wait = await (async () => {
    const scheduler = new Scheduler({ ...patient, clock: () => START }, name)
    const abort = new AbortController()
    const first = scheduler.submit(crowdedTurn('h1', { signal: abort.signal }))
    const second = scheduler.submit(crowdedTurn('h2'))
    abort.abort()
    // Not kept, nor the error: what it knows of the stack would keep the scheduler.
    const code = await first.catch((error) => error.code)
    t.is(code, 'WARMPATH_ABORTED')
    return { second }
  })()
  await collected(() => false, 10)
  for (const session of ['r1', 'r2']) await actor.ask('complete', session)
  const turn = await inTime(wait.second)
  t.is(turn?.worker, 'a')
  turn?.complete()
})

test('a worker that one thread adds takes turns of another', async (t) => {
  const name = 'one fleet'
  const other = await thread(t, name)
  const here = face(t, name)
  t.is(Scheduler.shared(name, options), here)
  await other.ask('addWorker', 'b')
  here.drainWorker('a')
  const turn = await here.submit(crowdedTurn('s'))
  t.is(turn.url, 'http://b/v1/chat/completions')
  turn.complete()
})

test('a thread that ends gives back what it had', async (t) => {
  const name = 'lost thread'
  const other = await thread(t, name)
  const here = face(t, name)
  await other.ask('submit', 'r1')
  await other.ask('submit', 'r2')
  const wait = here.submit(crowdedTurn('h1'))
  t.like(here.status(), { reservations: 3, holds: 1 })
  await other.end()
  const turn = await inTime(wait)
  t.is(turn?.worker, 'a')
  turn?.complete()
  t.is(here.status().reservations, 0)
})

test('closing one face leaves the others, and a closed name starts anew', async (t) => {
  const name = 'faces'
  const other = await thread(t, name)
  const here = face(t, name)
  here.close()
  t.like(await other.ask('submit', 's'), { value: { worker: 'a' } })
  const again = face(t, name)
  t.not(again, here)
  t.is(again.status().reservations, 1)
  await other.ask('complete', 's')
  await other.ask('close')
  t.is((await other.ask('submit', 's')).code, 'WARMPATH_CLOSED')
})

test('all callers must name the same targets', (t) => {
  const here = face(t, 'targets')
  t.throws(() => new Scheduler({ ...options, targets: { other: {} } }, 'targets'), {
    code: 'WARMPATH_CONFIG',
    message: /^targets: shared scheduler "targets" has m$/,
  })
  t.throws(() => Scheduler.shared('targets', { ...options, targets: { m: {}, other: {} } }), {
    code: 'WARMPATH_CONFIG',
    message: /^targets: shared scheduler "targets" has m$/,
  })
  t.throws(() => Scheduler.shared('targets', { ...options, wrokers: 5 } as never), {
    code: 'WARMPATH_CONFIG',
    message: /^options\.wrokers: unknown field/,
  })
  t.is(Scheduler.shared('targets', { ...options, workers: [{ url: 'http://b' }] }), here)
  t.deepEqual(here.models(), ['m'])
})
