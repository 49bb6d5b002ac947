import test from 'ava'
import fc from 'fast-check'
import { startConversation } from '../src/demo/conversation.js'
import { SplitMix64 } from '../src/demo/random.js'
import { prose } from '../src/demo/text.js'
import {
  allSessions,
  countTurns,
  largestContextTokens,
  planWorkload,
  type SessionPlan,
  workingSetTokens,
} from '../src/demo/workload.js'

test('SplitMix64 gives the published sequence for seed 1234567', (t) => {
  const random = new SplitMix64(1234567)
  t.deepEqual(
    [random.next(), random.next(), random.next()],
    [6457827717110365317n, 3203168211198807973n, 9817491932198370423n],
  )
})

test('a fork depends on its label and not on what was drawn from its siblings', (t) => {
  const a = new SplitMix64(7)
  const b = new SplitMix64(7)
  a.fork('x').next()
  t.is(a.fork('y').next(), b.fork('y').next())
  t.not(a.fork('x').next(), a.fork('y').next())
})

test('a log-normal draw stays in its range and has the median asked for', (t) => {
  const random = new SplitMix64(3)
  const drawn = Array.from({ length: 4001 }, () =>
    random.lognormal({ median: 700, sigma: 0.8, range: [200, 3000] }),
  ).sort((a, b) => a - b)
  t.true((drawn[0] ?? 0) >= 200 && (drawn.at(-1) ?? 0) <= 3000)
  const middle = drawn[2000] ?? 0
  t.true(middle > 650 && middle < 750, String(middle))
})

test('the same seed gives the same plan, another seed another', (t) => {
  t.deepEqual(planWorkload(5, 64), planWorkload(5, 64))
  t.notDeepEqual(planWorkload(5, 64).sessions, planWorkload(6, 64).sessions)
})

test('a session does not change when more follow it', (t) => {
  t.deepEqual(planWorkload(5, 64).sessions.slice(0, 8), planWorkload(5, 8).sessions)
})

test('plans keep to what the demo promises', (t) => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 2 ** 31 }),
      fc.integer({ min: 1, max: 80 }),
      (seed, n) => {
        const workload = planWorkload(seed, n)
        const children = allSessions(workload).filter((s) => s.parent !== undefined)
        t.is(workload.sessions.length, n)
        t.is(children.length, Math.floor(n / 5))
        for (const session of workload.sessions) checkRoot(session)
        for (const child of children) t.true(child.turns.length >= 3 && child.turns.length <= 5)
      },
    ),
    { numRuns: 30 },
  )
  function checkRoot(session: SessionPlan): void {
    t.true(session.turns.length >= 6 && session.turns.length <= 12)
    for (const [index, turn] of session.turns.entries()) {
      const last = index === session.turns.length - 1
      t.is(turn.resultTokens === 0, last)
      if (turn.spawns !== undefined) t.false(last)
      else t.is(turn.toolMs === 0, last)
    }
  }
})

test('the working set counts each shared prompt once and every peak', (t) => {
  const workload = planWorkload(1, 10)
  const shared = new Map<string, number>()
  let expected = 0
  for (const session of allSessions(workload)) {
    shared.set(session.shared.key, session.shared.tokens)
    expected += session.taskTokens
    for (const turn of session.turns) expected += turn.outputTokens + turn.resultTokens
  }
  for (const tokens of shared.values()) expected += tokens
  t.is(workingSetTokens(workload), expected)
  t.true(largestContextTokens(workload) < expected)
  t.is(
    countTurns(workload),
    allSessions(workload).reduce((n, s) => n + s.turns.length, 0),
  )
})

test('prose has the length asked for and depends on its stream only', (t) => {
  for (const tokens of [1, 10, 777]) {
    const text = prose(new SplitMix64(9), tokens)
    t.is(text, prose(new SplitMix64(9), tokens))
    t.true(text.length >= tokens * 4 - 1 && text.length < tokens * 4 + 8, String(text.length))
  }
  t.not(prose(new SplitMix64(9), 50), prose(new SplitMix64(10), 50))
})

const answer = {
  text: 'I look.',
  toolCalls: [{ id: 'call_1', name: 'read', arguments: '{"input":"x"}' }],
}

for (const [index, client] of ['claude-code', 'opencode', 'codex'].entries()) {
  test(`${client}: a conversation grows at its end only`, (t) => {
    const plan = planWorkload(2, 3).sessions[index] as SessionPlan
    t.is(plan.client, client as SessionPlan['client'])
    const conversation = startConversation(new SplitMix64(2), plan, 'm')
    const before = JSON.parse(JSON.stringify(conversation.request())) as Wire
    conversation.extend(answer, 'the result')
    const after = JSON.parse(JSON.stringify(conversation.request())) as Wire
    const list = client === 'codex' ? 'input' : 'messages'
    const [old, grown] = [before.body[list] as unknown[], after.body[list] as unknown[]]
    t.deepEqual(grown.slice(0, old.length), old)
    t.true(grown.length > old.length)
    t.true(JSON.stringify(grown.at(-1)).includes('the result'))
    t.true(JSON.stringify(grown).includes('call_1'))
    t.deepEqual(before.body.tools, after.body.tools)
    t.deepEqual(before.headers, after.headers)
  })

  test(`${client}: sessions share the system prompt and tools, not the task`, (t) => {
    const [a, b] = [index, index + 3].map((i) => {
      const plan = planWorkload(2, 6).sessions[i] as SessionPlan
      return startConversation(new SplitMix64(2), plan, 'm').request().body
    }) as [Record<string, unknown>, Record<string, unknown>]
    t.deepEqual(a.tools, b.tools)
    t.deepEqual(a.system, b.system)
    t.notDeepEqual(a.messages ?? a.input, b.messages ?? b.input)
    if (client !== 'claude-code') {
      const first = (body: Record<string, unknown>) =>
        ((body.messages ?? body.input) as unknown[])[0]
      t.deepEqual(first(a), first(b))
    }
  })
}

test('a sub-agent names its parent in the header of its client', (t) => {
  const parents: Record<string, string> = {
    'claude-code': 'x-claude-code-session-id',
    codex: 'x-codex-parent-thread-id',
    opencode: 'x-parent-session-id',
  }
  const children = allSessions(planWorkload(2, 64)).filter((s) => s.parent !== undefined)
  t.deepEqual(new Set(children.map((child) => child.client)).size, 3)
  for (const child of children) {
    const { headers } = startConversation(new SplitMix64(2), child, 'm').request()
    t.is(headers[parents[child.client] ?? ''], child.parent)
    t.true(Object.values(headers).includes(child.id))
  }
})

interface Wire {
  headers: Record<string, string>
  body: Record<string, unknown>
}
