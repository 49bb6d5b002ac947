import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import test from 'ava'
import { type DialectName, dialectOf, type RequestFacts } from '../src/dialects/index.js'
import { identify, readHeaders } from '../src/identity/index.js'
import { promptText } from './support/prompt.js'

interface Capture {
  scenario: string
  url: string
  headers: Record<string, string>
  body: Record<string, unknown>
}

/** What one captured request must be read as. */
interface Expected {
  session: string
  parent?: string
  toolResults?: string[]
  /** Index of the earlier request of the same conversation that this one continues. */
  continues?: number
  segments: number
}

const uuid = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`
const agent = 'a55f900f868d05a20'
const [open1, open2, openChild] = [
  'ses_dd716a0acffeUc6gmkE3W22lF4',
  'ses_dd7161c18ffe7x3HInnYc2ToRe',
  'ses_dd7160d4affe7LC2WWaUfkzqAb',
] as const

const EXPECTED: Record<string, { dialect: DialectName; source: string; requests: Expected[] }> = {
  'claude-code': {
    dialect: 'anthropic-messages',
    source: 'claude-code',
    requests: [
      { session: uuid(1), segments: 6 },
      { session: uuid(1), toolResults: ['toolu_2'], continues: 0, segments: 8 },
      { session: uuid(2), segments: 6 },
      { session: agent, parent: uuid(2), segments: 6 },
      { session: agent, parent: uuid(2), toolResults: ['toolu_3'], continues: 3, segments: 9 },
      { session: uuid(2), toolResults: ['toolu_2'], continues: 2, segments: 8 },
    ],
  },
  codex: {
    dialect: 'openai-responses',
    source: 'codex',
    requests: [
      { session: uuid(3), segments: 5 },
      { session: uuid(3), toolResults: ['call_4'], continues: 0, segments: 7 },
      { session: uuid(12), segments: 5 },
      { session: uuid(12), toolResults: ['call_1'], continues: 2, segments: 7 },
      { session: uuid(20), parent: uuid(12), segments: 5 },
      { session: uuid(12), toolResults: ['call_2'], continues: 3, segments: 10 },
    ],
  },
  opencode: {
    dialect: 'openai-chat',
    source: 'opencode',
    requests: [
      // The first of each conversation asks for a title, under the same id and beside the turn.
      { session: open1, segments: 3 },
      { session: open1, segments: 3 },
      { session: open1, toolResults: ['call_7'], continues: 1, segments: 5 },
      { session: open2, segments: 3 },
      { session: open2, segments: 3 },
      { session: openChild, parent: open2, segments: 3 },
      { session: openChild, parent: open2, toolResults: ['call_8'], continues: 5, segments: 5 },
      { session: open2, toolResults: ['call_7'], continues: 4, segments: 5 },
    ],
  },
}

const load = (client: string): Capture[] =>
  JSON.parse(
    gunzipSync(
      readFileSync(join(__dirname, `fixtures/client-captures/${client}.json.gz`)),
    ).toString(),
  )

function factsOf(capture: Capture): RequestFacts {
  const dialect = dialectOf(capture.url)
  if (dialect === undefined) throw new Error(`no dialect for ${capture.url}`)
  return dialect.read(capture.body)
}

for (const [client, { dialect, source, requests }] of Object.entries(EXPECTED)) {
  test(`${client}: dialect, session, parent, phase`, (t) => {
    const captures = load(client)
    t.is(captures.length, requests.length)
    captures.forEach((capture, i) => {
      const expected = requests[i] as Expected
      t.is(dialectOf(capture.url)?.name, dialect)
      t.deepEqual(identify(readHeaders(capture.headers), capture.body), {
        session: expected.session,
        ...(expected.parent === undefined ? {} : { parent: expected.parent }),
        final: false,
        source,
        compaction: false,
      })
      const facts = factsOf(capture)
      t.deepEqual(facts.toolResults, expected.toolResults ?? [])
      t.is(facts.prompt.ends.length, expected.segments)
      t.is(facts.prompt.ends.at(-1), facts.prompt.bytes.length)
      t.is(facts.model, capture.body.model as string)
      t.true(facts.stream && facts.usageAsked)
      t.deepEqual(facts.state, [])
    })
  })

  test(`${client}: the next turn of a conversation extends the turn before, and only that`, (t) => {
    const facts = load(client).map(factsOf)
    requests.forEach(({ continues }, i) => {
      const here = facts[i]?.prompt
      facts.slice(0, i).forEach((before, j) => {
        const extended =
          here !== undefined && promptText(here).startsWith(promptText(before.prompt))
        const chain = continuedBy(requests, i)
        t.is(extended, chain.has(j), `request ${i} after ${j}`)
      })
      if (continues === undefined) return
      const ends = facts[continues]?.prompt.ends ?? []
      t.deepEqual(here?.ends.slice(0, ends.length), ends)
    })
  })
}

/** Every request that request `i` continues, directly or not. */
function continuedBy(requests: readonly Expected[], i: number): Set<number> {
  const chain = new Set<number>()
  for (let at = requests[i]?.continues; at !== undefined; at = requests[at]?.continues)
    chain.add(at)
  return chain
}

test('claude-code: the billing block is volatile, and markers become breakpoints', (t) => {
  for (const [i, capture] of load('claude-code').entries()) {
    const { volatile, breakpoints, prompt } = factsOf(capture)
    // Segments: tools, three system blocks, messages.
    t.deepEqual(volatile, [1])
    const billing = promptText(prompt, prompt.ends[0], prompt.ends[1])
    t.regex(billing, /x-anthropic-billing-header: cc_version=2\.1\.197\.[0-9a-f]{3};/)
    t.deepEqual(
      breakpoints.map(({ segment }) => segment),
      [2, 3, [4, 7, 4, 4, 7, 7][i]],
    )
  }
})

test('claude-code: the body alone names the session too', (t) => {
  const sessions = load('claude-code').map(({ body }) => identify(readHeaders({}), body))
  t.deepEqual(
    sessions.map(({ session, source }) => `${session} ${source}`),
    [1, 1, 2, 2, 2, 2].map((n) => `${uuid(n)} claude-code-body`),
  )
})

test('codex: the body alone names session and parent too', (t) => {
  const ids = load('codex').map(({ body }) => identify(readHeaders({}), body))
  t.deepEqual(
    ids.map(({ session, parent, source }) => [session, parent, source]),
    [3, 3, 12, 12, 20, 12].map((n) => [uuid(n), n === 20 ? uuid(12) : undefined, 'codex-body']),
  )
})

test('codex: the ids of items do not matter', (t) => {
  const [, , third, , child] = load('codex').map((capture) => factsOf(capture).prompt)
  // Root and child send the same developer messages under other ids; their tools differ.
  const shared = (p: typeof third) => p && promptText(p, p.ends[0], p.ends[3])
  t.is(shared(third), shared(child))
})
