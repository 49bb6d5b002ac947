import test from 'ava'
import { Catalog, env, nativeOptions, resolve, type SchedulerOptions } from '../src/config/index.js'
import { WarmpathError } from '../src/errors.js'

const worker = { url: 'http://10.0.0.1:8000' }

/** The message of the CONFIG error that these options give. */
function refusal(options: unknown, environment: NodeJS.ProcessEnv = {}): string {
  try {
    resolve(options as SchedulerOptions, environment)
  } catch (error) {
    if (WarmpathError.is(error) && error.code === 'WARMPATH_CONFIG') return error.message
    throw error
  }
  throw new Error('the options were accepted')
}

test('one worker is enough: one target that passes any model name through', (t) => {
  const config = resolve({ workers: [worker] })
  t.deepEqual(config.workers, [
    { name: '10.0.0.1:8000', url: 'http://10.0.0.1:8000', headers: {}, group: 0 },
  ])
  t.is(config.targets.length, 1)
  t.is(config.targets[0]?.model, undefined)
  const catalog = new Catalog(config.targets, config.aliases)
  t.deepEqual(catalog.targetsFor('anything', 'openai-chat'), ['default'])
  t.deepEqual(catalog.targetsFor(undefined, 'anthropic-messages'), ['default'])
  t.deepEqual(catalog.models(), [])
})

test('the native options carry every default', (t) => {
  const native = JSON.parse(nativeOptions(resolve({ workers: [worker] })))
  t.deepEqual(native, {
    groups: [{ blockTokens: 64 }],
    workers: [
      {
        name: '10.0.0.1:8000',
        group: 0,
        capacityTokens: null,
        detail: '{"url":"http://10.0.0.1:8000","headers":{}}',
      },
    ],
    targets: [
      {
        name: 'default',
        group: 0,
        model: {},
        cache: { name: '', perTenant: false },
        detail:
          '{"dialects":["openai-chat","openai-responses","anthropic-messages"],"auth":{"kind":"none"},"tokens":"text","card":{}}',
      },
    ],
    admission: {
      policy: 'none',
      pauseBp: 9500,
      targetBp: 8000,
      resumeBp: 8500,
      bufferTokens: 100,
      intervalMs: 5000,
      thetaBp: 5000,
      weights: {},
    },
    continuity: {
      policy: 'bound',
      toolOwnerDown: 'wait',
      stateOwnerDown: 'wait',
      ownerWaitMs: 30_000,
    },
    score: {
      overlapCredit: 1,
      overlapDecay: 0,
      prefillScale: 8,
      requestWeight: 0,
      queuePatience: 2,
      pace: 1,
      hostCredit: 0.75,
      diskCredit: 0.25,
      poolCredit: 0.25,
      temperature: 0,
    },
    pools: [],
    affinity: { mode: 'off', creditTokens: 4096 },
    limits: {
      sessions: 100_000,
      reservations: 100_000,
      receipts: 4096,
      blocks: 4_000_000,
      owners: 1_000_000,
      answerTokens: 16_000_000,
    },
    seed: 0,
  })
})

test('shares become whole basis points', (t) => {
  const hysteresis = { pause: 0.9, target: 0.333333, resume: 0.5 }
  const { admission } = resolve({ workers: [worker], admission: { hysteresis } }).settings
  t.deepEqual([admission.pauseBp, admission.targetBp, admission.resumeBp], [9000, 3333, 5000])
})

test('the dial of lease is a preset or a number', (t) => {
  const dial = (given: object) =>
    resolve({ workers: [worker], admission: { policy: 'lease', ...given } }).settings.admission
  t.is(dial({}).thetaBp, 5000)
  t.is(dial({ preset: 'tail' }).thetaBp, 3500)
  t.is(dial({ preset: 'throughput' }).thetaBp, 7000)
  t.is(dial({ theta: 0.8, forceAfterSeconds: 90 }).thetaBp, 8000)
  t.is(dial({ forceAfterSeconds: 90 }).forceAfterMs, 90_000)
  t.is(dial({ hostTokens: 4_000_000 }).hostTokens, 4_000_000)
})

test('targets with equal worker lists share a group, others have their own', (t) => {
  const workers = ['a', 'b', 'c'].map((id) => ({ id, url: `http://${id}` }))
  const config = resolve({
    workers,
    targets: {
      one: { workers: ['a', 'b'] },
      two: { workers: ['b', 'a'], model: 'org/two' },
      three: { workers: ['c'] },
    },
  })
  t.deepEqual(
    config.targets.map(({ name, group, model }) => [name, group, model]),
    [
      ['one', 0, 'one'],
      ['two', 0, 'org/two'],
      ['three', 1, 'three'],
    ],
  )
  t.deepEqual(
    config.workers.map(({ name, group }) => [name, group]),
    [
      ['a', 0],
      ['b', 0],
      ['c', 1],
    ],
  )
})

test('a hosted target brings its own worker, dialects and key header', (t) => {
  const config = resolve(
    { targets: { big: { provider: 'anthropic', credential: env('KEY') } } },
    { KEY: ' sk-1 ' },
  )
  t.deepEqual(config.workers, [
    { name: 'big', url: 'https://api.anthropic.com', headers: {}, group: 0 },
  ])
  t.deepEqual(config.targets[0]?.auth, { kind: 'header', name: 'x-api-key', value: 'sk-1' })
  t.deepEqual(config.targets[0]?.dialects, ['anthropic-messages'])
})

test('credentials of engines are bearer tokens; pass-through keeps the client its own', (t) => {
  const { targets } = resolve({
    workers: [worker],
    targets: { a: { credential: 'secret' }, b: { credential: 'pass-through' }, c: {} },
  })
  t.deepEqual(
    targets.map((target) => target.auth),
    [
      { kind: 'header', name: 'authorization', value: 'Bearer secret' },
      { kind: 'pass-through' },
      { kind: 'none' },
    ],
  )
})

test('a name is looked up as alias, target, upstream model; unknown ones list what there is', (t) => {
  const config = resolve({
    workers: [
      { id: 'a', url: 'http://a' },
      { id: 'b', url: 'http://b' },
    ],
    targets: {
      qwen: { model: 'Qwen/Qwen3-32B', workers: ['a'] },
      claude: { workers: ['b'], dialect: 'anthropic-messages' },
    },
    aliases: { auto: ['claude', 'qwen', 'claude'] },
  })
  const catalog = new Catalog(config.targets, config.aliases)
  t.deepEqual(catalog.targetsFor('auto', 'anthropic-messages'), ['claude', 'qwen'])
  t.deepEqual(catalog.targetsFor('auto', 'openai-chat'), ['qwen'])
  t.deepEqual(catalog.targetsFor('qwen', 'openai-chat'), ['qwen'])
  t.deepEqual(catalog.targetsFor('Qwen/Qwen3-32B', 'openai-chat'), ['qwen'])
  t.deepEqual(catalog.models(), ['auto', 'qwen', 'Qwen/Qwen3-32B', 'claude'])
  const unknown = t.throws(() => catalog.targetsFor('gpt', 'openai-chat'), {
    instanceOf: WarmpathError,
    code: 'WARMPATH_UNKNOWN_MODEL',
  })
  t.is(unknown?.message, 'unknown model "gpt"; available: auto, qwen, Qwen/Qwen3-32B, claude')
  t.throws(() => catalog.targetsFor(undefined, 'openai-chat'), { code: 'WARMPATH_UNKNOWN_MODEL' })
  t.throws(() => catalog.targetsFor('claude', 'openai-chat'), {
    code: 'WARMPATH_UNSUPPORTED_PATH',
  })
})

/** What the core is told of the caches of each group. */
function groupsOf(options: SchedulerOptions): unknown {
  return JSON.parse(nativeOptions(resolve(options, { KEY: 'k' }))).groups
}

test('rules of caches: a target its own, over what is for all', (t) => {
  const workers = ['a', 'b'].map((id) => ({ id, url: `http://${id}` }))
  const cache = { ttlSeconds: 60, unitTokens: 128, minTokens: 1024, blockTokens: 16 }
  const rules = { match: 'breakpoint', lookback: 7, refreshOnRead: false, automatic: true } as const
  const targets = {
    one: { workers: ['a'] },
    two: { workers: ['b'], cache: { ...rules, ttlSeconds: 3600 } },
    three: { workers: ['b'] },
  }
  t.deepEqual(groupsOf({ workers, cache, targets }), [
    { blockTokens: 16, ttlMs: 60_000, minTokens: 1024, unitTokens: 128 },
    { blockTokens: 16, ttlMs: 3_600_000, minTokens: 1024, ...rules },
  ])
})

test('rules of caches: of Anthropic as published, unless written otherwise', (t) => {
  const credential = env('KEY')
  const published = { match: 'breakpoint', ttlMs: 300_000, minTokens: 4096, lookback: 20 }
  const groups = (target: object, cache: object = {}) =>
    groupsOf({ targets: { t: { credential, ...target } }, cache })
  const anthropic = { provider: 'anthropic' }
  t.deepEqual(groups(anthropic), [{ blockTokens: 64, ...published }])
  t.deepEqual(groups({ ...anthropic, cache: { minTokens: 512 } }), [
    { blockTokens: 64, ...published, minTokens: 512 },
  ])
  t.deepEqual(groups({ ...anthropic, cache: { match: 'block' } }), [
    { blockTokens: 64, match: 'block', dropsUnseen: true },
  ])
  t.deepEqual(groups(anthropic, { ttlSeconds: 1 }), [
    { blockTokens: 64, ...published, ttlMs: 1000 },
  ])
  t.deepEqual(groups(anthropic, { match: 'block', unitTokens: 2 }), [
    { blockTokens: 64, match: 'block', unitTokens: 2, dropsUnseen: true },
  ])
  const hosted = [{ blockTokens: 64, dropsUnseen: true }]
  t.deepEqual(groups({ ...anthropic, dialect: 'openai-chat' }), hosted)
  t.deepEqual(groups({ provider: 'openai' }), hosted)
  const dialect = 'anthropic-messages'
  t.deepEqual(
    groupsOf({ workers: [worker], targets: { q: { dialect } } }),
    [{ blockTokens: 64 }],
    'an own engine is of no provider',
  )
})

const url = 'http://h'
const refusals: [title: string, options: unknown, message: RegExp][] = [
  ['no worker', {}, /^workers: needs at least one worker/],
  ['not an object', null, /^options: must be an object, got null/],
  ['a misspelt option', { workers: [worker], worker: 1 }, /^options\.worker: unknown field, known/],
  ['a misspelt worker field', { workers: [{ url, capacity: 1 }] }, /^workers\[0\]\.capacity: unk/],
  ['no address', { workers: [{}] }, /^workers\[0\]\.url: must be an absolute http:\/\/ or https/],
  ['another scheme', { workers: [{ url: 'tcp://h' }] }, /^workers\[0\]\.url: .*got "tcp:\/\/h"/],
  ['a relative address', { workers: [{ url: 'h:1' }] }, /^workers\[0\]\.url: /],
  ['a query', { workers: [{ url: 'http://h?a=1' }] }, /^workers\[0\]\.url: must not carry a query/],
  ['a password', { workers: [{ url: 'http://u:pw@h' }] }, /^workers\[0\]\.url: .*use `headers`$/],
  ['same ids', { workers: [{ url }, { url: 'http://h/v1' }] }, /^workers\[1\]\.id: ids must be/],
  [
    'an empty id',
    { workers: [{ id: '', url }] },
    /^workers\[0\]\.id: must be a string of 1 to 256/,
  ],
  ...[0, -1, Number.NaN, 2 ** 53, 1.5, Number.POSITIVE_INFINITY, '9'].map(
    (capacityTokens): [string, unknown, RegExp] => [
      `capacity ${JSON.stringify(capacityTokens)} ${String(capacityTokens)}`,
      { workers: [{ url, capacityTokens }] },
      /^workers\[0\]\.capacityTokens: must be a whole number from 1 to 9007199254740991, got /,
    ],
  ),
  [
    'a split header',
    { workers: [{ url, headers: { a: 'b\r\nc: d' } }] },
    /^workers\[0\]\.headers\.a: must be a non-empty string of printable Latin-1 characters, got s/,
  ],
  ...['content-length', 'Transfer-Encoding', 'connection', 'Host', 'expect', 'te', 'upgrade'].map(
    (header): [string, unknown, RegExp] => [
      `the header ${header}`,
      { workers: [{ url, headers: { 'x-a': 'b', [header]: '5' } }] },
      new RegExp(
        `^workers\\[0\\]\\.headers\\.${header}: is written by whoever opens the connection`,
      ),
    ],
  ),
  ['no target', { workers: [worker], targets: {} }, /^targets: needs at least one target/],
  [
    'an unknown worker',
    { workers: [{ id: 'a', url }], targets: { q: { workers: ['b'] } } },
    /^targets\.q\.workers\[0\]: must be a, got "b"/,
  ],
  [
    'a partly shared worker list',
    {
      workers: ['a', 'b', 'c'].map((id) => ({ id, url })),
      targets: { q: { workers: ['a', 'b'] }, r: { workers: ['b', 'c'] } },
    },
    /^targets\.r\.workers: must equal the list of target "q" or have no worker in common/,
  ],
  [
    'an unused worker',
    { workers: ['a', 'b'].map((id) => ({ id, url })), targets: { q: { workers: ['a'] } } },
    /^workers\[1\]\.id: every worker must serve a target, got unused "b"/,
  ],
  [
    'an alias to nowhere',
    { workers: [worker], targets: { q: {} }, aliases: { auto: ['q', 'r'] } },
    /^aliases\.auto\[1\]: must be q, got "r"/,
  ],
  [
    'an empty alias',
    { workers: [worker], aliases: { auto: [] } },
    /^aliases\.auto: needs at least/,
  ],
  [
    'a hosted target without key',
    { targets: { big: { provider: 'openai' } } },
    /^targets\.big\.credential: must be env\('NAME'\), a key or 'pass-through'/,
  ],
  [
    'an unset variable',
    { targets: { big: { provider: 'openai', credential: env('NOPE') } } },
    /^targets\.big\.credential: environment variable NOPE must be set/,
  ],
  [
    'an unknown dialect',
    { workers: [worker], targets: { q: { dialect: 'grpc' } } },
    /^targets\.q\.dialect: must be one of openai-chat, openai-responses, anthropic-messages, got/,
  ],
  [
    'an unknown policy',
    { workers: [worker], admission: { policy: 'fair' } },
    /^admission\.policy: must be one of none, lease, thunderagent, got "fair"/,
  ],
  [
    'a dial of another policy',
    { workers: [worker], admission: { policy: 'thunderagent', theta: 1 } },
    /^admission\.theta: needs policy: 'lease'/,
  ],
  [
    'bands of another policy',
    { workers: [worker], admission: { policy: 'lease', hysteresis: {} } },
    /^admission\.hysteresis: needs policy: 'thunderagent'/,
  ],
  [
    'two dials',
    { workers: [worker], admission: { policy: 'lease', preset: 'tail', theta: 1 } },
    /^admission\.theta: cannot be set beside preset/,
  ],
  [
    'a dial out of range',
    { workers: [worker], admission: { policy: 'lease', theta: 0 } },
    /^admission\.theta: must be a number from 0\.0001 to 10, got 0/,
  ],
  [
    'an unknown preset',
    { workers: [worker], admission: { policy: 'lease', preset: 'fast' } },
    /^admission\.preset: must be one of tail, balanced, throughput, got "fast"/,
  ],
  [
    'bands out of order',
    { workers: [worker], admission: { hysteresis: { resume: 0.7 } } },
    /^admission\.hysteresis: must have target <= resume <= pause, got 0\.8, 0\.7, 0\.95/,
  ],
  [
    'a band above one',
    { workers: [worker], admission: { hysteresis: { pause: 1.01 } } },
    /^admission\.hysteresis\.pause: must be a number from 0\.0001 to 1, got 1\.01/,
  ],
  ['a negative weight', { workers: [worker], score: { temperature: -1 } }, /^score\.temperature: /],
  [
    'a zero limit',
    { workers: [worker], limits: { bodyBytes: 0 } },
    /^limits\.bodyBytes: must be a/,
  ],
  ...[
    [{ match: 'mark' }, 'match: must be one of block, breakpoint, got "mark"'],
    [
      { lookback: -1, match: 'breakpoint' },
      'lookback: must be a whole number from 0 to 4294967295',
    ],
    [{ unitTokens: 0 }, 'unitTokens: must be a whole number from 1 to'],
    [{ minTokens: 0.5 }, 'minTokens: must be a whole number from 0 to'],
    [{ ttlSeconds: 0 }, 'ttlSeconds: must be a number from 0.001 to'],
    [{ automatic: 'yes', match: 'breakpoint' }, 'automatic: must be true or false, got "yes"'],
    [{ lookback: 20 }, "lookback: needs match: 'breakpoint'"],
    [{ refreshOnRead: true }, "refreshOnRead: needs match: 'breakpoint'"],
    [{ unitTokens: 2, match: 'breakpoint' }, "unitTokens: needs match: 'block'"],
    [
      { lookBack: 1 },
      'lookBack: unknown field, known are match, ttlSeconds, minTokens, unitTokens',
    ],
  ].flatMap(([cache, reason]): [string, unknown, RegExp][] => {
    const literal = String(reason).replace(/[.']/g, '\\$&')
    return [
      [
        `cache ${JSON.stringify(cache)}`,
        { workers: [worker], cache },
        RegExp(`^cache\\.${literal}`),
      ],
      [
        `target's cache ${JSON.stringify(cache)}`,
        { workers: [worker], targets: { q: { cache } } },
        RegExp(`^targets\\.q\\.cache\\.${literal}`),
      ],
    ]
  }),
  [
    'two rules for one cache',
    {
      workers: [worker],
      targets: { q: { cache: { minTokens: 1 } }, p: {}, r: { cache: { minTokens: 2 } } },
    },
    /^targets\.r\.cache: must equal that of target "q", which has the same workers/,
  ],
  ...['Authorization', 'x-api-key', 'cookie', 'host', 'Connection'].map(
    (header): [string, unknown, RegExp] => [
      `${header} among the headers that pass`,
      { workers: [worker], forward: { headers: ['x-mine', header] } },
      /^forward\.headers\[1\]: never passes: credentials follow a target's `credential`/,
    ],
  ),
  [
    'a misspelt provider that has no worker',
    { targets: { q: { provider: 'anthropc', credential: 'k' } } },
    /^targets\.q\.workers: needs a worker: only of anthropic and openai the address is known/,
  ],
  ['a fractional seed', { workers: [worker], seed: 0.5 }, /^seed: must be a whole number from 0/],
  ['a clock that is none', { workers: [worker], clock: 1 }, /^clock: must be a function, got 1/],
  [
    'half a logger',
    { workers: [worker], logger: { info() {} } },
    /^logger\.debug: must be a funct/,
  ],
]

for (const [title, options, message] of refusals) {
  test(`refused with field and reason: ${title}`, (t) => {
    t.regex(refusal(options), message)
  })
}

test('a key is never shown in an error', (t) => {
  const message = refusal({
    workers: [worker],
    targets: { q: { credential: 'sk-very-secret\n' + 'x' } },
  })
  t.false(message.includes('sk-very-secret'))
})
