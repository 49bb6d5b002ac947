/** What a configuration may say, what it means where it says nothing, and how it is refused. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import test from 'ava'
import { resolve } from '../src/config/index.js'
import { readConfig, settle } from '../src/gateway/config.js'
import { startGateway } from '../src/gateway/index.js'
import { openGateway } from './gateway-support.js'

const scheduler = { workers: [{ id: 'a', url: 'http://127.0.0.1:1' }] }

test('what is not said has a default', (t) => {
  t.deepEqual(settle({ scheduler }), {
    host: '127.0.0.1',
    port: 8088,
    timeouts: {
      requestHeadMs: 30_000,
      requestIdleMs: 30_000,
      requestMs: 300_000,
      connectMs: 5_000,
      headersMs: 600_000,
      bodyIdleMs: 300_000,
      clientIdleMs: 300_000,
      drainMs: 30_000,
    },
    health: { intervalMs: 2_000, timeoutMs: 2_000, path: '/health' },
    hold: { keepAlive: [], keepAliveAfterMs: 10_000, keepAliveEveryMs: 10_000 },
    priorityHeader: '',
    retry: { attempts: 3, graceMs: 10_000 },
    limits: { bodyBytes: 67_108_864, allBodiesBytes: 536_870_912, connections: 16_384 },
  })
})

test('what is said counts', (t) => {
  const settings = settle({
    scheduler,
    host: '::1',
    port: 0,
    timeouts: { drainMs: 0 },
    health: { path: '/v1/models' },
  })
  t.like(settings, { host: '::1', port: 0, health: { path: '/v1/models', intervalMs: 2_000 } })
  t.is(settings.timeouts.drainMs, 0)
})

const REFUSED: [object, RegExp][] = [
  [{ ports: 1 }, /^ports is not known; known: host, port, scheduler, timeouts, /],
  [{ port: '80' }, /^port must be a whole number from 0 to 65535$/],
  [{ port: 65_536 }, /^port must be/],
  [{ port: 1.5 }, /^port must be/],
  [{ host: '' }, /^host must be a host name or address$/],
  [{ host: 'http://x/' }, /^host must be/],
  [{ timeouts: [] }, /^timeouts must be an object$/],
  [
    { timeouts: { connectMs: 0 } },
    /^timeouts\.connectMs must be a whole number of milliseconds from 1 to 3600000$/,
  ],
  [
    { timeouts: { connectMS: 1 } },
    /^timeouts\.connectMS is not known; known: requestHeadMs, .*, connectMs, headersMs, /,
  ],
  [{ timeouts: { drainMs: null } }, /^timeouts\.drainMs must be/],
  [{ health: { path: 'health' } }, /^health\.path must be a path that starts with "\/"$/],
  ...['content-length', 'Authorization', 'cookie', 'Proxy-Authorization', 'host', 'x-api-key'].map(
    (priorityHeader): [object, RegExp] => [
      { priorityHeader },
      /^priorityHeader must be the name of a header that is of no connection, no body and no cred/,
    ],
  ),
  [{ priorityHeader: 'x priority' }, /^priorityHeader must be the name of a header/],
  [{ hold: { keepAliveAfterMs: -1 } }, /^hold\.keepAliveAfterMs must be/],
  [{ retry: { attempts: 0 } }, /^retry\.attempts must be a whole number of attempts from 1 to 16$/],
  [{ limits: { bodyBytes: Number.NaN } }, /^limits\.bodyBytes must be/],
]

for (const [wrong, message] of REFUSED) {
  test(`refused: ${JSON.stringify(wrong)}`, async (t) => {
    t.throws(() => readConfig({ scheduler, ...wrong }, {}), { code: 'WARMPATH_CONFIG', message })
    await t.throwsAsync(startGateway({ scheduler, ...wrong }), { code: 'WARMPATH_CONFIG', message })
  })
}

for (const file of [null, [], 'text', 7]) {
  test(`a file that is ${JSON.stringify(file)} is refused`, (t) => {
    t.throws(() => readConfig(file, {}), { code: 'WARMPATH_CONFIG', message: /must be an object$/ })
  })
}

test('a file without a scheduler is refused', (t) => {
  t.throws(() => readConfig({}, {}), {
    code: 'WARMPATH_CONFIG',
    message: /^scheduler must be given/,
  })
})

test('a file may not set what only a program can', (t) => {
  t.throws(() => readConfig({ scheduler, accessLog: true }, {}), {
    message: /^accessLog is not known/,
  })
})

test('the options of the scheduler are checked when it starts, by name', async (t) => {
  const config = readConfig({ scheduler: { workers: [{ url: 'ftp://x' }] } }, {})
  await t.throwsAsync(startGateway(config), {
    code: 'WARMPATH_CONFIG',
    message: /^scheduler\.workers\[0\]\.url: must be an absolute/,
  })
})

for (const [wrong, message] of [
  [{ workers: [{ url: 'http://x' }], wrokers: 1 }, /^scheduler\.wrokers: unknown field/],
  [{ workers: [] }, /^scheduler\.workers: needs at least one worker/],
  [{ workers: [{ url: 'http://x' }], limits: 5 }, /^scheduler\.limits must be an object/],
  [
    { workers: [{ url: 'http://x' }], limits: { bodyBytes: 5 } },
    /^scheduler\.limits\.bodyBytes must be left out: it is the limits\.bodyBytes of the gateway$/,
  ],
] as [object, RegExp][]) {
  test(`the scheduler's options are named as the file has them: ${message}`, async (t) => {
    await t.throwsAsync(startGateway({ scheduler: wrong, port: 0 }), {
      code: 'WARMPATH_CONFIG',
      message,
    })
  })
}

test('a body has one limit, as sent and after decompression', async (t) => {
  const gateway = await openGateway(t, { scheduler, limits: { bodyBytes: 2000 } })
  const text = JSON.stringify({ model: 'm', messages: [], pad: 'x'.repeat(2000) })
  for (const [body, encoding] of [
    [text, 'identity'],
    [gzipSync(text), 'gzip'],
  ] as const) {
    const headers = { 'content-encoding': encoding }
    const path = `${gateway.url}/v1/chat/completions`
    const answer = await fetch(path, { method: 'POST', headers, body })
    t.is(answer.status, 413)
    const { error } = (await answer.json()) as { error: { message: string } }
    t.is(error.message, 'the body is larger than limits.bodyBytes (2000)')
  }
  t.is(resolve(scheduler).settings.limits.bodyBytes, settle({ scheduler }).limits.bodyBytes)
})

test('env:NAME is the value of that variable where a secret may stand, and text elsewhere', (t) => {
  const file = {
    scheduler: {
      workers: [
        {
          id: 'env:KEY',
          url: 'http://x',
          headers: { 'x-key': 'env:KEY', 'x-y': 'Bearer env:KEY' },
        },
      ],
      targets: { t: { provider: 'anthropic', credential: 'env:KEY' } },
    },
  }
  const config = readConfig(file, { KEY: 'the value' })
  t.deepEqual(config.scheduler as object, {
    workers: [
      {
        id: 'env:KEY',
        url: 'http://x',
        headers: { 'x-key': 'the value', 'x-y': 'Bearer env:KEY' },
      },
    ],
    targets: { t: { provider: 'anthropic', credential: 'the value' } },
  })
  t.is(file.scheduler.targets.t.credential, 'env:KEY')
})

test('what was meant as a reference and is none is no key', (t) => {
  for (const credential of ['env:', 'env: KEY', 'ENV:KEY', 'env:NO-KEY', 'pass_through']) {
    const file = { scheduler: { targets: { t: { credential } } } }
    const message =
      /^scheduler\.targets\.t\.credential must be 'env:NAME', 'pass-through' or the key/
    t.throws(() => readConfig(file, { KEY: 'x' }), { code: 'WARMPATH_CONFIG', message })
  }
})

test('the key of a trace may be a reference', (t) => {
  const file = { scheduler: { workers: [], trace: { key: 'env:KEY' } } }
  const { scheduler } = readConfig(file, { KEY: '000102030405060708090a0b0c0d0e0f' })
  t.like(scheduler, { trace: { key: '000102030405060708090a0b0c0d0e0f' } })
})

for (const environment of [{}, { KEY: '' }]) {
  test(`a variable that is not set is named: ${JSON.stringify(environment)}`, (t) => {
    const file = { scheduler: { targets: { t: { credential: 'env:KEY' } } } }
    t.throws(() => readConfig(file, environment), {
      code: 'WARMPATH_CONFIG',
      message:
        'scheduler.targets.t.credential refers to the environment variable KEY, which is not set',
    })
  })
}

const EXAMPLES: [string, Record<string, string>, string[]][] = [
  ['gateway.config.json', {}, ['auto', 'qwen', 'Qwen/Qwen3-32B']],
  [
    'gateway.hosted.config.json',
    { ANTHROPIC_API_KEY: 'a key' },
    ['auto', 'qwen', 'Qwen/Qwen3-32B', 'frontier', 'claude-opus-5'],
  ],
]

for (const [file, environment, models] of EXAMPLES) {
  test(`the example ${file} is a configuration that starts`, async (t) => {
    const text = readFileSync(join(__dirname, '../examples', file), 'utf8')
    const config = readConfig(JSON.parse(text), environment)
    const gateway = await openGateway(t, { ...config, port: 0 })
    t.deepEqual(gateway.scheduler.models(), models)
  })
}
