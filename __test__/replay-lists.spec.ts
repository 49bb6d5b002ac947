/** Lists and policies of a command line. */
import test from 'ava'
import { DEFAULT_SCORE } from '../src/index.js'
import { numbers } from '../src/replay/lists.js'
import { policies } from '../src/replay/policies.js'

const any = { kind: 'any', least: 0, most: 10 } as const
const whole = { kind: 'whole', least: 1, most: 100 } as const

test('lists, ranges and both', (t) => {
  t.deepEqual(numbers('4,8', whole), [4, 8])
  t.deepEqual(numbers('0.5..3', any), [0.5, 1, 1.5, 2, 2.5, 3])
  t.deepEqual(numbers('1..2/0.25', any), [1, 1.25, 1.5, 1.75, 2])
  t.deepEqual(numbers('0.1..0.3/0.1', any), [0.1, 0.2, 0.3])
  t.deepEqual(numbers('8, 2..4,2', whole), [2, 3, 4, 8])
  t.deepEqual(numbers('1..2/0.4', any), [1, 1.4, 1.8])
})

test('what is no list says what is allowed', (t) => {
  for (const text of [
    '',
    'x',
    '1..',
    '3..1',
    '11',
    '-1',
    '1..2/0',
    '0..10/0.0001',
    '1e1',
    '1,,2',
  ]) {
    t.throws(() => numbers(text, any), { instanceOf: RangeError }, text)
  }
  t.throws(() => numbers('1.5', whole), { message: /whole numbers from 1 to 100/ })
})

test('policies by name, each once, with options', (t) => {
  t.deepEqual(policies('round-robin,kv,none,thunderagent:intervalMs=1000'), [
    { label: 'round-robin', policy: 'round-robin' },
    { label: 'kv', policy: { core: { policy: 'none' } }, score: {} },
    {
      label: 'thunderagent:intervalMs=1000',
      policy: { core: { policy: 'thunderagent', intervalMs: 1000 } },
    },
  ])
  t.deepEqual(policies('lease:theta=0.35:eviction=lease-end')[0]?.policy, {
    core: { policy: 'lease', thetaBp: 3500, eviction: 'lease-end' },
  })
  t.deepEqual(policies('none:prefillScale=2.5,warmpath'), [
    {
      label: 'kv:prefillScale=2.5',
      policy: { core: { policy: 'none' } },
      score: { prefillScale: 2.5 },
    },
    { label: 'warmpath', policy: { core: { policy: 'none' } }, score: DEFAULT_SCORE },
  ])
  t.deepEqual(policies('kv:maxRunning=8,lease:theta=1:maxSessions=40:maxRunning=8:queue=lcfs'), [
    { label: 'kv:maxRunning=8', policy: { core: { policy: 'none', maxRunning: 8 } }, score: {} },
    {
      label: 'lease:theta=1:maxSessions=40:maxRunning=8:queue=lcfs',
      policy: {
        core: {
          policy: 'lease',
          thetaBp: 10_000,
          maxRunning: 8,
          maxSessions: 40,
          queue: { order: 'lcfs', priority: 'strict', maxAgeMs: 60_000, classes: [] },
        },
      },
    },
  ])
  const names = /round-robin, least-loaded, kv, none, warmpath, thunderagent, lease/
  for (const text of ['', 'KV', 'kv,', 'a:b', '../x', 'constructor']) {
    t.throws(() => policies(text), { instanceOf: RangeError, message: names }, text)
  }
})

test('what a policy does not take is refused by name', (t) => {
  for (const [text, message] of [
    ['kv:theta=1', /with kv overlapCredit, .*, each NAME=VALUE; not "theta=1"/],
    ['kv:prefillScale=-1', /kv:prefillScale a number from 0 to 1000000; not "-1"/],
    ['warmpath:temperature=1e9', /a number from 0/],
    ['round-robin:x=1', /with round-robin no options/],
    ['thunderagent:theta=1', /pauseBp, .*; not "theta=1"/],
    ['thunderagent:intervalMs', /thunderagent:intervalMs a whole number/],
    ['thunderagent:intervalMs=-5', /from 1 to .*; not "-5"/],
    ['thunderagent:pauseBp=10001', /from 0 to 10000/],
    ['lease:theta=0', /a number from 0.0001 to 10; not "0"/],
    ['lease:eviction=fifo', /lru or lease-end/],
    ['lease:toString=1', /theta/],
    ['kv:maxRunning=0', /kv:maxRunning a whole number from 1 to 4294967295; not "0"/],
    ['kv:queue=wspt', /with kv queue beside maxRunning or maxSessions/],
    ['kv:maxRunning=8:queue=fifo', /kv:queue fcfs or wspt or lcfs; not "fifo"/],
    ['kv:maxRunning=8:queue=fcfs:maxAgeMs=5', /with kv maxAgeMs beside queue=wspt or queue=lcfs/],
    ['round-robin:maxRunning=8', /with round-robin no options/],
  ] as const) {
    t.throws(() => policies(text), { instanceOf: RangeError, message }, text)
  }
})
