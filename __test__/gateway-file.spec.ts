/** The configuration file: its two formats, and the schema by which editors know it. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Ajv from 'ajv'
import test, { type ExecutionContext } from 'ava'
import { checkConfig, loadConfig, readConfig } from '../src/gateway/index.js'

const root = join(__dirname, '..')
const schema = JSON.parse(readFileSync(join(root, 'gateway.schema.json'), 'utf8'))
const accepts = new Ajv({ strict: true, allErrors: true }).compile(schema)

function file(t: ExecutionContext, name: string, text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'warmpath-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}

const YAML = `
# Two engines and a hosted model.
$schema: ./node_modules/warmpath/gateway.schema.json
port: 9000
scheduler:
  workers:
    - { id: a, url: 'http://10.0.0.1:8000' }
    - id: b
      url: http://10.0.0.2:8000
  targets:
    qwen: { model: Qwen/Qwen3-32B, workers: [a, b] }
    frontier: { provider: anthropic, credential: env:KEY }
`

for (const ending of ['yaml', 'yml', 'conf']) {
  test(`a .${ending} file is read as YAML`, async (t) => {
    const config = await loadConfig(file(t, `gateway.${ending}`, YAML), { KEY: 'the value' })
    t.is(config.port, 9000)
    t.like(config.scheduler, {
      workers: [{ id: 'a' }, { id: 'b', url: 'http://10.0.0.2:8000' }],
      targets: { frontier: { credential: 'the value' } },
    })
    t.is(checkConfig(config), '3 workers, 2 targets')
  })
}

for (const [what, name, text, message] of [
  [
    'YAML',
    'a.yaml',
    'port: 1\n\tscheduler: secret-value',
    /is not valid YAML at line 2 column \d+/,
  ],
  ['YAML with a bomb', 'a.yaml', bomb(), /refers to itself, or to itself too often$/],
  ['YAML that holds itself', 'a.yaml', 'scheduler: &s\n  workers: *s', /refers to itself/],
  ['JSON', 'a.json', '{\n"scheduler": secret-value}', /is not valid JSON at line 2 column \d+$/],
  [
    'JSON with a comma too many',
    'a.json',
    '{\n"port": 1,\n}',
    /is not valid JSON at line 3 column 1$/,
  ],
  [
    'a key of JSON that comes twice',
    'a.json',
    '{"port": 1,\n"port": 2}',
    /line 2 column 1 \(DUPLICATE_KEY\)$/,
  ],
  ['a JSON file that holds YAML', 'a.json', 'port: 1', /is not valid JSON/],
  ['an empty file', 'a.yaml', '', /a\.yaml is empty$/],
] as const) {
  test(`${what} that is wrong is told by its position and never repeated`, async (t) => {
    const error = await t.throwsAsync(loadConfig(file(t, name, text), {}), {
      code: 'WARMPATH_CONFIG',
      message,
    })
    t.notRegex(error?.message ?? '', /secret-value|\n/)
  })
}

/** Nine levels of nine references each. */
function bomb(): string {
  const levels = Array.from({ length: 9 }, (_, n) => {
    const to = n === 0 ? '"x"' : `*l${n - 1}`
    return `l${n}: &l${n} [${Array.from({ length: 9 }, () => to).join(', ')}]`
  })
  return levels.join('\n')
}

for (const example of ['gateway.config.json', 'gateway.hosted.config.json']) {
  test(`the schema accepts the example ${example}`, (t) => {
    const config = JSON.parse(readFileSync(join(root, 'examples', example), 'utf8'))
    t.true(accepts(config), JSON.stringify(accepts.errors))
  })
}

const SCHEDULER = { workers: [{ id: 'a', url: 'http://10.0.0.1:8000' }] }
const TARGET = { model: 'm', workers: ['a'] }
const withTarget = (target: object) => ({ ...SCHEDULER, targets: { t: { ...TARGET, ...target } } })

const POOL = { id: 'store', events: 'tcp://m:5557' }

/** What one of the two could take and the other not, had they drifted apart. */
const SCHEDULERS: object[] = [
  ...[1, 0, -1, 1.5, '1', null, 2 ** 53].map((capacityTokens) => ({
    workers: [{ url: 'http://x', capacityTokens }],
  })),
  ...[
    'http://x',
    'https://x/v1',
    'ftp://x',
    'x:80',
    'http://u:p@x',
    'http://x?q=1',
    'http://x#f',
    '',
    7,
  ].map((url) => ({ workers: [{ url }] })),
  ...['a', '', 'x'.repeat(256), 'x'.repeat(257), 'a\nb', 5].map((id) => ({
    workers: [{ id, url: 'http://x' }],
  })),
  ...[{}, { 'x-a': 'b' }, { 'x a': 'b' }, { 'x-a': '' }, { 'x-a': 'a\nb' }, { 'x-a': '✓' }, []].map(
    (headers) => ({
      workers: [{ url: 'http://x', headers }],
    }),
  ),
  ...[
    'x',
    'tcp://127.0.0.1:1',
    'tcp://x',
    'http://127.0.0.1:1/kv_cache_events',
    'ftp://x',
    5,
    { endpoint: 'tcp://127.0.0.1:1', replay: 'tcp://127.0.0.1:9', topic: 'kv@', ranks: 2 },
    { endpoint: 'tcp://127.0.0.1:1', ranks: 65 },
    { replay: 'tcp://127.0.0.1:9' },
    { endpoint: 'tcp://127.0.0.1:1', other: 1 },
  ].map((kvEvents) => ({ workers: [{ url: 'http://x', kvEvents }] })),
  ...[{}, { from: 'engine' }, { from: 'tokenize' }, { from: 'x' }, { timeoutMs: 0 }, true].map(
    (tokens) => ({ ...SCHEDULER, tokens }),
  ),
  ...[true, false, {}, { intervalMs: 99 }, { timeoutMs: 100 }, { other: 1 }, 'yes'].map(
    (metrics) => ({ ...SCHEDULER, metrics }),
  ),
  ...['text', 'engine', 'tokenize', 'x'].map((tokens) => withTarget({ tokens })),
  { ...SCHEDULER, targets: {} },
  { ...SCHEDULER, seed: -1 },
  { ...SCHEDULER, seed: 7 },
  { ...SCHEDULER, nothing: 1 },
  ...[
    {},
    { model: '' },
    { model: 5 },
    { provider: 'x' },
    { workers: [] },
    { workers: 'a' },
    { other: 1 },
  ].map(withTarget),
  ...['key', 'pass-through', '', ' ', 'a\nb', { env: '' }, { env: 5 }, 5].map((credential) =>
    withTarget({ credential }),
  ),
  ...['openai-chat', ['openai-chat', 'anthropic-messages'], [], 'x', ['x']].map((dialect) =>
    withTarget({ dialect }),
  ),
  ...[
    { match: 'block' },
    { match: 'x' },
    { ttlSeconds: 0 },
    { ttlSeconds: 0.5 },
    { minTokens: -1 },
    { unitTokens: 0 },
    { refreshOnRead: 1 },
  ].map((cache) => withTarget({ cache })),
  ...[{ x: ['t'] }, { x: [] }, { x: 't' }, { '': ['t'] }].map((aliases) => ({
    ...withTarget({}),
    aliases,
  })),
  ...[
    {},
    { policy: 'none' },
    { policy: 'x' },
    { policy: 'lease' },
    { policy: 'lease', preset: 'tail' },
    { policy: 'lease', preset: 'x' },
    { policy: 'lease', theta: 0.5 },
    { policy: 'lease', theta: 0 },
    { policy: 'lease', theta: 1, preset: 'tail' },
    { policy: 'lease', forceAfterSeconds: 60 },
    { policy: 'lease', hostTokens: 4_000_000 },
    { policy: 'lease', hostTokens: 0 },
    { maxSessions: 3, sessionIdleSeconds: 30 },
    { sessionIdleSeconds: 30 },
    { queue: {} },
    { maxSessions: 3, queue: {} },
    ...[
      { order: 'fcfs' },
      { order: 'wspt', maxAgeSeconds: 30 },
      { order: 'lcfs', maxAgeSeconds: 0 },
      { order: 'fifo' },
      { priority: 'head-start', maxAgeSeconds: 30 },
      { priority: 'published' },
      { priority: 'weak' },
      { classes: [] },
      { classes: 'all' },
      { classes: [{}] },
      { classes: [{ name: '' }] },
      { classes: [{ name: 'all', other: 1 }] },
      { classes: [{ name: 'all', quantumTokens: 0 }] },
      { classes: [{ name: 'all', maxWaiting: 0 }] },
      { classes: [{ name: 'all', order: 'lcfs', quantumTokens: 1, maxWaiting: 1 }] },
      { classes: [{ name: 'low', maxPriority: -101 }, { name: 'all' }] },
      { classes: [{ name: 'low', minPriority: -9, maxPriority: -1 }, { name: 'all' }] },
      { classes: [{ name: 'short', maxTokens: 0.5 }, { name: 'all' }] },
      { classes: [{ name: 'short', maxTokens: 2_000 }, { name: 'all' }] },
      { other: 1 },
    ].map((queue) => ({ maxRunning: 8, queue })),
    { policy: 'lease', intervalMs: 5 },
    { policy: 'thunderagent', theta: 0.5 },
    { preset: 'tail' },
    { bufferTokens: -1 },
    { holdLimitSeconds: 0 },
    { holdLimitSeconds: 1 },
    { intervalMs: 0 },
  ].map((admission) => ({ ...SCHEDULER, admission })),
  ...[
    { grade: 'large' },
    { grade: 'huge' },
    { quality: 0.5 },
    { quality: 1.1 },
    { contextTokens: 0 },
    { contextTokens: 8192 },
    { outputTokens: 8192, images: false, tools: true },
    { outputTokens: 0 },
    { images: 'no' },
    { price: { input: 1, output: 2 } },
    { price: { input: 1, output: 2, cached: 0, write: 1.25 } },
    { price: { input: 1 } },
    { price: { input: -1, output: 2 } },
    { price: { input: '1', output: 2 } },
    { price: { input: 1, output: 2, other: 3 } },
  ].map(withTarget),
  ...[
    {},
    ...['bound', 'saar', 'lookahead', 'x'].map((policy) => ({ policy })),
    { shadow: 'lookahead' },
    { shadow: 'x' },
    { lambda: 1 },
    { lambda: -1 },
    { policy: 'saar', lambda: 1 },
    { policy: 'saar', shadow: 'lookahead', lambda: 1 },
    { policy: 'lookahead', fee: 0.03, floor: 'middle', value: 'quality' },
    { fee: -1 },
    { floor: 'x' },
    { value: 'x' },
    { policy: 'constant', grade: 'small' },
    { grade: 'small' },
    { policy: 'saar', saar: { expectedTurns: 18, driftReset: false } },
    { policy: 'saar', saar: { expectedTurns: 0 } },
    { policy: 'saar', saar: { toolLock: false } },
    { saar: {} },
    { ownerDown: { toolLoop: 'escape', providerState: 'fail' } },
    ...['wait', 'strip', 'hope'].map((toolLoop) => ({ ownerDown: { toolLoop } })),
    ...[0, 0.5, 600, 601].map((waitSeconds) => ({ ownerDown: { waitSeconds } })),
    { base: [] },
    { base: {} },
    { base: [{}] },
    { base: [{ target: 5 }] },
    ...[
      {},
      { minTokens: 0, maxTokens: 10 },
      { minTokens: 0.5 },
      { phase: 'tool-loop' },
      { phase: 'acting' },
      { images: true, tools: false },
      { images: 1 },
      { other: 1 },
    ].map((rule) => ({ base: [{ ...rule, target: 'default' }] })),
    { prices: {} },
    { prices: [] },
    { other: 1 },
  ].map((continuity) => ({ ...SCHEDULER, continuity })),
  ...[{ pause: 0.9 }, { pause: 1.1 }, { pause: 0 }, { other: 1 }].map((hysteresis) => ({
    ...SCHEDULER,
    admission: { hysteresis },
  })),
  ...[{ temperature: 1 }, { temperature: -1 }, { overlapCredit: 1e10 }, { other: 1 }].map(
    (score) => ({ ...SCHEDULER, score }),
  ),
  ...[{ blockTokens: 0 }, { blockTokens: 64 }, { blockTokens: 65_537 }].map((cache) => ({
    ...SCHEDULER,
    cache,
  })),
  ...[{ headers: ['x-a'] }, { headers: ['x a'] }, { headers: 'x' }, { other: 1 }].map(
    (forward) => ({ ...SCHEDULER, forward }),
  ),
  ...[{ sessions: 1 }, { sessions: 0 }, { blocks: 2 ** 32 }, { bodyBytes: 5 }, { other: 1 }].map(
    (limits) => ({ ...SCHEDULER, limits }),
  ),
  ...[
    {},
    { queue: 0 },
    { bytesPerToken: 30 },
    { receipts: 'full' },
    { receipts: 'x' },
    { key: 'short' },
    { key: 'long enough to be one' },
  ].map((trace) => ({ ...SCHEDULER, trace })),
  ...[
    [],
    {},
    [{}],
    [POOL],
    [{ ...POOL, target: 'default', http: 'http://m:9003', space: '', tenant: 'blue', pages: 1 }],
    ...[{ id: '' }, { id: 'a\nb' }, { events: 'tcp://m' }, { events: 'http://m:1' }, { other: 1 }],
    ...[{ http: 'm:9003' }, { http: 'http://u@m' }, { space: 5 }, { tenant: '' }, { target: '' }],
    ...[{ pages: 0 }, { pages: 2 ** 24 }, { pages: 2 ** 24 + 1 }, { layout: [] }, { layout: {} }],
    ...[
      { tensorParallel: 8, copies: 2 },
      { tensorParallel: 0 },
      { cacheGroups: 1025 },
      { x: 1 },
    ].map((layout) => ({ layout })),
    ...['together', 'apart', 'both'].map((keysAndValues) => ({ layout: { keysAndValues } })),
  ].map((pools) => ({
    workers: [{ url: 'http://x', kvEvents: 'tcp://x:1' }],
    pools:
      Array.isArray(pools) || Object.keys(pools).length === 0 ? pools : [{ ...POOL, ...pools }],
  })),
]
const CONFIGS: object[] = [
  {},
  ...SCHEDULERS.map((scheduler) => ({ scheduler })),
  ...[0, 65_535, 65_536, -1, 1.5, '80', null].map((port) => ({ scheduler: SCHEDULER, port })),
  ...['::1', 'a.b', '', 'http://x/', 5].map((host) => ({ scheduler: SCHEDULER, host })),
  ...['/x', 'x', '/a b', ''].map((path) => ({ scheduler: SCHEDULER, health: { path } })),
  ...[0, 1, 3_600_001, '1'].flatMap((ms) =>
    [
      'requestHeadMs',
      'requestIdleMs',
      'requestMs',
      'connectMs',
      'headersMs',
      'bodyIdleMs',
      'clientIdleMs',
      'drainMs',
      'other',
    ].map((name) => ({
      scheduler: SCHEDULER,
      timeouts: { [name]: ms },
    })),
  ),
  ...[0, 1, 17].map((attempts) => ({ scheduler: SCHEDULER, retry: { attempts } })),
  ...['x-priority', 'X-Rank', 'hosts', 'authorization', 'content-length', 'te', 'a b', ''].map(
    (priorityHeader) => ({ scheduler: SCHEDULER, priorityHeader }),
  ),
  ...[{}, { maxRunning: 1 }, { maxSessions: 1 }, { policy: 'lease' }, { policy: 'none' }].map(
    (admission) => ({
      scheduler: { ...SCHEDULER, admission: { ...admission, tenantWeights: { a: 2 } } },
    }),
  ),
  ...[-1, 0, 10_000].map((graceMs) => ({ scheduler: SCHEDULER, retry: { graceMs } })),
  ...[0, 1, 2 ** 41].flatMap((count) =>
    ['bodyBytes', 'allBodiesBytes', 'connections'].map((name) => ({
      scheduler: SCHEDULER,
      limits: { [name]: count },
    })),
  ),
  ...[0, 1].map((ms) => ({
    scheduler: SCHEDULER,
    hold: { keepAliveAfterMs: ms, keepAliveEveryMs: 1 },
  })),
  { scheduler: SCHEDULER, $schema: 'x' },
  { scheduler: SCHEDULER, accessLog: true },
]

test('the schema accepts exactly what the gateway accepts', (t) => {
  for (const config of CONFIGS) {
    let refused: string | undefined
    try {
      checkConfig(readConfig(config, {}))
    } catch (error) {
      refused = (error as Error).message
    }
    const text = JSON.stringify(config)
    t.is(
      accepts(config),
      refused === undefined,
      `${text}: ${refused ?? JSON.stringify(accepts.errors)}`,
    )
  }
})
