/**
 * How does one comparison go?
 *
 * For each router in turn: new engines with cold caches, the router in front of them, the same
 * planned sessions driven through it, and everything closed again. One after the other, never side
 * by side, so that each has the machine to itself.
 *
 * The caches are sized from the plan: the tokens that all sessions together would need resident,
 * over the pressure asked for, split evenly over the engines; but never so small that the longest
 * single context would not fit with room to spare, because then no router could serve it.
 */

import { type Driven, drive } from './driver.js'
import type { EnginesData, EnginesDone, EnginesReady } from './engines-thread.js'
import { Progress, type Screen } from './progress.js'
import { ROUTERS, type RouterName, type RunRecord } from './record.js'
import type { RouterData, RouterDone, RouterNote, RouterReady } from './router-thread.js'
import { sum } from './statistics.js'
import { type Hosted, host } from './threads.js'
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

type Engines = Hosted<EnginesReady, never, EnginesDone>
type Router = Hosted<RouterReady, RouterNote, RouterDone>

async function runRouter(name: RouterName, plan: Plan, options: DemoOptions): Promise<RunRecord> {
  const engines = await startEngines(plan.caches, options)
  try {
    const router = await startRouter(name, engines.ready.urls, plan.caches, options)
    try {
      const driven = await driveThrough(name, router, plan.workload, options)
      return record(name, driven, await router.finish(), await engines.finish(), options.speed)
    } finally {
      await router.stop()
    }
  } finally {
    await engines.stop()
  }
}

function startEngines(caches: Caches, { speed, execArgv }: DemoOptions): Promise<Engines> {
  const data: EnginesData = {
    count: caches.engines,
    model: MODEL,
    speed,
    numGpuBlocks: caches.blocksEach,
    blockSize: caches.blockSize,
  }
  return host('engines-thread', data, execArgv)
}

function startRouter(
  router: RouterName,
  workers: readonly string[],
  caches: Caches,
  { speed, seed, execArgv }: DemoOptions,
): Promise<Router> {
  const capacityTokens = caches.blocksEach * caches.blockSize
  const data: RouterData = { router, workers, capacityTokens, speed, seed }
  return host('router-thread', data, execArgv)
}

async function driveThrough(
  router: RouterName,
  { ready, tell }: Router,
  workload: Workload,
  { speed, screen }: DemoOptions,
): Promise<Driven> {
  const goal = { router, turns: countTurns(workload), sessions: workload.sessions.length, speed }
  const progress = new Progress(screen, goal)
  const driven = await drive({
    workload,
    url: ready.url,
    model: MODEL,
    speed,
    onTurn: (turn) => progress.turn(turn),
    onSessionEnd(session, routerName) {
      if (session.parent === undefined) progress.sessionOver()
      if (routerName !== undefined) tell({ sessionOver: routerName })
    },
  })
  progress.stop()
  return driven
}

function record(
  router: RouterName,
  { turns, sessions, elapsedMs }: Driven,
  { heldMs, reservationsLeft }: RouterDone,
  { firstTokenMs, lagP99Ms }: EnginesDone,
  speed: number,
): RunRecord {
  const withHolds = turns.map((turn) => ({
    ...turn,
    // A baseline holds nothing back; Warmpath's log has every turn that got as far as a decision.
    heldMs: router === 'warmpath' ? heldMs.get(turn.receipt ?? '') : 0,
  }))
  const waits = withHolds.flatMap(({ sentMs, firstContentMs, heldMs = 0 }) =>
    firstContentMs === undefined ? [] : [firstContentMs - sentMs - heldMs],
  )
  const overheadMs = waits.length === 0 ? 0 : (sum(waits) - firstTokenMs) / waits.length
  const pace = { speed, lagP99Ms, overheadMs }
  return { router, turns: withHolds, sessions, elapsedMs, reservationsLeft, pace }
}

/** What is going to be run. */
interface Plan {
  workload: Workload
  caches: Caches
}

function planDemo({ seed, sessions, pressure }: DemoOptions): Plan {
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
