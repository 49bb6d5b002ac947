/** What a gateway knows outlives its process: out in chunks while turns go on, in before the first. */
import test from 'ava'

import type { Scheduler, TurnRequest } from '../src/index.js'
import { WarmpathError } from '../src/index.js'
import { chat, fleet } from './support/requests.js'

async function bytesOf(scheduler: Scheduler): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  for await (const chunk of scheduler.snapshot()) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** A turn of a session whose prompt is long enough to be worth something in a cache. */
function turnOf(session: string, rounds: number): TurnRequest {
  const messages = Array.from({ length: rounds }, (_, n) => ({
    role: n % 2 === 0 ? 'user' : 'assistant',
    content: `${session} says ${n} ${'and so on '.repeat(60)}`,
  }))
  return chat(session, '', { messages })
}

function codeOf(run: () => unknown): string | undefined {
  try {
    run()
  } catch (error) {
    return WarmpathError.is(error) ? error.code : String(error)
  }
  return undefined
}

test('after a restart the next turn goes where its cache is, by the same prediction', async (t) => {
  using old = fleet()
  const names = ['one', 'two', 'three', 'four', 'five']
  for (const name of names) {
    const turn = await old.scheduler.submit(turnOf(name, 3))
    turn.complete({ promptTokens: 400, completionTokens: 20 })
  }
  const bytes = await bytesOf(old.scheduler)
  using again = fleet()
  const restored = again.scheduler.restore(bytes)
  t.like(restored, { sessions: 5, dropped: { places: 0, blocks: 0, sessions: 0, owners: 0 } })
  t.is(restored.blocks, old.scheduler.status().prefix.blocks)
  for (const name of names) {
    const there = old.scheduler.peek(turnOf(name, 5))
    const here = again.scheduler.peek(turnOf(name, 5))
    t.deepEqual(here, there)
    const turn = await again.scheduler.submit(turnOf(name, 5))
    t.is(turn.worker, there?.worker ?? '')
    t.true(turn.predictedCachedTokens > 0)
    t.is(turn.predictedCachedTokens, there?.overlapTokens ?? 0)
    turn.complete()
  }
  t.is(again.scheduler.status().sessions, 5)
})

test('turns go on between the chunks, and the whole is the state at the last one', async (t) => {
  using old = fleet()
  for (let n = 0; n < 400; n += 1) {
    const turn = await old.scheduler.submit(turnOf(`s${n}`, 2))
    turn.complete()
  }
  const chunks: Uint8Array[] = []
  let between = 0
  for await (const chunk of old.scheduler.snapshot()) {
    chunks.push(chunk)
    const turn = await old.scheduler.submit(turnOf(`between${between}`, 4))
    turn.complete()
    between += 1
  }
  t.true(chunks.length > 1)
  using again = fleet()
  again.scheduler.restore(Buffer.concat(chunks))
  // The turn behind the last chunk came too late.
  const known = Array.from({ length: between }, (_, n) => {
    const found = again.scheduler.peek(turnOf(`between${n}`, 5))
    return (found?.overlapTokens ?? 0) > 0
  })
  t.deepEqual(known, [...Array(between - 1).fill(true), false])
})

test('what is damaged, foreign or late is refused and changes nothing', async (t) => {
  using old = fleet()
  const turn = await old.scheduler.submit(turnOf('one', 3))
  turn.complete()
  const bytes = await bytesOf(old.scheduler)
  using again = fleet()
  const { scheduler } = again
  const newer = Uint8Array.from(bytes)
  newer[8] = 99
  const flipped = Uint8Array.from(bytes)
  flipped[30] = (flipped[30] ?? 0) ^ 1
  t.is(
    codeOf(() => scheduler.restore(new Uint8Array(0))),
    'WARMPATH_SNAPSHOT_INVALID',
  )
  t.is(
    codeOf(() => scheduler.restore(Buffer.from('{}'))),
    'WARMPATH_SNAPSHOT_INVALID',
  )
  t.is(
    codeOf(() => scheduler.restore(bytes.subarray(0, -1))),
    'WARMPATH_SNAPSHOT_INVALID',
  )
  t.is(
    codeOf(() => scheduler.restore(flipped)),
    'WARMPATH_SNAPSHOT_INVALID',
  )
  t.is(
    codeOf(() => scheduler.restore(newer)),
    'WARMPATH_SNAPSHOT_VERSION',
  )
  const text = 'text' as unknown as Uint8Array
  t.is(
    codeOf(() => scheduler.restore(text)),
    'WARMPATH_INVALID_ARGUMENT',
  )
  for (const wrong of [{ exact: 'all' }, { exact: 1 }, { exakt: 'keep' }, [], null, 'keep', 7]) {
    t.is(
      codeOf(() => scheduler.restore(bytes, wrong as object)),
      'WARMPATH_INVALID_ARGUMENT',
      JSON.stringify(wrong),
    )
  }
  t.is(scheduler.restore(bytes, { exact: 'as-predicted' }).sessions, 1)
  t.is(
    codeOf(() => scheduler.restore(bytes)),
    'WARMPATH_SNAPSHOT_NOT_FRESH',
  )
})

test('a snapshot that is left half-way is given up, and a newer one voids an older', async (t) => {
  using f = fleet()
  for (let n = 0; n < 400; n += 1) {
    const turn = await f.scheduler.submit(turnOf(`s${n}`, 2))
    turn.complete()
  }
  for await (const chunk of f.scheduler.snapshot()) {
    t.true(chunk.length > 0)
    break
  }
  const older = f.scheduler.snapshot()
  await older.next()
  const newer = f.scheduler.snapshot()
  await newer.next()
  const error = await t.throwsAsync(async () => {
    for await (const _ of older);
  })
  t.is(Reflect.get(error, 'code'), 'WARMPATH_SNAPSHOT_SUPERSEDED')
  const rest: Uint8Array[] = []
  for await (const chunk of newer) rest.push(chunk)
  t.true(rest.length > 0)
})

test('a worker that is not configured any more takes its cache along', async (t) => {
  using old = fleet({ workers: [{ id: 'x', url: 'http://x' }] })
  const turn = await old.scheduler.submit(turnOf('one', 3))
  turn.complete()
  using again = fleet()
  const restored = again.scheduler.restore(await bytesOf(old.scheduler))
  t.is(restored.dropped.places, 1)
  t.true(restored.dropped.blocks > 0)
  t.is(restored.sessions, 1)
  t.is(again.scheduler.peek(turnOf('one', 3))?.overlapTokens, 0)
})

test('what was cached in blocks of another size is left out, and told', async (t) => {
  using old = fleet()
  const turn = await old.scheduler.submit(chat('s', 'long '.repeat(2_000)))
  turn.complete()
  const bytes = await bytesOf(old.scheduler)
  using same = fleet()
  using other = fleet({ cache: { blockTokens: 16 } })
  const [kept, left] = [same.scheduler.restore(bytes), other.scheduler.restore(bytes)]
  t.like(kept, { sessions: 1, dropped: { places: 0, resized: 0 } })
  t.like(left, { sessions: 1, blocks: 0, dropped: { places: 1 } })
  t.is(left.dropped.resized, other.scheduler.status().workers.length)
  t.true(kept.blocks > 0)
})
