/**
 * A scheduler that is told all kinds of things in an order that follows from a seed, and records it: turns of
 * text, tokens and hashes in tool loops, ends of all kinds, retries, and a fleet that changes under way.
 */
import {
  jsonl,
  Scheduler,
  type SchedulerOptions,
  type TraceOptions,
  WarmpathError,
} from '../../src/index.js'
import type { Turn } from '../../src/turn.js'

export interface Told {
  readonly path: string
  readonly seed: number
  readonly steps: number
  readonly options?: Partial<SchedulerOptions>
  readonly trace?: TraceOptions
  /** Also what changes the fleet. */
  readonly changes?: boolean
}

/** mulberry32: the same numbers from the same seed. */
function random(seed: number): (below: number) => number {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) % below
  }
}

interface Session {
  readonly messages: object[]
  readonly hashes: bigint[]
  turns: number
}

const ORDINARY = { 'content-type': 'application/json' }

/** Runs so many steps and gives how many turns were completed. */
export async function told({ path, seed, steps, options, trace, changes }: Told): Promise<number> {
  const draw = random(seed)
  let now = 1_700_000_000_000
  const workers = ['a', 'b', 'c'].map((id) => ({ id, url: `http://${id}`, capacityTokens: 6_000 }))
  const base = { workers, clock: () => now, ...options }
  const scheduler = new Scheduler({
    ...base,
    trace: { sink: jsonl({ path }), receipts: 'full', ...trace },
  })
  const sessions = new Map<number, Session>()
  const running: { turn: Turn; session: Session }[] = []
  let completed = 0
  let added = 0

  const names = () => scheduler.status().workers.map(({ id }) => id)
  const some = <T>(list: readonly T[]): T | undefined => list[draw(list.length || 1)]

  const submit = async () => {
    const at = draw(7)
    const session = sessions.get(at) ?? { messages: [], hashes: [BigInt(at % 2)], turns: 0 }
    sessions.set(at, session)
    session.turns += 1
    session.messages.push({
      role: 'user',
      content: `${at} ${session.turns} `.repeat(1 + draw(300)),
    })
    for (let i = draw(6); i >= 0; i -= 1) session.hashes.push(BigInt(draw(1_000_000)))
    const isText = at % 3 !== 0
    const taken = scheduler.submit({
      path: '/v1/chat/completions',
      headers: {
        ...(at < 6 && { 'x-session-id': `s${at}` }),
        'x-tenant': `t${at % 3}`,
        ...ORDINARY,
      },
      priority: at % 4 === 3 ? -1 : 0,
      body: {
        model: 'm',
        messages: [
          { role: 'system', content: `You are ${at % 2}. `.repeat(90) },
          ...session.messages,
        ],
      },
      ...(isText ? {} : { hashes: BigUint64Array.from(session.hashes) }),
    })
    taken.then(
      (turn) => running.push({ turn, session }),
      () => undefined,
    )
    await Promise.race([taken.catch(() => undefined), tick()])
  }

  const end = () => {
    const [one] = running.splice(draw(running.length || 1), 1)
    if (one === undefined) return
    const { turn, session } = one
    const how = draw(8)
    if (how === 0) return turn.fail()
    if (how === 1) return turn[Symbol.dispose]()
    if (how < 4) turn.firstToken()
    const calls = how % 2 === 0 ? [`call_${seed}_${turn.id}`] : []
    session.messages.push({
      role: 'assistant',
      content: 'done',
      ...(calls.length > 0 && {
        tool_calls: calls.map((id) => ({
          id,
          type: 'function',
          function: { name: 'f', arguments: '{}' },
        })),
      }),
    })
    for (const id of calls) session.messages.push({ role: 'tool', tool_call_id: id, content: 'ok' })
    const usage =
      how === 7
        ? {}
        : { promptTokens: 100 + draw(900), cachedTokens: draw(90), completionTokens: draw(99) }
    turn.complete(usage, { toolCalls: calls })
    completed += 1
  }

  /** Another address, another capacity, or one worker less; refused where names are taken. */
  const goOver = () => {
    const others = workers.map((each) => ({
      ...each,
      url: `http://${each.id}${draw(2)}`,
      capacityTokens: 4_000 + 1_000 * draw(4),
    }))
    try {
      scheduler.reconfigure({ ...base, workers: others.slice(draw(2)) })
    } catch (error) {
      if (!WarmpathError.is(error)) throw error
    }
  }

  const tool = () => {
    const at = draw(6)
    // The tenant is that of the header where one is named there.
    for (const tenant of ['', `t${at % 3}`]) {
      if (draw(3) === 0) scheduler.toolEnded(`s${at}`, { tenant })
      else scheduler.toolStarted(`s${at}`, { tenant, expectedSeconds: draw(90) })
    }
  }

  /** Refused where it is not up. */
  const depart = (worker: string, drains: boolean) => {
    const deadlineSeconds = draw(20)
    try {
      if (drains) scheduler.drainWorker(worker, { deadlineSeconds })
      else scheduler.shedSessions(worker, { sessions: 1 + draw(3), deadlineSeconds })
    } catch (error) {
      if (!WarmpathError.is(error)) throw error
    }
  }

  const change = () => {
    const worker = some(names())
    const kind = draw(16)
    if (kind === 0)
      running[draw(running.length || 1)]?.turn.next(draw(2) === 0 ? 'passing' : 'lasting')
    else if (kind === 1) scheduler.endSession(`s${draw(6)}`)
    else if (kind === 13) tool()
    else if (kind === 10 && options?.targets?.big) {
      scheduler.setPrice('big', { input: 1 + draw(9), output: 25 })
    } else if (kind === 11 && options?.workers === undefined) goOver()
    else if (worker === undefined) return
    else if (kind === 2) scheduler.resetCache(worker)
    else if (kind === 12) scheduler.setCapacity(worker, 3_000 + 1_000 * draw(5))
    else if (kind === 3) scheduler.drainWorker(worker)
    else if (kind > 13) depart(worker, kind === 14)
    else if (kind === 4) scheduler.setHealth(worker, 'down')
    else if (kind === 5) scheduler.setHealth(worker, 'limited')
    else if (kind === 6 && names().length > 2) scheduler.removeWorker(worker)
    else if (kind === 7 && options?.targets === undefined) {
      added += 1
      scheduler.addWorker({ id: `new${added}`, url: 'http://n', capacityTokens: 6_000 })
    } else if (kind === 8) for (const id of names()) scheduler.setHealth(id, 'up')
    else running[0]?.turn.next()
  }

  for (let step = 0; step < steps; step += 1) {
    now += draw(2_000)
    const what = draw(10)
    if (what < 4) await submit()
    else if (what < 8) end()
    else if (changes) change()
    else scheduler.poll()
    await tick()
  }
  while (running.length > 0) {
    now += 100
    end()
    scheduler.poll()
    await tick()
  }
  scheduler.close()
  await scheduler.flush()
  return completed
}

function tick(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
