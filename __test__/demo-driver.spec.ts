import test from 'ava'
import { drive } from '../src/demo/driver.js'
import { aloneMs, PREFILL_COST } from '../src/demo/engine.js'
import { Progress } from '../src/demo/progress.js'
import { planWorkload, type SessionPlan, type Workload } from '../src/demo/workload.js'
import { serve } from './support/http-worker.js'

const SPEED = 10_000

test('a refused turn ends its session with the status, and nothing throws', async (t) => {
  const url = await serve(t, (_, res) => res.writeHead(503).end('{}'))
  const workload = planWorkload(1, 3)
  const { turns, sessions } = await drive({ workload, url, model: 'm', speed: SPEED })
  t.deepEqual(
    turns.map((turn) => [turn.index, turn.error]),
    Array.from({ length: 3 }, () => [0, 'status 503']),
  )
  t.deepEqual(
    sessions.map((session) => session.completedMs),
    [undefined, undefined, undefined],
  )
})

test('an unreachable router and a stream that is cut are errors, not ends', async (t) => {
  const workload = planWorkload(1, 1)
  const gone = await drive({ workload, url: 'http://127.0.0.1:1', model: 'm', speed: SPEED })
  t.regex(gone.turns[0]?.error ?? '', /ECONNREFUSED/)
  const url = await serve(t, (_, res) => res.end('event: ping\ndata: {"type":"ping"}\n\n'))
  const cut = await drive({ workload, url, model: 'm', speed: SPEED })
  t.is(cut.turns[0]?.error, 'the stream ended early')
})

/** One session of the plan with a sub-agent, in a wire form that is short to answer. */
function withSubAgent(): Workload {
  const session = planWorkload(1, 5).sessions[4] as SessionPlan
  const turns = session.turns.map((turn) =>
    turn.spawns ? { ...turn, spawns: { ...turn.spawns, client: 'opencode' as const } } : turn,
  )
  return { seed: 1, sessions: [{ ...session, client: 'opencode', turns }] }
}

test('a sub-agent runs inside its parent, and both are told of when they end', async (t) => {
  const seen: { session: string; parent: string | undefined; last: unknown }[] = []
  const url = await serve(t, async (req, res) => {
    let raw = ''
    for await (const chunk of req) raw += chunk
    const messages = (JSON.parse(raw) as { messages: { role: string }[] }).messages
    const header = (name: string) => req.headers[name] as string | undefined
    seen.push({
      session: header('x-session-id') ?? '',
      parent: header('x-parent-session-id'),
      last: messages.at(-1)?.role,
    })
    const call = { index: 0, id: 'c', function: { name: 'read', arguments: '{}' } }
    const delta = header('x-double-tool') ? { tool_calls: [call] } : { content: 'done' }
    res.setHeader('x-warmpath-session', `router ${header('x-session-id')}`)
    res.end(`data: ${JSON.stringify({ choices: [{ delta }] })}\n\ndata: [DONE]\n\n`)
  })
  const workload = withSubAgent()
  const [session] = workload.sessions
  const child = session?.turns.find((turn) => turn.spawns)?.spawns
  const ends: string[] = []
  const { turns, sessions } = await drive({
    workload,
    url,
    model: 'm',
    speed: SPEED,
    onSessionEnd: (plan, name) => ends.push(`${plan.id} ${name}`),
  })
  t.deepEqual(
    turns.flatMap((turn) => turn.error ?? []),
    [],
  )
  t.deepEqual(ends, ['s004.sub router s004.sub', 's004 router s004'])
  t.is(turns.length, (session?.turns.length ?? 0) + (child?.turns.length ?? 0))
  const order = seen.map((one) => one.session)
  const first = order.indexOf('s004.sub')
  const last = order.lastIndexOf('s004.sub')
  t.deepEqual(new Set(order.slice(first, last + 1)).size, 1, 'the parent waits')
  t.true(first > 0 && last < order.length - 1)
  t.true(seen.filter((one) => one.session === 's004.sub').every((one) => one.parent === 's004'))
  t.deepEqual(
    seen.filter((one) => one.session === 's004').map((one) => one.last),
    ['user', ...Array.from({ length: (session?.turns.length ?? 0) - 1 }, () => 'tool')],
  )
  const [parent, inner] = sessions
  t.true((inner?.startedMs ?? 0) > (parent?.startedMs ?? 0))
  t.true((inner?.completedMs ?? 0) < (parent?.completedMs ?? 0))
})

test('alone, a session takes its tools, its prefills and its decodes', (t) => {
  const session: SessionPlan = {
    id: 'x',
    client: 'codex',
    startMs: 0,
    shared: { key: 'k', tokens: 900 },
    taskTokens: 100,
    turns: [
      { outputTokens: 11, resultTokens: 500, toolMs: 2000 },
      { outputTokens: 1, resultTokens: 0, toolMs: 0 },
    ],
  }
  const prefill = (n: number) => PREFILL_COST * (4.209989e-7 * n * n + 1.518344e-2 * n + 16.50142)
  const expected = prefill(1000) + 10 * 5.74 + 2000 + prefill(500)
  t.true(Math.abs(aloneMs(session) - expected) < 1e-9)
})

test('progress: a line that is rewritten on a terminal, whole lines elsewhere', (t) => {
  const goal = { router: 'warmpath', turns: 9, sessions: 2, speed: 1 } as const
  for (const isTTY of [true, false]) {
    let written = ''
    const screen = {
      isTTY,
      write: (text: string) => {
        written += text
      },
    }
    const progress = new Progress(screen, goal)
    const usage = { promptTokens: 100, cachedTokens: 75 }
    progress.turn({ session: 's', index: 0, sentMs: 0, usage })
    progress.turn({ session: 's', index: 1, sentMs: 0, usage: {}, error: 'x' })
    progress.sessionOver()
    progress.stop()
    t.regex(written, /warmpath +2\/9 turns, 1\/2 sessions, hit rate 75 %.*1 failed/)
    t.is(written.startsWith('\r'), isTTY)
    t.true(written.endsWith('\n'))
  }
})
