/** What a scheduler learns of its workers' times is in its receipts, and is learnt again from a recording. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { jsonl, Scheduler } from '../src/index.js'
import { verifyDecisions } from '../src/workload.js'
import { folder, lines } from './support/trace.js'

/** Two workers, the second three times as slow; the last receipt. */
async function recorded(path: string, score: { pace?: number }) {
  let now = 1_700_000_000_000
  const workers = ['a', 'b'].map((id) => ({ id, url: `http://${id}`, capacityTokens: 1_000_000 }))
  const scheduler = new Scheduler({
    workers,
    score,
    clock: () => now,
    trace: { sink: jsonl({ path }), receipts: 'full' },
  })
  const took: string[] = []
  const submit = (n: number) => {
    const hashes = BigUint64Array.from({ length: 40 }, (_, at) => BigInt(n * 1_000 + at))
    const body = { model: 'm', messages: [{ role: 'user', content: `${n}` }] }
    return scheduler.submit({ path: '/v1/chat/completions', body, hashes })
  }
  for (let n = 0; n < 60; n += 1) {
    const turn = await submit(n)
    took.push(turn.worker)
    const times = turn.worker === 'b' ? 3 : 1
    now += 60 * times
    turn.firstToken()
    now += 400 * times
    turn.complete({ promptTokens: 2_560, cachedTokens: 0, completionTokens: 41 })
  }
  const last = await submit(99)
  const receipt = last.receipt()
  last.fail()
  scheduler.close()
  await scheduler.flush()
  return { receipt, took }
}

test('what was learnt is in the rows, and verify learns it again', async (t) => {
  const file = join(folder(t), 'slow.jsonl')
  const { receipt, took } = await recorded(file, {})
  t.true(took.includes('b'), 'nobody is known at first')
  t.deepEqual([...new Set(took.slice(-20))], ['a'])
  const rows = Object.fromEntries(receipt?.candidates.map((row) => [row.worker, row]) ?? [])
  const over = (name: 'prefillPace' | 'decodePace') => (rows.b?.[name] ?? 0) / (rows.a?.[name] ?? 1)
  t.true(over('prefillPace') > 1.5 && over('prefillPace') < 4, `${over('prefillPace')}`)
  t.true(over('decodePace') > 1.5 && over('decodePace') < 4, `${over('decodePace')}`)

  const { difference, decisions, of, alone } = await verifyDecisions([file])
  t.deepEqual([difference, alone, decisions], [null, {}, of])
  t.true(of >= 60)

  const changed = lines(file).map((line) =>
    line.replace(/"prefillPace":(?!1[,}])[\d.]+/, '"prefillPace":9'),
  )
  const other = join(folder(t), 'other.jsonl')
  writeFileSync(other, `${changed.join('\n')}\n`)
  t.truthy((await verifyDecisions([other])).difference, 'a receipt that says otherwise is found')
})

test('without it everybody is usual', async (t) => {
  const { receipt, took } = await recorded(join(folder(t), 'off.jsonl'), { pace: 0 })
  t.true(took.slice(-20).includes('b'))
  const paces = receipt?.candidates.map(({ prefillPace, decodePace }) => [prefillPace, decodePace])
  t.deepEqual(paces, [
    [1, 1],
    [1, 1],
  ])
})
