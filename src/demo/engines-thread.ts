/**
 * The engines of the demo, in a thread of their own: engine doubles that speak HTTP and live in
 * model time. They are new for every router, so that each starts with cold caches.
 *
 * What they report at the end is their own count of the same run that the clients measured, and
 * how late they were: an engine pass that became visible after its time was kept back by a busy
 * machine, not by the model.
 */
import { type EngineDouble, IssuerRegistry, startEngineDouble } from '../testing/index.js'
import { ENGINE_TIMING } from './engine.js'
import { sum } from './statistics.js'
import { type Part, serve } from './threads.js'

interface EnginesData {
  count: number
  model: string
  /** Model ms that pass in one wall ms. */
  speed: number
  /** Cache of one engine. */
  numGpuBlocks: number
  blockSize: number
}

interface EnginesReady {
  urls: string[]
}

interface EnginesDone {
  /** Prompt tokens that arrived and that were found cached, all engines. */
  promptTokens: number
  cachedTokens: number
  /** From arrival to first token by the engines' own clock, sum over all requests, model ms. */
  firstTokenMs: number
  /** How late clients saw a token, 99th percentile of the worst engine, model ms. */
  lagP99Ms: number
}

async function start(data: EnginesData): Promise<Part<EnginesReady, never, EnginesDone>> {
  const { model, speed, numGpuBlocks, blockSize } = data
  const doubles: EngineDouble[] = []
  // One model behind all of them: any may go on with a tool loop that another began.
  const issuer = new IssuerRegistry()
  for (let index = 0; index < data.count; index++) {
    const engine = { numGpuBlocks, blockSize, ...ENGINE_TIMING }
    doubles.push(await startEngineDouble({ id: `engine-${index}`, model, speed, engine, issuer }))
  }
  return {
    ready: { urls: doubles.map((double) => double.url) },
    async finish() {
      const states = doubles.map((double) => double.status())
      await Promise.all(doubles.map((double) => double.close()))
      return {
        promptTokens: sum(states.map(({ engine }) => engine.queryTokens)),
        cachedTokens: sum(states.map(({ engine }) => engine.hitTokens)),
        firstTokenMs: sum(states.map(({ ttftMs }) => ttftMs.sum)),
        lagP99Ms: Math.max(...states.map(({ lagMs }) => lagMs.p99)),
      }
    },
  }
}

serve(start)

export type { EnginesData, EnginesDone, EnginesReady }
