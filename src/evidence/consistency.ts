/**
 * Does the simulator say what engines behind HTTP do?
 *
 * The same sessions twice under each policy: in the simulator, and over HTTP through a load balancer
 * or the gateway in front of engine doubles, which share the engine model with the simulator and
 * nothing else: they tokenise a prompt that they are sent, and the wall paces them. What is compared is
 * the hit rate that clients were told, and which policy is better.
 *
 * Each turn waits for the one before it, which is mostly another session's, so that both ways see them
 * in one order however busy the machine is: what differs then is no noise.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startBaseline } from '../demo/baselines.js'
import { SplitMix64 } from '../demo/random.js'
import { startGateway } from '../gateway/index.js'
import {
  compareEndpoints,
  type EndpointOptions,
  type Policy,
  policies,
  type Report,
  type Watcher,
} from '../replay/index.js'
import { type EngineDouble, startEngineDouble } from '../testing/index.js'
import { type Scenario, Workload } from '../workload.js'

interface ConsistencyOptions {
  sessions: number
  seed: number
  /** Model time for each unit of real time. */
  speed: number
}

/** A policy both ways; hit rates from 0 to 1. */
interface Pair {
  policy: string
  simulated: number
  served: number
  /** Turns that failed over HTTP. */
  failed: number
}

const POLICIES = policies('round-robin,least-loaded,kv')
const WORKERS = 3
const BLOCK_TOKENS = 16
/** Smaller than what the sessions of one worker need, larger than any prompt. */
const CACHE_TOKENS = 16_384
const MODEL = 'double'
const SHAPE = {
  turns: 6,
  blockTokens: BLOCK_TOKENS,
  systemPrompts: 2,
  systemTokens: 800,
  addedTokens: 350,
  outputTokens: 20,
}
/** Sessions that are under way at a time, and the model time between two turns. */
const LIVE = 10
const GAP_MS = 100
/** Only rows of agentic Mooncake may wait for turns of other sessions. */
const HEADER = {
  schema: 'dynamo.agentic_mooncake',
  version: 2,
  block_size: BLOCK_TOKENS,
  hash_id_scope: 'global',
  source: { format: 'warmpath', digest: '0' },
}

async function consistency(options: ConsistencyOptions): Promise<Pair[]> {
  const workload = await interleaved(options)
  // Side by side: each has engines of its own, which mostly wait for the next turn.
  return Promise.all(POLICIES.map((policy) => both(policy, workload, options)))
}

async function both(
  { label, policy }: Policy,
  workload: Workload,
  options: ConsistencyOptions,
): Promise<Pair> {
  const scenario: Scenario = {
    label,
    policy,
    workers: WORKERS,
    engine: 'dynamo-poly',
    cacheTokens: CACHE_TOKENS,
    seed: options.seed,
  }
  const simulated = JSON.parse(await workload.simulate(scenario)) as Report
  const served = await serve(label, workload, options)
  return {
    policy: label,
    simulated: simulated.work.hit_rate ?? 0,
    served: served.work.hit_rate ?? 0,
    failed: served.turns.arrived - served.turns.completed,
  }
}

/** Generated sessions, the next turn always one of any session under way. */
async function interleaved({ sessions, seed }: ConsistencyOptions): Promise<Workload> {
  const whole = Workload.generate({ ...SHAPE, sessions }, seed)
  const turns = whole.turns()
  const left = turns.sessions.map((_, session) =>
    [...turns.session.keys()].filter((turn) => turns.session[turn] === session),
  )
  const random = new SplitMix64(seed)
  const rows = [JSON.stringify(HEADER)]
  while (left.length > 0) {
    const index = random.between(0, Math.min(LIVE, left.length) - 1)
    const turn = left[index]?.shift()
    if (left[index]?.length === 0) left.splice(index, 1)
    if (turn === undefined) continue
    const session = turns.sessions[turns.session[turn] ?? 0]
    const row = {
      request_id: `r${rows.length}`,
      play_id: session,
      session_id: session,
      model: MODEL,
      not_before_ms: 0,
      dependencies: rows.length > 1 ? [afterEnd(`r${rows.length - 1}`)] : [],
      input_length: turns.inputTokens[turn],
      output_length: turns.outputTokens[turn],
      hash_ids: [...whole.blocks(turn)],
    }
    rows.push(JSON.stringify(row))
  }
  return readBack(rows)
}

function afterEnd(request: string): object {
  return { request_id: request, trigger: 'completion', delay_ms: GAP_MS, relation: 'join' }
}

async function readBack(rows: readonly string[]): Promise<Workload> {
  const folder = await mkdtemp(join(tmpdir(), 'warmpath-consistency-'))
  try {
    const path = join(folder, 'rows.jsonl')
    await writeFile(path, rows.join('\n'))
    return await Workload.read({ paths: [path] })
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** Whether both ways put the policies in the same order; ones closer than `near` may change places. */
function sameOrder(pairs: readonly Pair[], near: number): boolean {
  return pairs.every((a) =>
    pairs.every((b) => a.simulated - b.simulated <= near || a.served > b.served),
  )
}

async function serve(
  label: string,
  workload: Workload,
  { seed, speed }: ConsistencyOptions,
): Promise<Report> {
  const engine = { blockSize: BLOCK_TOKENS, numGpuBlocks: CACHE_TOKENS / BLOCK_TOKENS }
  const doubles = await Promise.all(
    Array.from({ length: WORKERS }, () => startEngineDouble({ model: MODEL, speed, engine })),
  )
  const front = await startFront(label, doubles, seed)
  try {
    const options: EndpointOptions = {
      urls: [front.url],
      model: MODEL,
      headers: {},
      body: {},
      loop: 'trace',
      speed,
      concurrency: 1024,
      seed,
    }
    const { runs } = await compareEndpoints(workload, options, SILENT)
    const [run] = runs
    if (run === undefined) throw new Error('nothing was driven')
    return run.report
  } finally {
    await front.close()
    await Promise.all(doubles.map((double) => double.close()))
  }
}

interface Front {
  url: string
  close(): Promise<void>
}

async function startFront(
  label: string,
  doubles: readonly EngineDouble[],
  seed: number,
): Promise<Front> {
  const urls = doubles.map(({ url }) => url)
  if (label === 'round-robin' || label === 'least-loaded') return startBaseline(label, urls)
  return startGateway({
    port: 0,
    scheduler: {
      workers: urls.map((url, index) => ({
        id: `engine-${index}`,
        url,
        capacityTokens: CACHE_TOKENS,
      })),
      forward: { headers: ['x-double-output-tokens', 'x-double-tool'] },
      seed,
    },
  })
}

const SILENT: Watcher = { begun() {}, moved() {}, ended() {} }

export { type ConsistencyOptions, consistency, type Pair, sameOrder }
