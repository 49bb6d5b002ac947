/** One signal for all turns of a program. */
import { getEventListeners } from 'node:events'
import test from 'ava'

import type { Turn } from '../src/index.js'
import { chat, crowded, crowdedTurn, fleet } from './support/requests.js'

test.serial('many turns share one listener, and one abort ends them all', async (t) => {
  const warnings: Error[] = []
  const heard = (warning: Error) => warnings.push(warning)
  process.on('warning', heard)
  using f = fleet()
  const abort = new AbortController()
  const { signal } = abort
  const listeners = () => getEventListeners(signal, 'abort').length
  const turns: Turn[] = []
  for (let at = 0; at < 100; at += 1) {
    turns.push(await f.scheduler.submit({ ...chat(`s${at}`), signal }))
  }
  t.is(listeners(), 1)
  for (const turn of turns.slice(0, 50)) turn.complete()
  t.is(listeners(), 1)
  t.is(f.left(), 50)
  abort.abort()
  t.true(turns.every((turn) => turn.state === 'ended'))
  t.is(f.left(), 0)
  t.is(listeners(), 0)
  await new Promise((resolve) => setImmediate(resolve))
  process.off('warning', heard)
  t.deepEqual(warnings, [])
})

test('the last turn to end takes the listener away, and a later one brings it back', async (t) => {
  using f = fleet()
  const abort = new AbortController()
  const { signal } = abort
  const listeners = () => getEventListeners(signal, 'abort').length
  for (let round = 0; round < 3; round += 1) {
    const turns = [
      await f.scheduler.submit({ ...chat('a'), signal }),
      await f.scheduler.submit({ ...chat('b'), signal }),
    ]
    t.is(listeners(), 1)
    for (const turn of turns) turn.complete()
    t.is(listeners(), 0)
  }
  const last = await f.scheduler.submit({ ...chat('a'), signal })
  abort.abort()
  t.is(last.state, 'ended')
})

test('held and running turns of one signal all end with it', async (t) => {
  const f = crowded()
  const abort = new AbortController()
  const { signal } = abort
  const running = await f.scheduler.submit(crowdedTurn('r1', { signal }))
  await f.scheduler.submit(crowdedTurn('r2', { signal }))
  const held = [f.scheduler.submit(crowdedTurn('h1', { signal }))]
  held.push(f.scheduler.submit(crowdedTurn('h2', { signal })))
  t.is(f.scheduler.status().holds, 2)
  t.is(getEventListeners(signal, 'abort').length, 1)
  abort.abort()
  for (const wait of held) await t.throwsAsync(wait, { code: 'WARMPATH_ABORTED' })
  t.is(running.state, 'ended')
  t.is(f.left(), 0)
  f.scheduler.close()
})
