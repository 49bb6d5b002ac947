/**
 * A router of the demo, in a thread of its own: one of the two baselines, or Warmpath's gateway.
 *
 * Warmpath's clock ticks on the wall while the engines live in model time, so the one time of its
 * settings that matters in a run of minutes is divided by the speed: five seconds between two looks
 * at the pressure stay five model seconds. Holds, which it reports in wall time, are multiplied
 * back. What decides is otherwise left at its defaults. When a session is over the gateway's
 * scheduler is told, as the end hook of an agent would; the baselines have no use for it.
 *
 * The gateway is asked what it still has reserved when every session is over, and closed after.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { startGateway } from '../gateway/index.js'
import { type Baseline, type BaselineName, startBaseline } from './baselines.js'
import type { RouterName } from './record.js'
import { type Part, serve } from './threads.js'

interface RouterData {
  router: RouterName
  /** Addresses of the engines. */
  workers: readonly string[]
  /** Tokens that the cache of one engine holds. */
  capacityTokens: number
  /** Model ms that pass in one wall ms. */
  speed: number
  seed: number
}

interface RouterReady {
  url: string
}

/** A session that is over, as the router named it. */
type RouterNote = { sessionOver: string }

interface RouterDone {
  /** Held model ms of each turn by its receipt. */
  heldMs: ReadonlyMap<string, number>
  reservationsLeft: number
}

type Router = Part<RouterReady, RouterNote, RouterDone>

/** Model time between two looks of the admission at the pressure; what it is by default. */
const INTERVAL_MS = 5000

/** The demo has one tenant, whatever key its clients show. */
const TENANT = 'demo'

async function startWarmpath(data: RouterData): Promise<Router> {
  const { capacityTokens, seed, speed } = data
  const heldMs = new Map<string, number>()
  const gateway = await startGateway({
    port: 0,
    scheduler: {
      workers: data.workers.map((url, index) => ({ id: `engine-${index}`, url, capacityTokens })),
      admission: {
        policy: 'thunderagent',
        intervalMs: Math.max(1, Math.round(INTERVAL_MS / speed)),
      },
      forward: { headers: ['x-double-output-tokens', 'x-double-tool'] },
      identity: { tenant: () => TENANT },
      seed,
    },
    accessLog: (line) => {
      const entry = JSON.parse(line) as { receipt?: string; heldMs?: number }
      if (entry.receipt !== undefined) heldMs.set(entry.receipt, (entry.heldMs ?? 0) * speed)
    },
  })
  return {
    ready: { url: gateway.url },
    told: ({ sessionOver }) => gateway.scheduler.endSession(sessionOver, TENANT),
    async finish() {
      const reservationsLeft = await settled(() => gateway.scheduler.status().reservations)
      await gateway.close()
      return { heldMs, reservationsLeft }
    },
  }
}

/** How long a router may take to notice that its last answer has been read, wall ms. */
const SETTLE_MS = 1000

/** What a router still has once it has noticed. */
async function settled(left: () => number): Promise<number> {
  for (const since = performance.now(); performance.now() - since < SETTLE_MS; await sleep(10)) {
    if (left() === 0) break
  }
  return left()
}

function plain(baseline: Baseline): Router {
  return {
    ready: { url: baseline.url },
    async finish() {
      const reservationsLeft = await settled(() => baseline.inFlight())
      await baseline.close()
      return { heldMs: new Map(), reservationsLeft }
    },
  }
}

async function start(data: RouterData): Promise<Router> {
  const { router, workers } = data
  return router === 'warmpath'
    ? startWarmpath(data)
    : plain(await startBaseline(router satisfies BaselineName, workers))
}

serve(start)

export type { RouterData, RouterDone, RouterNote, RouterReady }
