/** The choice of model: what its options mean, and what a turn and its receipt say of it. */
import test, { type ExecutionContext } from 'ava'
import { renderReceipt } from '../src/cli/render.js'
import { nativeOptions, resolve } from '../src/config/index.js'
import {
  type BaseRuleOptions,
  Scheduler,
  type SchedulerOptions,
  type TurnRequest,
} from '../src/index.js'

const WORKERS = ['a', 'b'].map((id) => ({ id, url: `http://${id}` }))
const CHEAP = { input: 0.2, output: 0.8, cached: 0.02 }
const WEAK = { target: 'weak' }
const DEAR = { input: 10, output: 50, cached: 1 }

/** A cheap and a dear model behind one name; what is given of the targets goes over that. */
function options(
  continuity: SchedulerOptions['continuity'] = {},
  { weak = {}, strong = {} }: { weak?: object; strong?: object } = {},
): SchedulerOptions {
  return {
    workers: WORKERS,
    targets: {
      weak: { workers: ['a'], grade: 'small', price: CHEAP, ...weak },
      strong: { workers: ['b'], grade: 'large', price: DEAR, ...strong },
    },
    aliases: { auto: ['weak', 'strong'] },
    continuity,
  }
}

function open(t: ExecutionContext, given: SchedulerOptions): Scheduler {
  const scheduler = new Scheduler(given)
  t.teardown(() => scheduler.close())
  return scheduler
}

/** A conversation of so many questions; each turn begins with all of the last one. */
function request(questions: number, more: Partial<TurnRequest> = {}): TurnRequest {
  const messages = Array.from({ length: questions }, (_, n) => [
    ...(n === 0 ? [] : [{ role: 'assistant', content: 'Yes.' }]),
    { role: 'user', content: `Question ${n}: ${'why? '.repeat(400)}` },
  ]).flat()
  return {
    path: '/v1/chat/completions',
    session: 's',
    body: { model: 'auto', messages },
    ...more,
  }
}

/** Submits, answers and ends a turn. */
async function turn(scheduler: Scheduler, asked: TurnRequest) {
  const going = await scheduler.submit(asked)
  going.complete({ promptTokens: going.promptTokens, completionTokens: 50 })
  const receipt = going.receipt()
  if (receipt === undefined) throw new Error('the receipt is gone')
  return { target: going.target, reason: going.reason, receipt }
}

const policyOf = (given: SchedulerOptions) => resolve(given).continuity.policy

test('lookahead is the default only where every model of a choice has a price and a grade', (t) => {
  t.is(policyOf(options()), 'lookahead')
  t.is(policyOf(options({}, { weak: { price: undefined } })), 'bound')
  t.is(policyOf(options({}, { strong: { grade: undefined } })), 'bound')
  // Two accounts of one model are no choice of model.
  t.is(policyOf(options({}, { weak: { model: 'm' }, strong: { model: 'm' } })), 'bound')
  t.is(policyOf({ ...options(), aliases: { one: ['weak'], other: ['strong'] } }), 'bound')
  t.is(policyOf({ workers: WORKERS }), 'bound')
  t.is(policyOf(options({ policy: 'sticky' })), 'sticky')
})

test('prices come from the target, else from the catalogue; the cache from what is published', (t) => {
  const prices = {
    'claude-sonnet-5': { input_cost_per_token: 3e-6, output_cost_per_token: 15e-6 },
    strong: { input_cost_per_token: 1e-6, output_cost_per_token: 2e-6 },
  }
  const hosted = { model: 'claude-sonnet-5', provider: 'anthropic', price: undefined }
  const given = options({ prices }, { weak: hosted, strong: { price: undefined } })
  const { targets } = JSON.parse(nativeOptions(resolve(given)))
  t.deepEqual(
    targets.map((target: { model: object }) => target.model),
    [
      { grade: 'small', price: { input: 3, output: 15, cached: 0.3, write: 3.75 } },
      { grade: 'large', price: { input: 1, output: 2, cached: 1, write: 1 } },
    ],
  )
})

for (const [field, given] of [
  ['targets.weak.price.input', options({}, { weak: { price: { output: 1 } } })],
  ['targets.weak.price.output', options({}, { weak: { price: { input: 1, output: -1 } } })],
  ['targets.weak.price.cached', options({}, { weak: { price: { ...CHEAP, cached: Number.NaN } } })],
  ['targets.weak.price.batch', options({}, { weak: { price: { ...CHEAP, batch: 1 } } })],
  ['targets.weak.grade', options({}, { weak: { grade: 'tiny' } })],
  ['targets.weak.quality', options({}, { weak: { quality: 2 } })],
  ['targets.weak.contextTokens', options({}, { weak: { contextTokens: 0.5 } })],
  ['continuity.policy', options({ policy: 'best' as never })],
  ['continuity.lambda', options({ lambda: -1 })],
  ['continuity.fee', options({ policy: 'saar', fee: 1 })],
  ['continuity.saar', options({ policy: 'sticky', saar: {} })],
  ['continuity.grade', options({ grade: 'large' })],
  ['continuity.saar.expectedTurns', options({ policy: 'saar', saar: { expectedTurns: 0 } })],
  ['continuity.ownerDown.toolLoop', options({ ownerDown: { toolLoop: 'hope' as never } })],
  ['continuity.ownerDown.waitSeconds', options({ ownerDown: { waitSeconds: 601 } })],
  ['continuity.ownerDown.waitSeconds', options({ ownerDown: { waitSeconds: 0 } })],
  ['continuity.base', options({ base: {} as never })],
  ['continuity.base[0].target', options({ base: [{ target: 'auto' }] })],
  ['continuity.base[1].minTokens', options({ base: [WEAK, { ...WEAK, minTokens: -1 }] })],
  ['continuity.base[0].maxTokens', options({ base: [{ ...WEAK, minTokens: 9, maxTokens: 8 }] })],
  ['continuity.base[0].phase', options({ base: [{ ...WEAK, phase: 'acting' as never }] })],
  ['continuity.base[0].images', options({ base: [{ ...WEAK, images: 'yes' as never }] })],
  ['continuity.base[0].model', options({ base: [{ ...WEAK, model: 'm' } as never] })],
  ['targets.weak.images', options({}, { weak: { images: 1 } })],
  ['targets.weak.outputTokens', options({}, { weak: { outputTokens: 0 } })],
  ['continuity.lamda', options({ lamda: 1 } as never)],
] as const) {
  test(`refused with its field: ${field} ${JSON.stringify(given.continuity)}`, (t) => {
    const error = t.throws(() => resolve(given as SchedulerOptions), { code: 'WARMPATH_CONFIG' })
    t.true(error?.message.startsWith(`${field}: `), error?.message)
  })
}

test('the base choice, and another task, come from the caller', async (t) => {
  const scheduler = open(t, options({ policy: 'saar' }))
  const first = await turn(scheduler, request(1, { base: 'strong' }))
  t.is(first.target, 'strong')
  t.deepEqual(first.reason, { isSwitch: false, reason: 'first' })
  const second = await turn(scheduler, request(2, { base: 'weak' }))
  t.deepEqual([second.target, second.reason?.reason], ['strong', 'cost-blocks'])
  const third = await turn(scheduler, request(3, { base: 'weak', drift: true }))
  t.is(third.target, 'weak')
  t.deepEqual(third.reason, { isSwitch: true, reason: 'drift' })
  t.like(third.receipt.model, { boundary: 'drift', before: 'strong', asked: 'weak', turns: 2 })
  await t.throwsAsync(scheduler.submit(request(1, { base: 'other' })), {
    code: 'WARMPATH_INVALID_ARGUMENT',
  })
  await t.throwsAsync(scheduler.submit(request(1, { route: 'x'.repeat(257) })), {
    code: 'WARMPATH_INVALID_ARGUMENT',
  })
})

test('sessions of one route teach each other', async (t) => {
  const scheduler = open(t, options())
  const expected = async (session: string, route: string) => {
    const { receipt } = await turn(scheduler, request(1, { session, route }))
    const weighed = receipt.model?.weighed
    if (!weighed || !('expectedTurns' in weighed)) throw new Error('lookahead did not decide')
    return weighed.expectedTurns
  }
  const before = await expected('first', 'short')
  for (let n = 0; n < 60; n += 1) {
    const [session, long] = [`short-${n}`, `long-${n}`]
    await turn(scheduler, request(1, { session, route: 'short' }))
    await turn(scheduler, request(2, { session, route: 'short' }))
    scheduler.endSession(session)
    for (let questions = 1; questions < 8; questions += 1) {
      await turn(scheduler, request(questions, { session: long, route: 'long' }))
    }
    scheduler.endSession(long)
  }
  const [short, long] = [await expected('last', 'short'), await expected('other', 'long')]
  t.true(short < before, `${short} after ${before}`)
  t.true(short < 2, `${short} turns after the first of two`)
  t.true(long > 4, `${long} turns after the first of seven`)
})

test('a policy that watches changes nothing and is in the receipt', async (t) => {
  const scheduler = open(t, options({ policy: 'sticky', shadow: 'lookahead', lambda: 1 }))
  await turn(scheduler, request(1))
  const { target, receipt } = await turn(scheduler, request(2, { base: 'strong' }))
  t.is(target, 'weak')
  t.deepEqual(receipt.model?.shadow, {
    policy: 'lookahead',
    target: 'strong',
    reason: 'cheapest',
  })
})

test('what is not known of a model is said, and earns no credit', async (t) => {
  const unknown = { price: { input: 1, output: 2 } }
  const given = options({ policy: 'lookahead' }, { weak: unknown, strong: { price: undefined } })
  const scheduler = open(t, given)
  await turn(scheduler, request(1, { base: 'weak' }))
  const { receipt } = await turn(scheduler, request(2, { base: 'weak' }))
  const [weak, strong] = receipt.model?.rows ?? []
  t.deepEqual(weak?.price, { input: 1, output: 2, cached: 1, write: 1, cache: 'unknown' })
  t.is(strong?.price, null)
  const text = renderReceipt(receipt)
  t.regex(text, /^weak: what its cache costs is not known; no credit for what is cached\.$/m)
  t.regex(text, /^strong: no price is known; taken to be free\.$/m)
})

test('a receipt is read from the top: who decided, whether it comes out again, the terms', async (t) => {
  const scheduler = open(t, options({ lambda: 0.2 }))
  await turn(scheduler, request(1, { base: 'weak' }))
  const { receipt } = await turn(scheduler, request(2, { base: 'strong' }))
  const text = renderReceipt(receipt)
  t.regex(text, /^model +switch from weak: cheapest \(policy lookahead, base choice strong\)$/m)
  t.regex(text, /^again +computed from this receipt alone: strong, cheapest: the same$/m)
  t.regex(text, /^> strong +large +0\.940 +0 +10 +1 +10 +50 +0\.0\d+ /m)
  t.regex(text, /^Weighed: answerTokens .*, lambda 0\.200, lockNext /m)
})

test('the base choice is by the first rule that a turn meets, unless the caller makes it', async (t) => {
  const base: BaseRuleOptions[] = [
    { images: true, target: 'strong' },
    { phase: 'tool-loop', maxTokens: 100_000, target: 'strong' },
    { tools: true, target: 'strong' },
    { maxTokens: 900, target: 'weak' },
    { minTokens: 901, target: 'strong' },
  ]
  const scheduler = open(t, options({ policy: 'single-turn', base }))
  const said = (content: unknown, more: object = {}) => ({
    body: { model: 'auto', messages: [{ role: 'user', content }], ...more },
  })
  const image = [{ type: 'image_url', image_url: { url: 'x' } }]
  const asking = { role: 'assistant', tool_calls: [{ id: 'c', type: 'function', function: {} }] }
  const answering = [asking, { role: 'tool', tool_call_id: 'c', content: 'done' }]
  for (const [more, target, rule] of [
    [said('Hi.'), 'weak', 3],
    [said(image), 'strong', 0],
    [said('Hi.', { messages: answering }), 'strong', 1],
    [said('Hi.', { tools: [{ type: 'function' }] }), 'strong', 2],
    [said('word '.repeat(2_000)), 'strong', 4],
    [{ ...said('word '.repeat(2_000)), base: 'weak' }, 'weak', null],
  ] as const) {
    const { target: found, receipt } = await turn(scheduler, { ...request(1), ...more })
    t.deepEqual([found, receipt.model?.asked, receipt.model?.rule], [target, target, rule])
  }
})

test('prices change while it runs, checked as at the start', async (t) => {
  const scheduler = open(t, options({ policy: 'lookahead', lambda: 0 }))
  const { target, receipt } = await turn(scheduler, request(1, { session: 'a' }))
  t.deepEqual([target, receipt.model?.rows[1]?.price?.input], ['weak', 10])
  scheduler.setPrice('strong', { input: 0.01, output: 0.02 })
  const after = await turn(scheduler, request(1, { session: 'b' }))
  t.is(after.target, 'strong')
  const expected = { input: 0.01, cached: 0.01, write: 0.01, output: 0.02, cache: 'unknown' }
  t.deepEqual(after.receipt.model?.rows[1]?.price, expected)
  for (const price of [{ input: -1, output: 1 }, { input: 1 }, { input: Number.NaN, output: 1 }]) {
    const error = t.throws(() => scheduler.setPrice('weak', price as never), {
      code: 'WARMPATH_CONFIG',
    })
    t.regex(error?.message ?? '', /^targets\.weak\.price\.(input|output): must be/)
  }
  t.throws(() => scheduler.setPrice('weak', undefined as never), {
    code: 'WARMPATH_INVALID_ARGUMENT',
  })
  t.throws(() => scheduler.setPrice('nobody', { input: 1, output: 1 }), {
    code: 'WARMPATH_UNKNOWN_ID',
  })
})

test('an owner that is down: the turn is refused, or free where the options say so', async (t) => {
  for (const toolLoop of ['fail', 'escape'] as const) {
    const scheduler = open(t, options({ policy: 'locks-only', ownerDown: { toolLoop } }))
    const called = await scheduler.submit(request(1, { base: 'weak' }))
    called.complete({ promptTokens: 10, completionTokens: 5 }, { toolCalls: ['call_1'] })
    scheduler.setHealth('a', 'down')
    const messages = [
      { role: 'user', content: 'Question' },
      {
        role: 'assistant',
        tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'ls', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'call_1', content: 'a.txt' },
    ]
    const result = scheduler.submit(request(1, { body: { model: 'auto', messages } }))
    if (toolLoop === 'fail') {
      await t.throwsAsync(result, { code: 'WARMPATH_OWNER_UNAVAILABLE' })
      continue
    }
    const escaped = await result
    t.is(escaped.target, 'strong')
    t.true(escaped.receipt()?.lock.escaped)
    escaped[Symbol.dispose]()
  }
})
