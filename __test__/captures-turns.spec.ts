/**
 * What three real agents sent, as turns of one scheduler: whose session, on which branch, on how much
 * of a warm cache. Sizes of credit are told as shares of the previous turn's prompt, since lengths
 * in tokens are estimates.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import test from 'ava'
import { dialectOf, type Receipt, type RequestFacts, Scheduler, type Turn } from '../src/index.js'
import { promptText } from './support/prompt.js'

/** How a marker stands behind the members of its block. */
const MARKER = ',"cache_control":{"type":"ephemeral"}'

interface Capture {
  url: string
  headers: Record<string, string>
  body: Record<string, unknown>
}

function captures(client: string): Capture[] {
  const path = join(__dirname, 'fixtures/client-captures', `${client}.json.gz`)
  return JSON.parse(gunzipSync(readFileSync(path)).toString('utf8'))
}

function scheduler(policy: 'none' | 'thunderagent' = 'none'): Scheduler {
  const workers = ['a', 'b', 'c', 'd'].map((id, i) => ({
    id,
    url: `http://127.0.0.1:${8000 + i}`,
    capacityTokens: 100_000,
  }))
  return new Scheduler({ workers, admission: { policy } })
}

function submit(s: Scheduler, { url, headers, body }: Capture): Promise<Turn> {
  return s.submit({ path: url, headers, body })
}

function receiptOf(turn: Turn): Receipt {
  const receipt = turn.receipt()
  if (receipt === undefined) throw new Error('no receipt')
  return receipt
}

test('Claude Code: a tool loop keeps its cache although its markers move', async (t) => {
  const s = scheduler()
  const [first, second] = captures('claude-code') as [Capture, Capture]
  const one = await submit(s, first)
  one.complete()
  const two = await submit(s, second)
  t.is(two.session, one.session)
  t.is(two.worker, one.worker)
  // All of the first prompt is credited: the marker that left its last block is no part of it.
  t.is(two.predictedCachedTokens, one.promptTokens)
  t.is(receiptOf(two).branch, receiptOf(one).branch)
  two.complete()
})

test('Claude Code: the billing block ends what conversations share, and the receipt names it', async (t) => {
  const s = scheduler()
  const all = captures('claude-code')
  const turns: Turn[] = []
  for (const index of [0, 2]) {
    const turn = await submit(s, all[index] as Capture)
    turn.complete()
    turns.push(turn)
  }
  const [own, other] = turns as [Turn, Turn]
  t.not(own.session, other.session)
  const { prompt, predictedCachedTokens } = receiptOf(other)
  t.is(prompt.volatile?.segment, 1)
  t.regex(prompt.volatile?.reason ?? '', /differs per conversation/)
  // Only the tools stand before it.
  t.true(predictedCachedTokens > 0)
  t.is(prompt.volatile?.atToken, predictedCachedTokens)
})

test('Claude Code: a sub-agent is a session of its own and leaves its parent in place', async (t) => {
  const s = scheduler()
  const [, , spawn, child, childNext, back] = captures('claude-code') as [
    Capture,
    Capture,
    Capture,
    Capture,
    Capture,
    Capture,
  ]
  const parent = await submit(s, spawn)
  parent.complete()
  const agent = await submit(s, child)
  t.not(agent.session, parent.session)
  t.is(agent.parent, parent.session)
  agent.complete()
  const agentNext = await submit(s, childNext)
  t.is(agentNext.session, agent.session)
  t.is(agentNext.predictedCachedTokens, agent.promptTokens)
  agentNext.complete()
  const parentNext = await submit(s, back)
  t.is(parentNext.session, parent.session)
  t.is(parentNext.parent, undefined)
  t.is(parentNext.predictedCachedTokens, parent.promptTokens)
  t.is(receiptOf(parentNext).branch, receiptOf(parent).branch)
  parentNext.complete()
  t.is(s.status().sessions, 2)
})

/** One account of a provider whose cache is written and read at breakpoints, on a clock of ours. */
function hosted(clock = { ms: 0 }): Scheduler {
  return new Scheduler({
    workers: [{ id: 'account', url: 'http://127.0.0.1:8000' }],
    targets: {
      'claude-opus-4-8': {
        provider: 'anthropic',
        workers: ['account'],
        credential: 'pass-through',
        // What was captured is shorter than anything that the provider caches.
        cache: { minTokens: 0 },
      },
    },
    clock: () => clock.ms,
  })
}

function factsOf({ url, body }: Capture): RequestFacts {
  const facts = dialectOf(url)?.read(body)
  if (facts === undefined) throw new Error(`${url} asks for no turn`)
  return facts
}

/** The canonical text before each breakpoint. */
function writtenBy({ prompt, breakpoints }: RequestFacts): string[] {
  return breakpoints.map(({ segment }) => promptText(prompt, 0, prompt.ends[segment]))
}

/** Tokens as they are estimated before any report. */
function estimate(text: string): number {
  return Math.round(Buffer.byteLength(text) / 4)
}

test('Claude Code, hosted: each turn reads where an earlier one wrote, and nothing beyond', async (t) => {
  const s = hosted()
  const written = new Map([['', -1]])
  const read: (number | undefined)[] = []
  for (const [i, capture] of captures('claude-code').entries()) {
    const facts = factsOf(capture)
    const turn = await submit(s, capture)
    const known = [...written.keys()].filter((text) => promptText(facts.prompt).startsWith(text))
    const longest = known.reduce((a, b) => (b.length > a.length ? b : a))
    t.is(turn.predictedCachedTokens, estimate(longest))
    const receipt = receiptOf(turn)
    t.is(receipt.candidates[0]?.overlapTokens, turn.predictedCachedTokens)
    turn.complete()
    read.push(written.get(longest))
    for (const text of writtenBy(facts)) written.set(text, i)
  }
  // A loop reads what its turn before wrote. One that begins reads nothing, although it begins with
  // the same tools: nobody wrote behind them, and its first system block is its own.
  t.deepEqual(read, [-1, 0, -1, -1, 3, 2])
})

test('Claude Code, hosted: the lifetime is what the marker asks for', async (t) => {
  const [first, second] = captures('claude-code') as [Capture, Capture]
  const asking = (capture: Capture, ttl: string): Capture => {
    const text = JSON.stringify(capture.body)
    const body = JSON.parse(text.replaceAll('"ephemeral"', `"ephemeral","ttl":"${ttl}"`))
    return { ...capture, body }
  }
  for (const [ttl, minutes, isWarm] of [
    ['5m', 4.9, true],
    ['5m', 5, false],
    ['1h', 59, true],
    ['1h', 60, false],
  ] as const) {
    const clock = { ms: 0 }
    const s = hosted(clock)
    const one = await submit(s, asking(first, ttl))
    one.complete()
    clock.ms = minutes * 60_000
    const two = await submit(s, asking(second, ttl))
    t.is(two.predictedCachedTokens > 0, isWarm, `${ttl} after ${minutes} minutes`)
    two.complete()
  }
})

test('Claude Code, hosted: eleven calls at once are more than the next marker looks back', async (t) => {
  const [first] = captures('claude-code') as [Capture]
  const calls = (n: number): Capture => {
    const ids = Array.from({ length: n }, (_, i) => `toolu_${i}`)
    const uses = ids.map((id) => ({ type: 'tool_use', id, name: 'Read', input: {} }))
    const results = ids.map((id, i) => ({
      type: 'tool_result',
      tool_use_id: id,
      content: 'x',
      ...(i === n - 1 && { cache_control: { type: 'ephemeral' } }),
    }))
    const { messages, system, ...body } = structuredClone(first.body)
    const unmarked = JSON.parse(JSON.stringify(system).replaceAll(MARKER, ''))
    const history = JSON.parse(JSON.stringify(messages).replaceAll(MARKER, ''))
    const answer = { role: 'assistant', content: uses }
    const next = [...history, answer, { role: 'user', content: results }]
    return { ...first, body: { ...body, system: unmarked, messages: next } }
  }
  for (const [n, isWarm] of [
    [9, true],
    [11, false],
  ] as const) {
    const s = hosted()
    const one = await submit(s, first)
    one.complete()
    const two = await submit(s, calls(n))
    t.is(two.predictedCachedTokens > 0, isWarm, `${n} calls`)
    two.complete()
  }
})

test('Codex: children have their own thread and share nothing but the name of the root', async (t) => {
  const s = scheduler()
  const turns: Turn[] = []
  for (const capture of captures('codex')) {
    const turn = await submit(s, capture)
    turn.complete()
    turns.push(turn)
  }
  const sessions = turns.map((turn) => turn.session.slice(-2))
  t.deepEqual(sessions, ['03', '03', '12', '12', '20', '12'])
  t.deepEqual(
    turns.map((turn) => turn.parent?.slice(-2)),
    [undefined, undefined, undefined, undefined, '12', undefined],
  )
  for (const [earlier, later] of [
    [0, 1],
    [2, 3],
    [3, 5],
  ] as const) {
    t.is(turns[later]?.predictedCachedTokens, turns[earlier]?.promptTokens)
  }
})

for (const policy of ['none', 'thunderagent'] as const) {
  for (const order of ['title first', 'title last']) {
    for (const end of ['title first', 'title last']) {
      test(`OpenCode (${policy}, sent ${order}, ended ${end}): a title request beside the first turn \
neither steals nor splits the session`, async (t) => {
        const s = scheduler(policy)
        const [title, first, next] = captures('opencode') as [Capture, Capture, Capture]
        const isFirst = order === 'title first'
        const one = await submit(s, isFirst ? title : first)
        const two = await submit(s, isFirst ? first : title)
        const [aside, main] = isFirst ? [one, two] : [two, one]
        t.is(aside.session, main.session)
        t.not(receiptOf(aside).branch, receiptOf(main).branch)
        for (const turn of end === 'title first' ? [aside, main] : [main, aside]) turn.complete()
        const following = await submit(s, next)
        t.is(following.session, main.session)
        t.is(following.worker, main.worker)
        t.is(following.predictedCachedTokens, main.promptTokens)
        t.is(receiptOf(following).branch, receiptOf(main).branch)
        following.complete()
        const { sessions, reservations } = s.status()
        t.deepEqual({ sessions, reservations }, { sessions: 1, reservations: 0 })
      })
    }
  }
}

test('OpenCode: every request in order, with the sub-agent beside its parent', async (t) => {
  const s = scheduler()
  const turns: Turn[] = []
  for (const capture of captures('opencode')) {
    const turn = await submit(s, capture)
    turn.complete()
    turns.push(turn)
  }
  const of = (index: number) => turns[index] as Turn
  t.deepEqual(
    turns.map((turn) => turn.session.slice(-4)),
    ['2lF4', '2lF4', '2lF4', 'ToRe', 'ToRe', 'zqAb', 'zqAb', 'ToRe'],
  )
  t.is(of(5).parent, of(4).session)
  t.is(of(6).parent, of(4).session)
  for (const [earlier, later] of [
    [1, 2],
    [5, 6],
    [4, 7],
  ] as const) {
    t.is(of(later).predictedCachedTokens, of(earlier).promptTokens)
  }
})

test('the same requests without any header find their sessions by what they have sent', async (t) => {
  const s = scheduler()
  const [title, first, next] = captures('opencode').map((capture) => ({
    ...capture,
    headers: {},
  })) as [Capture, Capture, Capture]
  const turns: Turn[] = []
  for (const capture of [title, first, next]) {
    const turn = await submit(s, capture)
    turn.complete()
    turns.push(turn)
  }
  const [aside, main, following] = turns as [Turn, Turn, Turn]
  t.not(aside.session, main.session)
  t.is(following.session, main.session)
  t.is(following.predictedCachedTokens, main.promptTokens)
})
