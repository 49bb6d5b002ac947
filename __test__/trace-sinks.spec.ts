/** Where records go: queues that are full, sinks that fail, and who is told when it is over. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import test from 'ava'
import {
  diagnostics,
  env,
  otel,
  Scheduler,
  type SchedulerOptions,
  type TraceRecord,
  type TraceSink,
  WarmpathError,
} from '../src/index.js'
import { chat, fleet, settled } from './support/requests.js'
import { memory } from './support/trace.js'
import { record } from './support/trace-record.js'

async function turns(scheduler: Scheduler, count: number): Promise<void> {
  for (let at = 0; at < count; at += 1) (await scheduler.submit(chat(`s${at}`))).complete()
}

/** A sink whose writes wait until they are let go. */
function slow() {
  const batches: number[] = []
  let go = () => {}
  const sink: TraceSink = {
    write(records) {
      batches.push(records.length)
      return new Promise((resolve) => {
        go = resolve
      })
    },
  }
  return { sink, batches, go: () => go() }
}

test('a full queue drops records and counts them; turns do not wait', async (t) => {
  const { sink, batches, go } = slow()
  const { records, sink: other } = memory()
  using given = fleet({ trace: { sink: [sink, other], queue: 4 } })
  const { scheduler } = given
  await turns(scheduler, 1)
  await settled()
  t.deepEqual(batches, [1])
  for (let round = 0; round < 3; round += 1) {
    await turns(scheduler, 3)
    for (let at = 0; at < 5; at += 1) await settled()
  }
  t.is(records.length, 10)
  t.deepEqual(scheduler.status().trace, { written: 10, dropped: 5, lost: 0, waiting: 4 })
  const flushed = scheduler.flush()
  for (let at = 0; at < 5; at += 1) {
    go()
    await settled()
  }
  await flushed
  t.deepEqual(batches, [1, 4])
  t.deepEqual(scheduler.status().trace, { written: 15, dropped: 5, lost: 0, waiting: 0 })
})

test('a sink that fails loses its records, is said to fail once, and goes on', async (t) => {
  const said: string[] = []
  const log = (_: object, message: string) => void said.push(message)
  const logger = { debug: () => {}, info: () => {}, warn: () => {}, error: log }
  const taken: TraceRecord[] = []
  let isBroken = true
  const sink = async (record: TraceRecord) => {
    if (isBroken) throw new Error('no')
    taken.push(record)
  }
  using given = fleet({ logger, trace: { sink } })
  await turns(given.scheduler, 3)
  await given.scheduler.flush()
  isBroken = false
  await turns(given.scheduler, 2)
  await given.scheduler.flush()
  t.deepEqual(given.scheduler.status().trace, { written: 2, dropped: 0, lost: 3, waiting: 0 })
  t.is(taken.length, 2)
  t.deepEqual(said, ['a trace sink fails'])
})

test('closing waits for turns that run, then closes the sinks; flush waits for that', async (t) => {
  const calls: string[] = []
  const sink: TraceSink = {
    open: () => void calls.push('open'),
    write: (records) => void calls.push(`write ${records.length}`),
    close: async () => void calls.push('close'),
  }
  const { scheduler } = fleet({ trace: { sink } })
  const running = await scheduler.submit(chat('s'))
  await turns(scheduler, 1)
  scheduler.close()
  await scheduler.flush()
  t.deepEqual(calls, ['open', 'write 1'])
  running.complete()
  await scheduler.flush()
  t.deepEqual(calls, ['open', 'write 1', 'write 1', 'close'])
})

test('await using closes and flushes', async (t) => {
  const { records, sink } = memory()
  const calls: string[] = []
  const workers = [{ url: 'http://a' }]
  {
    const closing: TraceSink = { write: () => {}, close: () => void calls.push('closed') }
    await using scheduler = new Scheduler({ workers, trace: { sink: [sink, closing] } })
    await turns(scheduler, 2)
  }
  t.is(records.length, 2)
  t.deepEqual(calls, ['closed'])
})

test('when a sink cannot be opened, those before it are closed', async (t) => {
  const calls: string[] = []
  const good: TraceSink = { write: () => {}, close: () => void calls.push('closed') }
  const bad: TraceSink = {
    write: () => {},
    open: () => {
      throw new Error('no')
    },
  }
  t.throws(() => fleet({ trace: { sink: [good, bad] } }), { message: 'no' })
  await settled()
  t.deepEqual(calls, ['closed'])
})

test('diagnostics_channel is the default, and silent while nobody listens', async (t) => {
  using given = fleet({ trace: {} })
  const { scheduler } = given
  await turns(scheduler, 1)
  t.deepEqual(scheduler.status().trace, { written: 0, dropped: 0, lost: 0, waiting: 0 })
  const heard: TraceRecord[] = []
  const hear = (message: unknown) => void heard.push(message as TraceRecord)
  subscribe('warmpath:trace', hear)
  t.teardown(() => unsubscribe('warmpath:trace', hear))
  await turns(scheduler, 2)
  await scheduler.flush()
  t.deepEqual(
    heard.map(({ event }) => event.warmpath.session),
    ['s0', 's1'],
  )
  t.is(heard[0]?.event.warmpath.turn, 0)
})

test('without the option there is no trace in the status and nothing is said', async (t) => {
  const heard: unknown[] = []
  const hear = (message: unknown) => void heard.push(message)
  subscribe('warmpath:trace', hear)
  t.teardown(() => unsubscribe('warmpath:trace', hear))
  using given = fleet()
  await turns(given.scheduler, 1)
  await given.scheduler.flush()
  t.false('trace' in given.scheduler.status())
  t.deepEqual(heard, [])
})

test('records that gather are written when half the queue is full, else in time', async (t) => {
  const batches: number[] = []
  const sink = {
    gatherMs: 30,
    write: (records: readonly TraceRecord[]) => void batches.push(records.length),
  }
  using given = fleet({ trace: { sink, queue: 8 } })
  await turns(given.scheduler, 3)
  await settled()
  t.deepEqual(batches, [])
  await new Promise((resolve) => setTimeout(resolve, 80))
  t.deepEqual(batches, [3])
  await turns(given.scheduler, 5)
  await settled()
  t.deepEqual(batches, [3, 5])
})

/** A tracer that writes down what it is asked. */
function tracer() {
  const calls: unknown[][] = []
  const span = {
    addEvent: (...given: unknown[]) => calls.push(['event', ...given]),
    setStatus: (...given: unknown[]) => calls.push(['status', ...given]),
    end: (...given: unknown[]) => void calls.push(['end', ...given]),
  }
  const startSpan = (...given: unknown[]) => {
    calls.push(['start', ...given])
    return span
  }
  return { calls, tracer: { startSpan } }
}

test('a span has the times and figures of its turn, and no blocks', async (t) => {
  const { calls, tracer: given } = tracer()
  const made = record(90)
  await otel({ tracer: given }).write([made])
  const { received, end } = made.event.warmpath.timings
  t.deepEqual(calls, [
    [
      'start',
      'chat m',
      {
        kind: 2,
        startTime: received,
        attributes: {
          'gen_ai.operation.name': 'chat',
          'gen_ai.request.model': 'm',
          'gen_ai.conversation.id': 's',
          'gen_ai.usage.input_tokens': 192,
          'gen_ai.usage.output_tokens': 5,
          'gen_ai.usage.cache_read.input_tokens': 64,
          'gen_ai.response.finish_reasons': ['stop'],
          'warmpath.request_id': '90',
          'warmpath.turn': 90,
          'warmpath.phase': 'reasoning',
          'warmpath.worker': 0,
          'warmpath.rank': 0,
          'warmpath.predicted_cached_tokens': 60,
          'warmpath.blocks': 3,
          'warmpath.held_ms': 20,
          'warmpath.tools': ['read_file'],
          'warmpath.receipt_id': '90',
        },
      },
    ],
    ['event', 'warmpath.go', { 'warmpath.held_ms': 20 }, received + 20],
    ['event', 'warmpath.first_token', {}, received + 50],
    ['end', end],
  ])
})

test('a turn that failed is a span with an error', async (t) => {
  const { calls, tracer: given } = tracer()
  using turns_ = fleet({ trace: { sink: otel({ tracer: given }) } })
  const turn = await turns_.scheduler.submit(chat('s'))
  turn.fail(new Error('reset'))
  await turns_.scheduler.flush()
  t.deepEqual(
    calls.map(([call]) => call),
    ['start', 'status', 'end'],
  )
})

test('what is wrong with options is said by name, and never with the key', (t) => {
  const refusal = (trace: unknown) => {
    const options = { workers: [{ url: 'http://a' }], trace } as SchedulerOptions
    const error = t.throws(() => new Scheduler(options))
    t.true(WarmpathError.is(error) && error.code === 'WARMPATH_CONFIG')
    return error?.message ?? ''
  }
  t.regex(refusal(true), /^trace: must be an object/)
  t.regex(refusal({ sinks: [] }), /^trace\.sinks: unknown field/)
  t.regex(refusal({ sink: [] }), /^trace\.sink: needs at least one/)
  t.regex(refusal({ sink: 'file' }), /^trace\.sink: must be a sink/)
  t.regex(refusal({ sink: [diagnostics(), {}] }), /^trace\.sink\[1\]\.write: must be a function/)
  const one = diagnostics()
  t.regex(refusal({ sink: [one, one] }), /^trace\.sink: has the same sink twice/)
  t.regex(refusal({ sink: { write() {}, close: 1 } }), /^trace\.sink\.close: must be a function/)
  t.regex(refusal({ sink: { write() {}, gatherMs: -1 } }), /^trace\.sink\.gatherMs: /)
  t.regex(refusal({ queue: 0 }), /^trace\.queue: /)
  t.regex(refusal({ bytesPerToken: 0 }), /^trace\.bytesPerToken: /)
  t.regex(refusal({ receipts: 'all' }), /^trace\.receipts: must be one of id, full/)
  t.regex(refusal({ content: ['prompt'] }), /^trace\.content: unknown field/)
  t.is(
    refusal({ key: 'hunter2' }),
    'trace.key: must be 16 bytes, 32 hex digits or a text of at least 16 characters, got a text of 7',
  )
  t.regex(refusal({ key: new Uint8Array(15) }), /got 15 bytes$/)
  t.regex(refusal({ key: 5 }), /got number$/)
  t.regex(refusal({ key: undefined }), /got undefined$/)
  t.regex(refusal({ key: env('WARMPATH_NOT_SET') }), /variable WARMPATH_NOT_SET must be set$/)
  t.throws(() => otel({} as never), { message: /^otel\.tracer: must be a tracer/ })
})

const never = () => new Promise<void>(() => {})
const mute = { debug: () => {}, info: () => {}, warn: () => {} }

const HUNG: Record<string, { sink: TraceSink; lost: number }> = {
  'never ends a write': { sink: { write: never }, lost: 3 },
  'never closes': { sink: { write: () => {}, close: never }, lost: 0 },
  'neither writes nor closes': { sink: { write: never, close: never }, lost: 3 },
}

for (const [what, { sink, lost }] of Object.entries(HUNG)) {
  test(`a sink that ${what} holds the end up only so long`, async (t) => {
    const errors: string[] = []
    const logger = { ...mute, error: (_: object, message: string) => void errors.push(message) }
    const { records, sink: other } = memory()
    const trace = { sink: [sink, other], giveUpSeconds: 0.05 }
    const given = fleet({ trace, logger })
    await turns(given.scheduler, 1)
    await settled()
    await turns(given.scheduler, 2)
    await given.scheduler[Symbol.asyncDispose]()
    t.is(records.length, 3)
    t.like(given.scheduler.status().trace, { lost, written: 6 - lost, waiting: 0 })
    t.deepEqual(errors, ['a trace sink fails'])
    // Whoever flushes once more does not wait for it again.
    await given.scheduler.flush()
  })
}

test('a sink that answers after all has lost what was given up, and goes on', async (t) => {
  const { sink, batches, go } = slow()
  using given = fleet({ trace: { sink, giveUpSeconds: 0.02 } })
  const { scheduler } = given
  await turns(scheduler, 2)
  await scheduler.flush()
  t.deepEqual(scheduler.status().trace, { written: 0, dropped: 0, lost: 2, waiting: 0 })
  go()
  await settled()
  await turns(scheduler, 1)
  await settled()
  go()
  await settled()
  t.deepEqual(batches, [2, 1])
  t.deepEqual(scheduler.status().trace, { written: 1, dropped: 0, lost: 2, waiting: 0 })
})
