/**
 * Question: what do the engines themselves say of their room and their load?
 *
 * Their metrics are asked for every few seconds, never on a turn's way. A capacity that the options do not
 * say is taken from there. What an engine runs beyond what was sent through here is load of others, and
 * counts as such: the smaller of two answers in a row, since ours and theirs are not of one moment. An
 * engine that does not answer is believed to do nothing for others.
 */
import type { Logger, MetricsSettings } from './config/index.js'
import { type EngineMetrics, MetricsPoller } from './engines/index.js'
import type { EngineStatus } from './link/report.js'
import type { Link } from './link.js'
import { native } from './native.js'

interface Untracked {
  readonly requests: number
  readonly tokens: number
}

/** What was sent through here. */
interface Own {
  readonly inFlight: number
  readonly activeTokens: number
  readonly capacityTokens: number | undefined
}

interface Known {
  status: EngineStatus
  /** Set by us, as long as it stands: whoever sets another one knows better. */
  capacity: number | undefined
  /** When it was asked. */
  own: Own
  /** By the answer before. */
  last: Untracked
  told: Untracked
}

const NOTHING: Untracked = { requests: 0, tokens: 0 }
const UNKNOWN: EngineStatus = {
  engine: null,
  running: null,
  waiting: null,
  used: null,
  capacityTokens: null,
  blockTokens: null,
  at: null,
  failures: 0,
  lastError: null,
}

export class EngineLoad {
  /** What is asked shall not keep a scheduler that everybody forgot. */
  readonly #link: WeakRef<Link>
  readonly #logger: Logger | undefined
  readonly #poller: MetricsPoller
  /** By worker number. */
  readonly #known = new Map<number, Known>()

  constructor(link: Link, settings: MetricsSettings, logger: Logger | undefined) {
    this.#link = new WeakRef(link)
    this.#logger = logger
    this.#poller = new MetricsPoller({
      ...settings,
      engines: () => this.#engines(),
      asks: (key) => this.#asks(key),
      answered: (key, found) => this.#answered(key, found),
    })
  }

  statusOf(id: string): EngineStatus | undefined {
    const topology = this.#link.deref()?.topology
    return topology?.hasWorker(id)
      ? this.#known.get(topology.workerById(id).index)?.status
      : undefined
  }

  close(): void {
    this.#poller.close()
  }

  /** Workers of a provider are no engines of ours. */
  #engines() {
    const topology = this.#open()?.topology
    if (topology === undefined) return []
    const own = topology.targets.filter(({ provider }) => provider === undefined)
    const groups = new Set(own.map(({ group }) => group))
    const workers = [...groups].flatMap((group) => topology.workersOf(group))
    const numbers = new Set(workers.map(({ index }) => index))
    for (const key of this.#known.keys()) if (!numbers.has(key)) this.#known.delete(key)
    return workers.map(({ index, url, headers }) => ({ key: index, url, headers }))
  }

  #asks(key: number): void {
    const own = this.#ownOf(key)
    if (own === undefined) return
    const known = this.#known.get(key)
    if (known === undefined) {
      this.#known.set(key, {
        status: UNKNOWN,
        capacity: undefined,
        own,
        last: NOTHING,
        told: NOTHING,
      })
      return
    }
    known.own = own
  }

  #answered(key: number, found: EngineMetrics | string): void {
    const known = this.#known.get(key)
    const own = this.#ownOf(key)
    if (known === undefined || own === undefined) return
    if (typeof found === 'string') {
      const failures = known.status.failures + 1
      known.status = { ...known.status, failures, lastError: found }
      known.last = NOTHING
      this.#tell(key, known, NOTHING)
      return
    }
    const { engine, running, waiting, used, capacityTokens, blockTokens } = found
    known.status = {
      engine,
      running: running ?? null,
      waiting: waiting ?? null,
      used: used ?? null,
      capacityTokens: capacityTokens ?? null,
      blockTokens: blockTokens ?? null,
      at: Date.now(),
      failures: 0,
      lastError: null,
    }
    this.#learn(key, known, own)
    const others = untracked(found, known.own, own)
    this.#tell(key, known, {
      requests: Math.min(others.requests, known.last.requests),
      tokens: Math.min(others.tokens, known.last.tokens),
    })
    known.last = others
  }

  #learn(key: number, known: Known, own: Own): void {
    if (own.capacityTokens !== known.capacity) known.capacity = undefined
    const isOurs = own.capacityTokens === known.capacity
    const { capacityTokens } = known.status
    if (!isOurs || capacityTokens === null || capacityTokens < 1) return
    if (known.capacity === capacityTokens) return
    known.capacity = capacityTokens
    const link = this.#open()
    link?.call((handle, now, out) => native.setCapacity(handle, now, key, capacityTokens, out))
    const worker = link?.topology.worker(key).id
    this.#logger?.info({ worker, capacityTokens }, 'capacity read from the metrics')
  }

  #tell(key: number, known: Known, others: Untracked): void {
    const { requests, tokens } = others
    if (requests === known.told.requests && tokens === known.told.tokens) return
    known.told = others
    this.#open()?.call((handle, now, out) =>
      native.setUntracked(handle, now, key, requests, tokens, out),
    )
  }

  #open(): Link | undefined {
    const link = this.#link.deref()
    if (link === undefined) this.close()
    return link?.closed ? undefined : link
  }

  #ownOf(key: number): Own | undefined {
    const found = this.#open()?.read((handle) => native.workerLoad(handle, key))
    if (found === undefined || found === null) return undefined
    const [inFlight = 0, activeTokens = 0, capacity = -1] = found
    return { inFlight, activeTokens, capacityTokens: capacity < 0 ? undefined : capacity }
  }
}

/** What an engine does beyond the most that was sent through here before and after it was asked. */
function untracked(found: EngineMetrics, before: Own, after: Own): Untracked {
  const { running, waiting = 0, used = 0, capacityTokens = 0 } = found
  if (running === undefined) return NOTHING
  const requests = running + waiting - Math.max(before.inFlight, after.inFlight)
  if (requests <= 0) return NOTHING
  const ours = Math.max(before.activeTokens, after.activeTokens)
  return { requests, tokens: Math.max(0, Math.round(used * capacityTokens) - ours) }
}
