import { once } from 'node:events'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import test from 'ava'

import { micros, steadyClock, systemClock } from '../src/clock.js'

test('all threads of a process read the same clock, whenever they were started', async (t) => {
  const file = JSON.stringify(join(__dirname, '../src/clock.ts'))
  const code = `
    require('tsx/cjs')
    const { systemClock } = require(${file})
    const { parentPort } = require('node:worker_threads')
    parentPort.on('message', () => parentPort.postMessage(systemClock()))
    parentPort.postMessage('ready')`
  for (let round = 0; round < 2; round += 1) {
    const worker = new Worker(code, { eval: true, execArgv: [] })
    await once(worker, 'message')
    for (let reading = 0; reading < 20; reading += 1) {
      const before = systemClock()
      worker.postMessage('read')
      const [there] = await once(worker, 'message')
      t.true(before <= there && there <= systemClock(), 'read between two readings of this thread')
    }
    await worker.terminate()
  }
})

test('the clock tells the time of day in fractions, and never goes back', (t) => {
  t.true(Math.abs(systemClock() - Date.now()) < 60_000)
  let last = systemClock()
  for (let reading = 0; reading < 10_000; reading += 1) {
    const now = systemClock()
    t.true(now >= last)
    last = now
  }
  t.true(Number.isSafeInteger(micros(systemClock)))
})

test('a clock that fails stands still, is told once, and goes on when it does', (t) => {
  let read: () => unknown = () => 5
  const failures: unknown[] = []
  const clock = steadyClock(
    () => read() as number,
    (cause) => failures.push(cause),
  )
  t.is(clock(), 5)
  for (const odd of [Number.NaN, Number.POSITIVE_INFINITY, -1, 2 ** 53, '7', 7n, undefined]) {
    read = () => odd
    t.is(clock(), 5)
  }
  read = () => {
    throw new Error('broken')
  }
  t.is(clock(), 5)
  read = () => 9
  t.is(clock(), 9)
  read = () => 8
  t.is(clock(), 8, 'what goes back is for the core to judge')
  t.deepEqual(failures, [Number.NaN])
})
