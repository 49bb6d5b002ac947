/**
 * A body that comes with its bytes is read only where it goes on from the session's last one. Whatever
 * is edited, moved or left out between two turns, the blocks are those of the body read whole: another
 * session that sends the same prompt without its bytes finds all of it cached.
 */
import test from 'ava'
import fc from 'fast-check'
import { Scheduler } from '../src/index.js'
import { native } from '../src/native.js'

type Message = Record<string, unknown>
type Body = Record<string, unknown>

const PATHS = {
  '/v1/messages': 'messages',
  '/v1/chat/completions': 'messages',
  '/v1/responses': 'input',
} as const
type Path = keyof typeof PATHS

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 8 }),
  fc.constantFrom('"]}', '\\"', '{"messages":[', 'x'.repeat(3000)),
)

const part = fc.record(
  {
    type: fc.constantFrom('text', 'input_text'),
    text,
    cache_control: fc.constantFrom({ type: 'ephemeral' }, { type: 'ephemeral', ttl: '1h' }),
  },
  { requiredKeys: ['type', 'text'] },
)

const message: fc.Arbitrary<Message> = fc.record({
  role: fc.constantFrom('user', 'assistant', 'system'),
  content: fc.oneof(text, fc.array(part, { maxLength: 3 })),
})

/** What a client does to its conversation between two turns. */
const change = fc.oneof(
  { weight: 6, arbitrary: fc.record({ add: fc.array(message, { minLength: 1, maxLength: 3 }) }) },
  fc.record({ drop: fc.nat(3) }),
  fc.record({ edit: fc.nat(6), message }),
  fc.record({ mark: fc.boolean() }),
  fc.record({ system: text }),
)
type Change = typeof change extends fc.Arbitrary<infer T> ? T : never

function changed(body: Body, member: string, how: Change): Body {
  const messages = body[member] as Message[]
  if ('add' in how) return { ...body, [member]: [...messages, ...how.add] }
  if ('drop' in how) return { ...body, [member]: messages.slice(0, messages.length - how.drop) }
  if ('edit' in how)
    return { ...body, [member]: messages.with(how.edit % messages.length, how.message) }
  if ('mark' in how) {
    const last = messages.at(-1) ?? {}
    const { cache_control: _, ...rest } = last
    const marked = how.mark ? { ...rest, cache_control: { type: 'ephemeral' } } : rest
    return { ...body, [member]: [...messages.slice(0, -1), marked] }
  }
  return { ...body, system: how.system }
}

/** Counts the bodies of which some items were not read. */
function countRecalls(run: () => Promise<unknown>): Promise<number> {
  const { recallBody } = native
  let count = 0
  native.recallBody = (...args) => {
    const found = recallBody(...args)
    if (found % 2 ** 21 > 0) count += 1
    return found
  }
  return run().then(
    () => {
      native.recallBody = recallBody
      return count
    },
    (error) => {
      native.recallBody = recallBody
      throw error
    },
  )
}

const layout = fc.constantFrom(undefined, ' ', '\t')

test.serial('bodies with and without their bytes have the same blocks', async (t) => {
  const check = (path: Path) =>
    fc.asyncProperty(
      fc.array(message, { minLength: 2, maxLength: 4 }),
      fc.array(change, { minLength: 2, maxLength: 8 }),
      layout,
      async (messages, changes, space) => {
        const scheduler = new Scheduler({ workers: [{ id: 'a', url: 'http://127.0.0.1:1' }] })
        const member = PATHS[path]
        let body: Body = { model: 'm', [member]: messages, tools: [{ name: 't' }], max_tokens: 9 }
        for (const how of [undefined, undefined, ...changes]) {
          if (how !== undefined) body = changed(body, member, how)
          if ((body[member] as Message[]).length === 0) break
          const raw = Buffer.from(JSON.stringify(body, null, space))
          const parsed = JSON.parse(raw.toString())
          const one = await scheduler.submit({ path, body: parsed, raw, session: 'raw' })
          one.complete()
          const other = await scheduler.submit({ path, body: parsed, session: 'whole' })
          other.complete()
          t.is(one.promptTokens, other.promptTokens)
          t.is(other.predictedCachedTokens, other.promptTokens)
        }
        scheduler.close()
      },
    )
  const count = await countRecalls(async () => {
    for (const path of Object.keys(PATHS) as Path[]) await fc.assert(check(path), { numRuns: 60 })
  })
  t.true(count > 100, `${count} bodies were recalled`)
})

test.serial('breakpoints of what is not read again still count', async (t) => {
  const mark = { cache_control: { type: 'ephemeral' } }
  const long = (name: string, more = {}) => ({
    type: 'text',
    text: `${name} `.repeat(4000),
    ...more,
  })
  const user = (name: string, more = {}) => ({ role: 'user', content: [long(name, more)] })
  const answer = { role: 'assistant', content: 'fine' }
  const scheduler = new Scheduler({
    workers: [{ id: 'a', url: 'http://127.0.0.1:1' }],
    targets: { t: { model: 'm', workers: ['a'], cache: { match: 'breakpoint' } } },
  })
  const path = '/v1/messages'
  const send = async (session: string, messages: Message[]) => {
    const body = { model: 'm', system: [long('s', mark)], messages }
    const raw = Buffer.from(JSON.stringify(body))
    const turn = await scheduler.submit({ path, body, raw, session })
    turn.complete()
    return turn.predictedCachedTokens
  }
  const history = [user('a'), answer, user('b'), answer]
  const count = await countRecalls(async () => {
    t.is(await send('one', [...history, user('c', mark)]), 0)
    const first = await send('one', [...history, user('c'), answer, user('d', mark)])
    const second = await send('one', [
      ...history,
      user('c'),
      answer,
      user('d'),
      answer,
      user('e', mark),
    ])
    t.true(first > 0 && second > first, `${first} then ${second}`)
  })
  t.is(count, 1)
  scheduler.close()
})
