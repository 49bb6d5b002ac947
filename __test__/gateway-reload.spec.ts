/** A gateway that goes over to other workers: all of what changed, or nothing. */
import test, { type ExecutionContext } from 'ava'
import type { SchedulerOptions } from '../src/index.js'
import { openGateway, until } from './gateway-support.js'
import { chat } from './support/requests.js'

type Workers = NonNullable<SchedulerOptions['workers']>

const worker = (id: string, more: object = {}): Workers[number] => ({
  id,
  url: `http://${id}.invalid`,
  ...more,
})

async function opened(t: ExecutionContext, scheduler: SchedulerOptions) {
  const gateway = await openGateway(t, { scheduler })
  const reload = (next: SchedulerOptions) => gateway.reload({ scheduler: next })
  const status = () => gateway.scheduler.status().workers
  return { scheduler: gateway.scheduler, reload, status }
}

test('an idle worker that has changed is replaced once, and those after it come', async (t) => {
  const { reload, status } = await opened(t, {
    workers: [worker('a', { capacityTokens: 100_000 })],
  })
  const next = { workers: [worker('a', { capacityTokens: 200_000 }), worker('b'), worker('c')] }
  t.is(reload(next), '3 workers came, 1 leave')
  t.deepEqual(
    status().map(({ id, capacityTokens, health }) => [id, capacityTokens, health]),
    [
      ['a', 200_000, 'up'],
      ['b', null, 'up'],
      ['c', null, 'up'],
    ],
  )
  t.is(reload(next), '0 workers came, 0 leave')
})

test('a worker that has changed while it is busy comes back when its turn has ended', async (t) => {
  const { scheduler, reload, status } = await opened(t, { workers: [worker('a')] })
  const turn = await scheduler.submit(chat('s'))
  reload({ workers: [worker('a', { capacityTokens: 5_000 }), worker('b')] })
  t.deepEqual(
    status().map(({ id, health }) => [id, health]),
    [
      ['a', 'draining'],
      ['b', 'up'],
    ],
  )
  turn.complete()
  await until(t, 'it is back', () =>
    status().some(({ id, capacityTokens }) => id === 'a' && capacityTokens === 5_000),
  )
})

test('a worker that comes or changes has all of its options', async (t) => {
  const { scheduler, reload, status } = await opened(t, { workers: [worker('a')] })
  const kvEvents = (port: number) => ({ endpoint: `tcp://127.0.0.1:${port}`, ranks: 2 })
  const headers = { 'x-key': 'k' }
  reload({
    workers: [
      worker('a', { kvEvents: kvEvents(1) }),
      worker('b', { kvEvents: kvEvents(3), headers }),
    ],
  })
  await until(t, 'both are listened to', () => {
    return status().every(({ events }) => events?.ranks.length === 2)
  })
  reload({ workers: [worker('b', { kvEvents: kvEvents(3), headers })] })
  t.is(scheduler.destination().headers()['x-key'], 'k')
})

test('what cannot be done as a whole is refused, and nothing has changed', async (t) => {
  const workers = [worker('a'), worker('b')]
  const apart = { one: { workers: ['a'] }, two: { workers: ['b'] } }
  const { scheduler, reload, status } = await opened(t, { workers, targets: apart })
  const code = 'WARMPATH_CONFIG'
  const ids = () => status().map(({ id }) => id)

  const together = { one: { workers: ['a', 'b'] }, two: { workers: ['a', 'b'] } }
  t.throws(() => reload({ workers, targets: together }), { code, message: /scheduler\.targets/ })
  scheduler.addWorker({ ...worker('c'), targets: ['one'] })
  const grown = { one: { workers: ['a', 'd', 'c'] }, two: { workers: ['b'] } }
  const all = [...workers, worker('d'), worker('c')]
  t.throws(() => reload({ workers: all, targets: grown }), { code, message: /"c" is known/ })
  t.deepEqual(ids(), ['a', 'b', 'c'])

  scheduler.removeWorker('c')
  t.is(reload({ workers: all, targets: grown }), '2 workers came, 0 leave')
  t.deepEqual(ids(), ['a', 'b', 'd', 'c'])
})
