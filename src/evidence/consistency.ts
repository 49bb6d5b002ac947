/**
 * Does the simulator say what engines behind HTTP do?
 *
 * The same sessions twice under each policy: in the simulator, and over HTTP through a load balancer
 * or the gateway in front of engine doubles, which share the engine model with the simulator and
 * nothing else: they tokenise a prompt that they are sent, and the wall paces them. What is compared is
 * the hit rate that clients were told, and which policy is better.
 */
import { startBaseline } from '../demo/baselines.js'
import { startGateway } from '../gateway/index.js'
import {
  compareEndpoints,
  type EndpointOptions,
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
const CACHE_TOKENS = 24_576
const MODEL = 'double'
const SHAPE = {
  turns: 6,
  blockTokens: BLOCK_TOKENS,
  systemPrompts: 2,
  systemTokens: 800,
  addedTokens: 350,
  outputTokens: 40,
  arrivalsMs: 600,
  toolMs: 2000,
  personMs: 4000,
}

async function consistency(options: ConsistencyOptions): Promise<Pair[]> {
  const workload = Workload.generate({ ...SHAPE, sessions: options.sessions }, options.seed)
  const pairs: Pair[] = []
  for (const { label, policy } of POLICIES) {
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
    pairs.push({
      policy: label,
      simulated: simulated.work.hit_rate ?? 0,
      served: served.work.hit_rate ?? 0,
      failed: served.turns.arrived - served.turns.completed,
    })
  }
  return pairs
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
