/** A turn whose answer is passed on by its caller: watched piece by piece, it is as if observed. */
import test from 'ava'
import fc from 'fast-check'
import type { Turn } from '../src/index.js'
import { collected } from './support/gc.js'
import { CHAT_STREAM, chat, fleet, SSE, USAGE_CHUNK } from './support/requests.js'
import { API, API_NAMES } from './support/wire-apis.js'

const STREAM = { status: 200, contentType: 'text/event-stream' }
const JSON_KIND = { status: 200, contentType: 'application/json' }

/** The bytes of a text in pieces that end at `cuts`. */
function piecesOf(text: string, cuts: readonly number[]): Uint8Array[] {
  const bytes = Buffer.from(text)
  const ends = [...new Set(cuts.map((cut) => cut % bytes.length)), bytes.length].sort(
    (a, b) => a - b,
  )
  return ends.map((end, at) => bytes.subarray(ends[at - 1] ?? 0, end))
}

/** What is passed on when each piece is pushed. */
function passed(turn: Turn, kind: typeof STREAM, pieces: readonly Uint8Array[]): string {
  const watch = turn.watch(kind)
  if (watch === undefined) return 'nothing to watch'
  return Buffer.concat([...pieces.map((piece) => watch.push(piece)), watch.end()]).toString()
}

for (const name of API_NAMES) {
  for (const stream of [true, false]) {
    const { path, request, events, answer } = API[name]
    const text = stream ? events.join('') : JSON.stringify(answer)
    const kind = stream ? STREAM : JSON_KIND
    const what = stream ? 'a stream' : 'a JSON answer'

    test(`${name}: ${what} that is watched, cut anywhere, is as if observed`, async (t) => {
      using f = fleet()
      const turn = () => f.scheduler.submit({ path, body: { ...request, stream } })
      const observed = await turn()
      const headers = { 'content-type': kind.contentType }
      const whole = await observed.observe(new Response(text, { headers })).text()
      await fc.assert(
        fc.asyncProperty(fc.array(fc.nat(10_000), { maxLength: 8 }), async (cuts) => {
          const watched = await turn()
          t.is(passed(watched, kind, piecesOf(text, cuts)), whole)
          t.deepEqual(watched.receipt()?.outcome, observed.receipt()?.outcome)
          t.is(watched.state, 'ended')
        }),
        { numRuns: 30 },
      )
      t.is(f.left(), 0)
    })
  }
}

test('usage that was asked for on the client’s behalf is taken out, and counts', async (t) => {
  using f = fleet()
  const turn = await f.scheduler.submit(chat('s', 'hello', { stream: true }))
  const whole = CHAT_STREAM.join('')
  t.is(passed(turn, STREAM, piecesOf(whole, [9, 90])), whole.replace(USAGE_CHUNK, ''))
  t.like(turn.receipt()?.outcome, { state: 'completed', promptTokens: 7, completionTokens: 2 })
})

test('an answer that is no success ends the turn, and there is nothing to watch', async (t) => {
  using f = fleet()
  for (const status of [400, 503, 302]) {
    const turn = await f.scheduler.submit(chat('s'))
    t.is(turn.watch({ ...JSON_KIND, status }), undefined)
    t.is(turn.state, 'ended')
    t.is(turn.watch(JSON_KIND), undefined)
  }
})

test('a broken answer, and one that nobody wants, end the turn once', async (t) => {
  using f = fleet()
  for (const how of ['fail', 'cancel'] as const) {
    const turn = await f.scheduler.submit(chat('s', 'hello', { stream: true }))
    const watch = turn.watch(STREAM)
    watch?.push(Buffer.from(CHAT_STREAM[0] ?? ''))
    turn[Symbol.dispose]()
    t.is(turn.state, 'running')
    watch?.[how]()
    t.is(turn.state, 'ended')
    const state = how === 'fail' ? 'failed' : 'cancelled'
    t.is(turn.receipt()?.outcome.state, state)
    watch?.end()
    t.is(turn.receipt()?.outcome.state, state)
  }
  t.is(f.left(), 0)
})

test('a client that leaves after the last event has had all of it', async (t) => {
  using f = fleet()
  const turn = await f.scheduler.submit(chat('s', 'hello', { stream: true }))
  const watch = turn.watch(STREAM)
  watch?.push(Buffer.from(CHAT_STREAM.slice(0, 2).join('')))
  watch?.cancel()
  t.is(turn.receipt()?.outcome.state, 'completed')
})

test('one answer a turn, and only what is one', async (t) => {
  using f = fleet()
  const turn = await f.scheduler.submit(chat('s'))
  for (const odd of [undefined, null, 5, {}, { status: '200' }, { status: 200, contentType: 5 }]) {
    t.throws(() => turn.watch(odd as never), { code: 'WARMPATH_INVALID_ARGUMENT' })
  }
  t.truthy(turn.watch(STREAM))
  t.throws(() => turn.watch(STREAM), { code: 'WARMPATH_INVALID_ARGUMENT' })
  t.throws(() => turn.observe(new Response('', SSE)), { code: 'WARMPATH_INVALID_ARGUMENT' })
  t.false(turn.next())
})

test('a watch that is forgotten ends its turn', async (t) => {
  const warnings: string[] = []
  const quiet = () => {}
  const logger = {
    debug: quiet,
    info: quiet,
    error: quiet,
    warn: (_: object, m: string) => warnings.push(m),
  }
  using f = fleet({ logger })
  await (async () => {
    const turn = await f.scheduler.submit(chat('s', 'hello', { stream: true }))
    turn.watch(STREAM)?.push(Buffer.from(CHAT_STREAM[0] ?? ''))
  })()
  t.is(f.left(), 1)
  t.true(await collected(() => f.left() === 0))
  t.deepEqual(warnings, ['a watch was forgotten: end, fail or cancel it'])
})

type Watch = NonNullable<ReturnType<Turn['watch']>>
const ENDINGS: Record<string, (watch: Watch, client: AbortController) => unknown> = {
  completed: (watch) => void watch.end(),
  'broken off': (watch) => watch.fail(),
  cancelled: (watch) => watch.cancel(),
  aborted: (_, client) => client.abort(),
}

for (const [ending, end] of Object.entries(ENDINGS)) {
  test(`turns that are ${ending} are let go, whatever their signals are tied to`, async (t) => {
    using f = fleet()
    const watched: WeakRef<Turn>[] = []
    for (let at = 0; at < 10; at += 1) {
      const client = new AbortController()
      const request = { ...chat('s', 'hello', { stream: true }), signal: client.signal }
      const turn = await f.scheduler.submit(request)
      const watch = turn.watch(STREAM)
      // What ends the exchange of a server knows all of it, its turn included.
      client.signal.addEventListener('abort', () => watch && turn.id)
      if (watch) end(watch, client)
      watched.push(new WeakRef(turn))
    }
    t.is(f.left(), 0)
    // A frame that is still on the stack may have the last of them.
    const known = () => watched.filter((turn) => turn.deref() !== undefined)
    t.true(await collected(() => known().length <= 1))
  })
}
