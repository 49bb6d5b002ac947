/**
 * What do the agents of the demo do?
 *
 * A plan, drawn once from a seed and then replayed unchanged against every router: sessions that
 * share their client's system prompt and tools, get a task, and loop through tools while their
 * context grows; one in five hands a part of its task to a sub-agent half way and waits for it.
 * Sizes and waits are log-normal and cut off, as tool results and tool runs are: many small ones,
 * a few large.
 *
 * The plan knows nothing of wire formats (conversation.ts), engines or routers. Sizes are planned
 * tokens; what an engine really counts is measured during the run.
 */
import { type Lognormal, SplitMix64 } from './random.js'
import { sum } from './statistics.js'

/** Which agent's wire form a session speaks. */
type ClientName = 'claude-code' | 'codex' | 'opencode'

const CLIENTS: readonly ClientName[] = ['claude-code', 'opencode', 'codex']

/** One model request and the tool run that follows it. */
interface TurnPlan {
  /** Tokens of text that the model answers with; a tool call adds less than ten. */
  outputTokens: number
  /** Tokens of the tool result that the next turn brings; 0 after the last turn. */
  resultTokens: number
  /** Model time that the tool takes, ms; 0 after the last turn and where a sub-agent runs. */
  toolMs: number
  /** The sub-agent whose end is this turn's tool result, when there is one. */
  spawns?: SessionPlan
}

interface SessionPlan {
  /** Unique in the plan; sub-agents append `.sub` to their parent's. */
  id: string
  client: ClientName
  /** Id of the session that spawned this one. */
  parent?: string
  /** Model time after the start of the run at which the first turn is sent, ms; 0 for sub-agents. */
  startMs: number
  /** System prompt and tools: sessions with the same key have the same ones. */
  shared: { key: string; tokens: number }
  /** Tokens of the first user message. */
  taskTokens: number
  turns: readonly TurnPlan[]
}

interface Workload {
  seed: number
  /** Top-level sessions; sub-agents hang at the turn that spawns them. */
  sessions: readonly SessionPlan[]
}

type Kind = 'agent' | 'sub-agent'

/** System prompt plus tools, tokens. Codex gives its sub-agents the instructions of their parent. */
const SHARED: Readonly<Record<ClientName, Record<Kind, SessionPlan['shared']>>> = {
  'claude-code': {
    agent: { key: 'claude-code agent', tokens: 2800 },
    'sub-agent': { key: 'claude-code sub-agent', tokens: 1800 },
  },
  codex: {
    agent: { key: 'codex', tokens: 2400 },
    'sub-agent': { key: 'codex', tokens: 2400 },
  },
  opencode: {
    agent: { key: 'opencode agent', tokens: 2200 },
    'sub-agent': { key: 'opencode sub-agent', tokens: 1400 },
  },
}

const TASK: Lognormal = { median: 300, sigma: 0.6, range: [100, 1200] }
const RESULT: Lognormal = { median: 700, sigma: 0.8, range: [200, 3000] }
const TOOL_MS: Lognormal = { median: 4000, sigma: 0.8, range: [1000, 20_000] }
const OUTPUT: Lognormal = { median: 80, sigma: 0.5, range: [24, 240] }
/** The tokens of a sub-agent's report, which is its parent's tool result. */
const REPORT: Lognormal = { median: 400, sigma: 0.4, range: [200, 900] }

const ROOT_TURNS = [6, 12] as const
const CHILD_TURNS = [3, 5] as const
/** All sessions begin within this long, ms: agents of a team, not one burst. */
const ARRIVAL_MS = 10_000
/** One session in this many spawns a sub-agent. */
const SPAWN_EVERY = 5

function planTurns(random: SplitMix64, count: number): TurnPlan[] {
  return Array.from({ length: count }, (_, turn) => {
    const last = turn === count - 1
    const outputTokens = random.lognormal(OUTPUT)
    const resultTokens = random.lognormal(RESULT)
    const toolMs = random.lognormal(TOOL_MS)
    return { outputTokens, resultTokens: last ? 0 : resultTokens, toolMs: last ? 0 : toolMs }
  })
}

function planChild(random: SplitMix64, parent: string, client: ClientName): SessionPlan {
  return {
    id: `${parent}.sub`,
    client,
    parent,
    startMs: 0,
    shared: SHARED[client]['sub-agent'],
    taskTokens: random.lognormal(TASK),
    turns: planTurns(random, random.between(...CHILD_TURNS)),
  }
}

function planSession(seeded: SplitMix64, index: number, spawns: boolean): SessionPlan {
  const id = `s${String(index).padStart(3, '0')}`
  const random = seeded.fork(id)
  const client = CLIENTS[index % CLIENTS.length] as ClientName
  const startMs = Math.floor(random.uniform() * ARRIVAL_MS)
  const taskTokens = random.lognormal(TASK)
  const turns = planTurns(random, random.between(...ROOT_TURNS))
  const middle = Math.floor(turns.length / 2) - 1
  const spawning = turns[middle]
  if (spawns && spawning !== undefined) {
    turns[middle] = {
      outputTokens: spawning.outputTokens,
      resultTokens: random.lognormal(REPORT),
      toolMs: 0,
      spawns: planChild(random, id, client),
    }
  }
  return { id, client, startMs, shared: SHARED[client].agent, taskTokens, turns }
}

/**
 * Draws the sessions of a run. The same arguments give the same plan; session i does not depend
 * on how many follow it.
 * @param count top-level sessions, at least 1
 */
function planWorkload(seed: number, count: number): Workload {
  const seeded = new SplitMix64(seed)
  const sessions = Array.from({ length: count }, (_, index) =>
    planSession(seeded, index, index % SPAWN_EVERY === SPAWN_EVERY - 1),
  )
  return { seed, sessions }
}

/** Every session of the plan, sub-agents after their parents. */
function allSessions(workload: Workload): SessionPlan[] {
  return workload.sessions.flatMap((session) => [
    session,
    ...session.turns.flatMap((turn) => (turn.spawns === undefined ? [] : [turn.spawns])),
  ])
}

/** Tokens of a session's last prompt and answer without the shared part. */
function ownPeakTokens(session: SessionPlan): number {
  return (
    session.taskTokens + sum(session.turns.map((turn) => turn.outputTokens + turn.resultTokens))
  )
}

/**
 * Tokens that would have to stay resident for no session ever to lose its context: the peak of
 * every session, each shared system prompt once. Every session runs at the same time, which is
 * what makes the sum of peaks the right measure.
 */
function workingSetTokens(workload: Workload): number {
  const shared = new Map<string, number>()
  let own = 0
  for (const session of allSessions(workload)) {
    shared.set(session.shared.key, session.shared.tokens)
    own += ownPeakTokens(session)
  }
  return own + sum([...shared.values()])
}

/** Tokens of the longest context that a single session reaches. */
function largestContextTokens(workload: Workload): number {
  return Math.max(...allSessions(workload).map((s) => s.shared.tokens + ownPeakTokens(s)))
}

/** Turns that a complete run takes. */
function countTurns(workload: Workload): number {
  return sum(allSessions(workload).map((session) => session.turns.length))
}

export {
  allSessions,
  type ClientName,
  countTurns,
  largestContextTokens,
  planWorkload,
  type SessionPlan,
  type TurnPlan,
  type Workload,
  workingSetTokens,
}
