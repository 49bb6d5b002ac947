/**
 * Question: how does the gateway start, take requests, and stop?
 *
 * One node:http server. Every request becomes an Exchange that is tracked until its connection is
 * done with it, so that stopping can wait for them: `close` stops accepting, lets what is under way
 * finish for `drainMs`, then ends the rest with WARMPATH_CLOSED, told in each client's dialect. A
 * second `close` waits for the same stop.
 *
 * It owns the agent and the probes, and the scheduler unless the caller brought one.
 */
import { once } from 'node:events'
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Dialect, dialectOf, Scheduler, WarmpathError } from '../index.js'
import { accessLine } from './access.js'
import { Bodies } from './body.js'
import {
  type AccessSink,
  type GatewayConfig,
  openScheduler,
  type Settings,
  schedulerOptions,
  settle,
  withPrefix,
} from './config.js'
import { Exchange } from './exchange.js'
import { fail } from './failure.js'
import { HealthWatch } from './health.js'
import { Reloader } from './reload.js'
import { canonicalPath, route } from './routes.js'
import type { Parts } from './turns.js'
import { Upstream } from './upstream.js'

/** A gateway that listens. */
interface Gateway {
  /** Where it listens, without a slash at the end. */
  readonly url: string
  readonly scheduler: Scheduler
  /**
   * Goes over to another configuration as far as that is possible while running: reload.ts says how
   * far. Says what changed, for people. Throws WARMPATH_CONFIG, and nothing has changed then.
   */
  reload(config: GatewayConfig): string
  /** Stops as the head of server.ts says. Never rejects; idempotent. */
  close(): Promise<void>
}

/** How long clients that were told of the stop get to take it, in milliseconds. */
const GOODBYE_MS = 1_000
/** Longer than the idle time of common load balancers, which must be the ones to close first. */
const KEEP_ALIVE_MS = 75_000
/** Connections that may wait to be accepted; what the system allows may be less. */
const BACKLOG = 4_096
/** How often connections are looked at for those that take too long, in milliseconds. */
const MAX_CHECK_MS = 30_000

/** Resolves once it listens. Throws WARMPATH_CONFIG, also when the address cannot be had. */
async function startGateway(config: GatewayConfig): Promise<Gateway> {
  const settings = settle(config)
  const { scheduler, owned, openSinks } = openScheduler(config.scheduler, settings.limits)
  const running = new RunningGateway(settings, scheduler, config.accessLog)
  try {
    await running.listen()
    openSinks()
  } catch (error) {
    await running.stop()
    if (owned) await end(scheduler)
    throw error
  }
  let stopped: Promise<void> | undefined
  const reloader = new Reloader(config, scheduler, () => running.pardon())
  const close = async () => {
    await running.stop()
    if (owned) await end(scheduler)
  }
  return {
    url: running.url,
    scheduler,
    reload: (next) => reloader.apply(next),
    close: () => {
      stopped ??= close()
      return stopped
    },
  }
}

/**
 * What a configuration comes to, in a few words. Throws WARMPATH_CONFIG as `startGateway` does, but for
 * an address that cannot be had and a sink that cannot be opened; nothing is started, connected or
 * listened to, no file touched.
 */
function checkConfig(config: GatewayConfig): string {
  const { limits } = settle(config)
  const { workers, targets } = fleetOf(config.scheduler, limits)
  return `${workers} workers, ${targets} targets`
}

function fleetOf(given: GatewayConfig['scheduler'], limits: Settings['limits']) {
  if (!(given instanceof Scheduler)) {
    const options = schedulerOptions(given, limits)
    return withPrefix(() => Scheduler.check(options))
  }
  const { workers, targets } = given.status()
  return { workers: workers.length, targets: targets.length }
}

/** Traces are written to their end. */
async function end(scheduler: Scheduler): Promise<void> {
  scheduler.close()
  await scheduler.flush()
}

class RunningGateway {
  readonly #parts: Parts
  readonly #server: Server
  readonly #accessLog: AccessSink | undefined
  readonly #open = new Set<Exchange>()
  #draining = false

  constructor(settings: Settings, scheduler: Scheduler, accessLog: AccessSink | undefined) {
    const upstream = new Upstream(settings.timeouts)
    const health = new HealthWatch(scheduler, upstream, settings.health)
    const bodies = new Bodies({ ...settings.limits, idleMs: settings.timeouts.requestIdleMs })
    this.#parts = { scheduler, settings, upstream, health, bodies }
    this.#accessLog = accessLog
    this.#server = createServer(serverOptions(settings), (req, res) => {
      // Whatever goes wrong while an error is told costs that connection and nothing else.
      this.#serve(req, res).catch(() => res.destroy())
    })
    this.#server.maxConnections = settings.limits.connections
  }

  /** Quotas and refusals of credentials were those of other ones. */
  pardon(): void {
    this.#parts.health.pardon()
  }

  get url(): string {
    const { address, family, port } = this.#server.address() as AddressInfo
    return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
  }

  async listen(): Promise<void> {
    const { host, port } = this.#parts.settings
    this.#server.listen({ port, host, backlog: BACKLOG })
    try {
      await once(this.#server, 'listening')
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? 'an error'
      const message = `host and port: cannot listen on ${host} port ${port} (${code})`
      throw new WarmpathError('WARMPATH_CONFIG', message)
    }
  }

  async stop(): Promise<void> {
    this.#draining = true
    this.#server.close()
    for (const { res } of this.#open) res.shouldKeepAlive = false
    await this.#settled(this.#parts.settings.timeouts.drainMs)
    const reason = closed()
    for (const exchange of this.#open) exchange.abandon(reason)
    await this.#settled(GOODBYE_MS)
    this.#server.closeAllConnections()
    this.#parts.health.close()
    await this.#parts.upstream.close()
  }

  /** Waits until no exchange is open, at most so long. */
  async #settled(limitMs: number): Promise<void> {
    const limit = AbortSignal.timeout(limitMs)
    while (this.#open.size > 0 && !limit.aborted) {
      const [next] = this.#open
      if (next) await once(next.res, 'close', { signal: limit }).catch(() => {})
    }
  }

  async #serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const { pathname, query } = splitTarget(req.url ?? '')
    const exchange = new Exchange(req, res, canonicalPath(pathname), query)
    exchange.dialect = dialectOfFamily(exchange.pathname)
    this.#open.add(exchange)
    let unforeseen: unknown
    res.once('close', () => {
      this.#open.delete(exchange)
      this.#accessLog?.(accessLine(exchange, Date.now(), unforeseen))
    })
    try {
      if (this.#draining) throw closed()
      await route(this.#parts, exchange)
    } catch (error) {
      const cause = exchange.signal.aborted ? exchange.signal.reason : error
      fail(exchange, cause)
      if (exchange.failure === 'WARMPATH_PANIC') unforeseen = cause
    }
  }
}

/** Heads are bounded in bytes (16 KiB), in lines and in time. */
function serverOptions({ timeouts }: Settings): ServerOptions {
  const { requestHeadMs, requestMs } = timeouts
  return {
    keepAliveTimeout: KEEP_ALIVE_MS,
    headersTimeout: Math.min(requestHeadMs, requestMs),
    requestTimeout: requestMs,
    connectionsCheckingInterval: Math.min(MAX_CHECK_MS, Math.ceil(requestHeadMs / 4)),
  }
}

function closed(): WarmpathError {
  return new WarmpathError('WARMPATH_CLOSED', 'the gateway is stopping')
}

/** Also for what lies below a wire API, such as a stored response or a count of tokens. */
function dialectOfFamily(pathname: string): Dialect | undefined {
  const family = /^\/v1\/(?:chat\/completions|responses|messages)(?=\/|$)/.exec(pathname)?.[0]
  return family === undefined ? undefined : dialectOf(family)
}

/** Normalises `.` and `..`; a target that is no path (`*`, a full address) stays and matches nothing. */
function splitTarget(target: string): { pathname: string; query: string } {
  if (!target.startsWith('/')) return { pathname: target, query: '' }
  // Put together, not resolved: `//other/path` must stay a path.
  const { pathname, search } = new URL(`http://gateway${target}`)
  return { pathname, query: search }
}

export { checkConfig, type Gateway, startGateway }
