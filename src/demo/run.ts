/**
 * How does one comparison go?
 *
 * For each router in turn: a rehearsal, then new engines with cold caches, the router in front of
 * them, the same planned sessions driven through it, and everything closed again. One after the
 * other, never side by side, so that each has the machine to itself.
 *
 * The caches are sized from the plan: the tokens that all sessions together would need resident,
 * over the pressure asked for, split evenly over the engines; but never so small that the longest
 * single context would not fit with room to spare, because then no router could serve it.
 */

import { type Driven, drive } from './driver.js'
import type { EnginesData, EnginesDone, EnginesReady } from './engines-thread.js'
import { announce, Progress, type Screen } from './progress.js'
import { ROUTERS, type RouterName, type RunRecord } from './record.js'
import type { RouterData, RouterDone, RouterNote, RouterReady } from './router-thread.js'
import { sum } from './statistics.js'
import { Hosted } from './threads.js'
import {
  allSessions,
  countTurns,
  largestContextTokens,
  planWorkload,
  type Workload,
  workingSetTokens,
} from './workload.js'

interface DemoOptions {
  /** Top-level sessions, at least 1. */
  sessions: number
  /** Working set over the sum of the caches, above 0. */
  pressure: number
  seed: number
  /** Model ms that pass in one wall ms, above 0. */
  speed: number
  /** Where progress goes. */
  screen: Screen
  /** Whether the programs are warmed up first; see REHEARSAL. Default: they are. */
  rehearsal?: 'none'
  /** Flags of node for the threads, such as a loader; default: those of this process. */
  execArgv?: string[]
}

interface Caches {
  engines: number
  blocksEach: number
  blockSize: number
  /** Tokens of all caches together. */
  tokens: number
  /** What the pressure really is: lower than asked where the longest context set the size. */
  pressure: number
}

const MODEL = 'demo-model'
const ENGINES = 4
const BLOCK_SIZE = 16
/** Cache of one engine over the longest context: admission fills a worker to 0.85 at most. */
const ROOM = 1.5

/** Sizes the caches for a workload. */
function sizeCaches(workload: Workload, pressure: number): Caches {
  const wanted = workingSetTokens(workload)
  const share = wanted / pressure / ENGINES
  const blocksEach = Math.ceil(Math.max(share, ROOM * largestContextTokens(workload)) / BLOCK_SIZE)
  const tokens = blocksEach * BLOCK_SIZE * ENGINES
  return { engines: ENGINES, blocksEach, blockSize: BLOCK_SIZE, tokens, pressure: wanted / tokens }
}

type Engines = Hosted<EnginesData, EnginesReady, never, EnginesDone>
type Router = Hosted<RouterData, RouterReady, RouterNote, RouterDone>

/** One router, its engines, and what is sent through them. */
interface Stage {
  name: RouterName
  engines: Engines
  router: Router
  plan: Plan
  seed: number
  speed: number
}

/**
 * A small, fast run before each measured one, on engines and a router that are thrown away: the
 * first second of a program is slow (nothing is compiled yet), and at the model clock's rate that
 * would be many seconds of the first router's times.
 */
const REHEARSAL = { sessions: 16, pressure: 1, speed: 60 }

async function runRouter(name: RouterName, plan: Plan, options: DemoOptions): Promise<RunRecord> {
  const { seed, speed, execArgv } = options
  const engines: Engines = new Hosted('engines-thread', execArgv)
  const router: Router = new Hosted('router-thread', execArgv)
  try {
    if (options.rehearsal !== 'none') {
      announce(options.screen, `${name} warms up`)
      const rehearsal = planDemo({ ...REHEARSAL, seed: seed + 1 })
      await runStage({ name, engines, router, plan: rehearsal, seed, speed: REHEARSAL.speed })
    }
    return await runStage({ name, engines, router, plan, seed, speed }, options.screen)
  } finally {
    await router.stop()
    await engines.stop()
  }
}

/** @param screen where progress goes; none for a rehearsal */
async function runStage(stage: Stage, screen?: Screen): Promise<RunRecord> {
  const { name, engines, router, plan, seed, speed } = stage
  const { caches } = plan
  const { urls: workers } = await engines.start({
    count: caches.engines,
    model: MODEL,
    speed,
    numGpuBlocks: caches.blocksEach,
    blockSize: caches.blockSize,
  })
  const capacityTokens = caches.blocksEach * caches.blockSize
  const { url } = await router.start({ router: name, workers, capacityTokens, speed, seed })
  const driven = await driveThrough(url, stage, screen)
  return record(stage, driven, await router.finish(), await engines.finish())
}

async function driveThrough(
  url: string,
  { name, router, plan: { workload }, speed }: Stage,
  screen: Screen = { write: () => {} },
): Promise<Driven> {
  const sessions = workload.sessions.length
  const progress = new Progress(screen, {
    router: name,
    turns: countTurns(workload),
    sessions,
    speed,
  })
  const driven = await drive({
    workload,
    url,
    model: MODEL,
    speed,
    onTurn: (turn) => progress.turn(turn),
    onSessionEnd(session, routerName) {
      if (session.parent === undefined) progress.sessionOver()
      if (routerName !== undefined) router.tell({ sessionOver: routerName })
    },
  })
  progress.stop()
  return driven
}

function record(
  { name, speed }: Stage,
  { turns, sessions, elapsedMs }: Driven,
  { heldMs, reservationsLeft }: RouterDone,
  engines: EnginesDone,
): RunRecord {
  const withHolds = turns.map((turn) => ({
    ...turn,
    // A baseline holds nothing back; Warmpath's log has every turn that got as far as a decision.
    heldMs: name === 'warmpath' ? heldMs.get(turn.receipt ?? '') : 0,
  }))
  const waits = withHolds.flatMap(({ sentMs, firstContentMs, heldMs = 0 }) =>
    firstContentMs === undefined ? [] : [firstContentMs - sentMs - heldMs],
  )
  const overheadMs = waits.length === 0 ? 0 : (sum(waits) - engines.firstTokenMs) / waits.length
  const pace = { speed, lagP99Ms: engines.lagP99Ms, overheadMs }
  const engineTokens = { prompt: engines.promptTokens, cached: engines.cachedTokens }
  return {
    router: name,
    turns: withHolds,
    sessions,
    elapsedMs,
    reservationsLeft,
    engineTokens,
    pace,
  }
}

/** What is going to be run. */
interface Plan {
  workload: Workload
  caches: Caches
}

function planDemo({
  seed,
  sessions,
  pressure,
}: Pick<DemoOptions, 'seed' | 'sessions' | 'pressure'>): Plan {
  const workload = planWorkload(seed, sessions)
  return { workload, caches: sizeCaches(workload, pressure) }
}

/** A plan in one line. */
function describe({ workload, caches }: Plan): string {
  const children = allSessions(workload).length - workload.sessions.length
  return (
    `${workload.sessions.length} sessions and ${children} sub-agents, ` +
    `${countTurns(workload)} turns, working set ${caches.pressure.toFixed(2)} x the caches of ` +
    `${caches.engines} engines (${Math.round(caches.tokens / 1000)} k tokens), seed ${workload.seed}`
  )
}

/**
 * Runs the comparison. Rejects only when a part could not be started or ended; turns that fail
 * are in the records.
 */
async function compare(plan: Plan, options: DemoOptions): Promise<RunRecord[]> {
  const runs: RunRecord[] = []
  for (const router of ROUTERS) runs.push(await runRouter(router, plan, options))
  return runs
}

export { compare, type DemoOptions, describe, type Plan, planDemo, sizeCaches }
