/** What keeps requests from sharing a cache: recorded clients, and each finding by itself. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import test from 'ava'
import { findSharing, type Recorded, renderSharing } from '../src/cli/sharing.js'

function recorded(client: string): Recorded[] {
  const file = join(__dirname, 'fixtures/client-captures', `${client}.json.gz`)
  const all = JSON.parse(gunzipSync(readFileSync(file)).toString()) as {
    url: string
    body: Record<string, unknown>
  }[]
  return all.map(({ url, body }) => ({ path: url, body }))
}

const kindsOf = (requests: Recorded[]) => findSharing(requests).findings.map(({ kind }) => kind)

test("Claude Code's billing line ends all sharing, and its markers move", (t) => {
  const { read, findings } = findSharing(recorded('claude-code'))
  t.is(read, 6)
  const volatile = findings.find(({ kind }) => kind === 'volatile-head')
  t.is(volatile?.requests, 6)
  t.true((volatile?.lost ?? 0) > 0.05)
  t.true(findings.some(({ kind }) => kind === 'moving-markers'))
  t.deepEqual(
    findings.map(({ kind }) => kind).sort(),
    // The recorded sessions ran in folders of equally long names, which are in the system prompt.
    ['moving-markers', 'system-change', 'volatile-head'],
  )
})

test('Codex and OpenCode go on from what they have sent', (t) => {
  for (const client of ['codex', 'opencode']) {
    const { read, findings } = findSharing(recorded(client))
    t.true(read >= 4)
    t.deepEqual(findings, [], client)
  }
})

const PATH = '/v1/chat/completions'
const tool = (name: string, properties: object = { a: {}, b: {} }) => ({
  type: 'function',
  function: { name, parameters: { type: 'object', properties } },
})

function chat(more: Record<string, unknown>, ...texts: string[]): Recorded {
  const messages = texts.map((content, at) => ({
    role: at % 2 === 0 ? 'user' : 'assistant',
    content,
  }))
  return { path: `http://host:1${PATH}?x=1`, body: { model: 'm', messages, ...more } }
}

test('each finding by itself', (t) => {
  const tools = [tool('one'), tool('two')]
  const turned = [tool('two'), tool('one')]
  const sorted = [tool('one', { b: {}, a: {} }), tool('two')]
  const other = [tool('one', { a: {}, now: { description: '12:00' } }), tool('two')]
  const first = chat({ tools }, 'hello')
  const next = (changed: unknown[]) => chat({ tools: changed }, 'hello', 'yes', 'more')
  t.deepEqual(kindsOf([first, next(tools)]), [])
  t.deepEqual(kindsOf([first, next(turned)]), ['tool-order'])
  t.deepEqual(kindsOf([first, next(sorted)]), ['tool-keys'])
  t.deepEqual(kindsOf([first, next(other)]), ['tools-change'])
  t.deepEqual(kindsOf([first, next([tool('three')])]), [], 'another agent')
  const long = chat({}, 'hello', 'yes', 'more', 'no', 'still more')
  const edited = chat({}, 'hello', 'yes', 'other', 'no', 'still more', 'well', 'and so on')
  t.deepEqual(kindsOf([long, edited]), ['history-change'])
  t.deepEqual(kindsOf([long, chat({}, 'good morning')]), [], 'another conversation')
})

test('a time in the system prompt is found by what keeps its length', (t) => {
  const request = (system: string) => ({
    path: '/v1/messages',
    body: { model: 'm', system, messages: [{ role: 'user', content: 'hello' }] },
  })
  const at = (time: string) => request(`You help. It is ${time}. ${'Be brief. '.repeat(20)}`)
  const { findings } = findSharing([at('12:00'), at('12:01'), at('12:02')])
  t.like(findings[0], { kind: 'system-change', requests: 2, where: 'part 0 of the system' })
  t.true((findings[0]?.lost ?? 0) > 0.9)
  t.deepEqual(kindsOf([at('12:00'), request('Somebody else.')]), [])
})

test('what is no request of a known API is passed over', (t) => {
  const odd = [
    { path: '/v1/models', body: {} },
    { path: PATH, body: { messages: 'none' } },
  ]
  t.is(findSharing(odd as Recorded[]).findings.length, 0)
  t.is(renderSharing(findSharing([])), '0 requests: nothing keeps them from sharing\n')
  const text = renderSharing(findSharing(recorded('claude-code')))
  t.regex(text, /^volatile-head \(6 of 6 requests, first at segment \d of the head, \d+ % of/)
  t.notRegex(text, /cc_version/, 'nothing of what was written')
})
