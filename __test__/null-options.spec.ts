/** No option may be null, as an empty line of YAML makes it: each is refused where it stands. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { readConfig } from '../src/gateway/config.js'
import { checkConfig } from '../src/gateway/index.js'
import { Scheduler, type SchedulerOptions, WarmpathError } from '../src/index.js'

interface Schema {
  readonly properties?: Record<string, Schema>
  readonly additionalProperties?: Schema | boolean
  readonly items?: Schema
  readonly oneOf?: Schema[]
  readonly anyOf?: Schema[]
}

const { properties: PROPERTIES = {} } = JSON.parse(
  readFileSync(join(__dirname, '../gateway.schema.json'), 'utf8'),
) as Schema
const { $schema: _forEditors, ...FILE } = PROPERTIES

const worker = {
  id: 'a',
  url: 'http://a',
  headers: { 'x-a': '1' },
  kvEvents: { endpoint: 'tcp://a:1' },
}
const target = { cache: {}, price: { input: 1, output: 2 }, credential: { env: 'HOME' } }
/** Valid ones, which together have every section. */
const FULL: object[] = [
  {
    scheduler: {
      workers: [worker],
      targets: { t: target },
      pools: [{ id: 'p', events: 'tcp://b:1', layout: {} }],
      aliases: { one: ['t'] },
      admission: {
        policy: 'lease',
        maxRunning: 1,
        maxSessions: 1,
        queue: { classes: [{ name: 'c' }] },
        tenantWeights: { 'team-a': 1 },
      },
      continuity: { policy: 'saar', saar: {}, ownerDown: {}, prices: {}, base: [{ target: 't' }] },
      ...{ score: {}, sessionAffinity: { mode: 'soft' }, fanOut: {}, cache: {}, tokens: {} },
      ...{ metrics: {}, identity: {}, forward: { headers: ['x-b'] }, limits: {}, trace: {} },
    },
    ...{ timeouts: {}, health: {}, hold: { keepAlive: ['openai-chat'] }, retry: {}, limits: {} },
  },
  { scheduler: { workers: [worker], admission: { policy: 'thunderagent', hysteresis: {} } } },
]

type Step = string | number

/** The way to each option that the schema has and one of these values has room for. */
function* ways(schema: Schema, value: unknown, way: readonly Step[] = []): Generator<Step[]> {
  const forms = [schema, ...(schema.oneOf ?? []), ...(schema.anyOf ?? [])]
  if (Array.isArray(value)) {
    yield [...way, 0]
    for (const { items } of forms) if (items) yield* ways(items, value[0], [...way, 0])
  } else if (typeof value === 'object' && value !== null) {
    const own = value as Record<string, unknown>
    for (const { properties = {}, additionalProperties: any } of forms) {
      for (const [name, below] of Object.entries(properties)) {
        yield [...way, name]
        yield* ways(below, own[name], [...way, name])
      }
      if (typeof any !== 'object') continue
      for (const name of Object.keys(own)) {
        yield [...way, name]
        yield* ways(any, own[name], [...way, name])
      }
    }
  }
}

/** The last names of all options, wherever they are. */
function* namesOf(schema: Schema): Generator<string> {
  const { properties = {}, additionalProperties: any, items, oneOf = [], anyOf = [] } = schema
  for (const [name, below] of Object.entries(properties)) {
    yield name
    yield* namesOf(below)
  }
  const below = [...oneOf, ...anyOf, ...(items ? [items] : [])]
  for (const each of typeof any === 'object' ? [...below, any] : below) yield* namesOf(each)
}

function withNull(config: object, way: readonly Step[]): object {
  const copy = structuredClone(config)
  const last = way.at(-1) as Step
  let at = copy as Record<Step, unknown>
  for (const step of way.slice(0, -1)) at = at[step] as Record<Step, unknown>
  at[last] = null
  return copy
}

function pathOf(way: readonly Step[]): string {
  return way
    .map((step) => (typeof step === 'number' ? `[${step}]` : `.${step}`))
    .join('')
    .slice(1)
}

function refusal(config: object): string {
  try {
    checkConfig(readConfig(config, {}))
  } catch (error) {
    if (WarmpathError.is(error) && error.code === 'WARMPATH_CONFIG') return error.message
    throw error
  }
  return 'accepted'
}

test('null is refused at every option of the schema, with its path', (t) => {
  const schema = { properties: FILE }
  const met = new Set<string>()
  for (const config of FULL) {
    t.is(refusal(config), 'accepted')
    for (const way of ways(schema, config)) {
      const path = pathOf(way)
      for (const step of way) met.add(String(step))
      const found = refusal(withNull(config, way))
      t.true(
        found.startsWith(`${path}: `) || found.startsWith(`${path} must be `),
        `${path}: ${found}`,
      )
    }
  }
  t.deepEqual(
    [...new Set(namesOf(schema))].filter((name) => !met.has(name)),
    [],
  )
})

test('null is refused at the options that only a program has', (t) => {
  const workers = [{ url: 'http://a' }]
  for (const name of ['clock', 'logger', 'seed', 'admission', 'metrics', 'fanOut', 'targets']) {
    const error = t.throws(() => Scheduler.check({ workers, [name]: null } as never), {
      code: 'WARMPATH_CONFIG',
    })
    t.regex(error?.message ?? '', new RegExp(`^${name}: must not be null`))
    t.like(error, { detail: { field: name } })
  }
})

class Options {
  readonly maxRunning = 1
}

test('a section of options is a plain object and nothing else', (t) => {
  const workers = [{ url: 'http://a' }]
  const odd = [new Map([['maxRunning', 1]]), new Date(), new Options(), new Set(), new Error('x')]
  for (const each of odd) {
    for (const options of [{ admission: each }, { admission: { maxRunning: 1, queue: each } }]) {
      const field = 'queue' in options.admission ? 'admission.queue' : 'admission'
      t.throws(() => Scheduler.check({ workers, ...options } as SchedulerOptions), {
        code: 'WARMPATH_CONFIG',
        message: `${field}: must be a plain object, and not one of a class`,
      })
    }
    t.regex(refusal({ scheduler: { workers }, timeouts: each }), /^timeouts must be a plain object/)
  }
  const headers = new Headers({ 'x-a': '1' })
  t.throws(() => Scheduler.check({ workers: [{ url: 'http://a', headers: headers as never }] }), {
    message: 'workers[0].headers: must be a plain object, and not one of a class',
  })
  for (const tenantWeights of odd) {
    const admission = { maxRunning: 1, tenantWeights } as never
    t.throws(() => Scheduler.check({ workers, admission }), {
      message: /^admission\.tenantWeights: /,
    })
  }
  const bare = Object.assign(Object.create(null), { maxRunning: 1 })
  t.notThrows(() => Scheduler.check({ workers, admission: bare }))
})
