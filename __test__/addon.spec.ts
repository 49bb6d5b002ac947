/** The addon's own face: what it does with arguments that its facade would never pass. */
import test from 'ava'
import {
  addWorker,
  cancelTurn,
  completeTurn,
  holdState,
  openScheduler,
  pollScheduler,
  provokePanic,
  receipt,
  rerouteTurn,
  type SchedulerHandle,
  setHealth,
  sharedScheduler,
  status,
  submitTurn,
} from '../index.js'

const NONE = {
  ids: new Uint8Array(0),
  prompt: new Uint8Array(0),
}
const OPTIONS = {
  groups: [{}],
  workers: [{ name: 'a', group: 0 }],
  targets: [{ name: 't', group: 0 }],
}
const out = () => new Float64Array(16 + 9 * 4)

function open(options: object = OPTIONS): SchedulerHandle {
  return openScheduler(JSON.stringify(options), () => {})
}

/** A head with one target, no texts and a prompt of tokens. */
function head(change: Record<number, number> = {}): Uint32Array {
  const numbers = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]
  for (const [at, value] of Object.entries(change)) numbers[Number(at)] = value
  return Uint32Array.from(numbers)
}

function submit(handle: SchedulerHandle, frame = head(), { ids, prompt } = NONE) {
  return submitTurn(handle, 1e6, frame, ids, prompt, out())
}

test('a panic is an error with a code, and the scheduler goes on', (t) => {
  const handle = open()
  t.is(submit(handle), 0)
  t.throws(() => provokePanic(handle), { code: 'WARMPATH_PANIC', message: 'provoked' })
  t.is(submit(handle), 0)
  t.is(JSON.parse(status(handle, 1)).reservations, 2)
})

test('a frame that does not hold what it says is refused and occupies nothing', (t) => {
  const handle = open()
  const refused = (frame: Uint32Array, texts = NONE) =>
    t.throws(() => submit(handle, frame, texts), { code: 'WARMPATH_INVALID_ARGUMENT' })
  refused(new Uint32Array(0))
  refused(head().subarray(0, 14))
  for (const field of [4, 5, 6, 8, 9, 10, 11, 13, 14]) refused(head({ [field]: 0xffff_ffff }))
  refused(head({ 1: 4 }))
  for (const kind of [1, 2]) refused(head({ 1: kind }), { ...NONE, prompt: new Uint8Array(3) })
  // A recalled prompt that nobody has recalled has to come again.
  t.is(submit(handle, head({ 1: 3, 3: 7 })), 2)
  refused(head({ 4: 2 }), { ...NONE, ids: Uint8Array.of(0xff, 0xfe) })
  refused(head({ 1: 0, 11: 1, 16: 9, 17: 0 }))
  t.throws(() => submit(handle, head({ 16: 7 })), { code: 'WARMPATH_UNKNOWN_ID' })
  t.throws(() => submit(handle, head({ 8: 0 })), { code: 'WARMPATH_INVALID_ARGUMENT' })
  t.throws(() => submit(handle, head({ 7: 9 })), { code: 'WARMPATH_NO_WORKER' })
  const { reservations, sessions } = JSON.parse(status(handle, 1))
  t.deepEqual({ reservations, sessions }, { reservations: 0, sessions: 0 })
})

test('a base choice that is no target is none', (t) => {
  const targets = ['t', 'u'].map((name) => ({ name, group: 0 }))
  const handle = open({ ...OPTIONS, targets, continuity: { policy: 'lookahead' } })
  t.is(submit(handle, head({ 8: 2, 12: 100, 17: 1 })), 0)
  const { model } = JSON.parse(receipt(handle, 1) ?? 'null')
  t.is(model.rows.length, 2)
  t.true(model.again.agrees)
})

test('numbers that are no numbers of turns, tokens or times change nothing', (t) => {
  const handle = open()
  t.is(submit(handle), 0)
  const usage = (...numbers: number[]) => Float64Array.from(numbers)
  const lengths = new Uint32Array(2)
  for (const id of [Number.NaN, -1, 0.5, Number.POSITIVE_INFINITY]) {
    t.throws(() => cancelTurn(handle, 1e6, id, false, out()), { code: 'WARMPATH_INVALID_ARGUMENT' })
    t.is(receipt(handle, id), null)
  }
  t.false(cancelTurn(handle, 1e6, 999, true, out()))
  t.false(holdState(handle, 999, new Float64Array(29)))
  t.throws(() => rerouteTurn(handle, 1e6, 999, false, out()), { code: 'WARMPATH_UNKNOWN_ID' })
  t.throws(() => completeTurn(handle, 1e6, 1, usage(1), lengths, NONE.ids, out()), {
    code: 'WARMPATH_INVALID_ARGUMENT',
  })
  t.throws(
    () => completeTurn(handle, 1e6, 1, usage(1, 1, 1, 1), new Uint32Array(0), NONE.ids, out()),
    {
      code: 'WARMPATH_INVALID_ARGUMENT',
    },
  )
  for (const now of [Number.NaN, -5, Number.POSITIVE_INFINITY, 0]) pollScheduler(handle, now, out())
  t.throws(() => pollScheduler(handle, 1e6, new Float64Array(3)), {
    code: 'WARMPATH_INVALID_ARGUMENT',
  })
  const odd = usage(Number.NaN, -3, 1e300, 7)
  t.true(completeTurn(handle, 1e6, 1, odd, lengths, NONE.ids, out()))
  t.false(completeTurn(handle, 1e6, 1, odd, lengths, NONE.ids, out()))
  t.like(JSON.parse(receipt(handle, 1) ?? '{}').outcome, {
    promptTokens: null,
    cachedTokens: null,
    completionTokens: 0xffff_ffff,
  })
})

test('options and workers are read strictly', (t) => {
  const code = 'WARMPATH_INVALID_ARGUMENT'
  t.throws(() => openScheduler('{', () => {}), { code })
  t.throws(() => open({ ...OPTIONS, groops: [] }), { code, message: /groops/ })
  t.throws(() => open({ ...OPTIONS, groups: [{ blockTokens: 0 }] }), { code, message: /block/ })
  t.throws(() => open({ ...OPTIONS, score: { overlapCredit: -1 } }), { code })
  const twice = [OPTIONS.workers[0], OPTIONS.workers[0]]
  t.throws(() => open({ ...OPTIONS, workers: twice }), { code: 'WARMPATH_DUPLICATE_ID' })
  const handle = open()
  const add = (worker: object) => addWorker(handle, 1e6, JSON.stringify(worker), out())
  t.throws(() => add({ name: 'b', group: 0, capacityTokens: 0 }), { code })
  t.throws(() => add({ name: 'b', group: 4 }), { code: 'WARMPATH_UNKNOWN_ID' })
  t.throws(() => add({ name: '', group: 0 }), { code })
  t.throws(() => add({ name: 'b', group: 0, capacityTokens: 2 ** 70 }), { code })
  t.is(add({ name: 'b', group: 0, capacityTokens: 2 ** 53 }), 1)
  t.throws(() => setHealth(handle, 1e6, 9, 0, out()), { code: 'WARMPATH_UNKNOWN_ID' })
  t.throws(() => setHealth(handle, 1e6, 0, 5, out()), { code })
})

test('a name that could not be opened is free', (t) => {
  const name = 'addon-spec'
  t.throws(() => sharedScheduler(name, '[]', () => {}))
  t.notThrows(() => sharedScheduler(name, JSON.stringify(OPTIONS), () => {}))
})
