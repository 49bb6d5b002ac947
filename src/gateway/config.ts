/**
 * Question: what may a gateway be told, and what holds where it was told nothing?
 *
 * `settle` turns a GatewayConfig into Settings, which have every value. `readConfig` is the same
 * for a parsed file: it also puts the values of environment variables where the file says
 * `env:NAME`, so that a file never has to hold a credential. The scheduler's own options are
 * checked by the scheduler; only the references to the environment are looked at here.
 *
 * All durations are whole milliseconds. The environment is passed in, never read here.
 */
import { type DialectName, Scheduler, type SchedulerOptions, WarmpathError } from '../index.js'
import { onlyKeys, plainObject, refuse, section, several, text, whole } from './check.js'
import { openedLater } from './sinks.js'

/** Time limits of one request and of stopping, in milliseconds. */
interface Timeouts {
  /** From an open connection to the whole head of a request. Default 30 s. */
  requestHeadMs: number
  /** Between two pieces of a request's body. Default 30 s. */
  requestIdleMs: number
  /** To the end of a request's body. Default 5 min. */
  requestMs: number
  /** To a connection with a worker. Default 5 s. */
  connectMs: number
  /** From a sent request to the head of its answer; a turn without a stream ends only then. Default 10 min. */
  headersMs: number
  /** Between two pieces of an answer's body. Default 5 min. */
  bodyIdleMs: number
  /** How long a client may leave its connection full before it counts as gone. Default 5 min. */
  clientIdleMs: number
  /** How long stopping waits for what is under way. Default 30 s. */
  drainMs: number
}

/** How a worker that refused a connection is watched until it answers again. */
interface HealthOptions {
  /** Between two probes of one worker. Default 2 s. */
  intervalMs: number
  /** The longest a probe may take. Default 2 s. */
  timeoutMs: number
  /** What is asked for; any answer below 500 counts as up. Default `/health`. */
  path: string
}

/** Whether and when the client of a held stream is sent signs of life. */
interface HoldOptions {
  /**
   * The wire APIs whose clients are. With the first sign the head of the answer is sent, status 200, so
   * that what goes wrong afterwards can only be told as an event. Default: none.
   */
  keepAlive: readonly DialectName[]
  /** Until the head of the answer and the first keep-alive are sent. Default 10 s. */
  keepAliveAfterMs: number
  /** Between two keep-alives. Default 10 s. */
  keepAliveEveryMs: number
}

interface RetryOptions {
  /**
   * Upstream requests that one turn may cost, the first included; waiting for the owner of a lock is
   * bounded by `continuity.ownerDown` instead. Default 3.
   */
  attempts: number
  /**
   * A `Retry-After` of a 429 up to this is a busy moment; a longer one is a quota: the worker gets no
   * turns until then, and sessions stay where they go meanwhile. Default 10 s.
   */
  graceMs: number
}

interface GatewayLimits {
  /** The largest request body in bytes, as sent and after decompression. Default 64 MiB. */
  bodyBytes: number
  /**
   * All request bodies that are held at once, as sent, in bytes; one counts until its answer has
   * ended. A body costs about four times its size while it is read. Default 512 MiB.
   */
  allBodiesBytes: number
  /** Connections of clients at once; more are closed as they come. Default 16,384. */
  connections: number
}

/** Takes one line of the access log, without its line end; access.ts has the fields. */
type AccessSink = (line: string) => void

/** What `startGateway` takes; everything but `scheduler` has a default. */
interface GatewayConfig {
  /** Default 127.0.0.1: only this machine. */
  host?: string
  /** 0 takes any free port. Default 8088. */
  port?: number
  /**
   * A scheduler that the caller keeps and closes, or the options of one that the gateway owns. The
   * latter has the gateway's `limits.bodyBytes`.
   */
  scheduler: Scheduler | SchedulerOptions
  timeouts?: Partial<Timeouts>
  health?: Partial<HealthOptions>
  hold?: Partial<HoldOptions>
  /**
   * The header that has the priority of a turn, a whole number from -100 to 100: one that only a proxy
   * before this gateway can set, and none that HTTP or a credential needs. Absent: all turns have priority 0.
   */
  priorityHeader?: string
  retry?: Partial<RetryOptions>
  limits?: Partial<GatewayLimits>
  /** Takes one JSON line a request; absent = no access log. */
  accessLog?: AccessSink
}

/** A configuration with nothing left open. */
interface Settings {
  host: string
  port: number
  timeouts: Timeouts
  health: HealthOptions
  hold: HoldOptions
  /** In lower case; empty: none. */
  priorityHeader: string
  retry: RetryOptions
  limits: GatewayLimits
}

const HOUR_MS = 3_600_000

const checkHost = text(/^[\w.:-]+$/, 'a host name or address', '127.0.0.1')
const checkPort = whole(0, 65_535, '', 8088)
const milliseconds = (fallback: number) => whole(1, HOUR_MS, 'milliseconds', fallback)
const checkTimeouts = section<Timeouts>({
  requestHeadMs: milliseconds(30_000),
  requestIdleMs: milliseconds(30_000),
  requestMs: milliseconds(300_000),
  connectMs: milliseconds(5_000),
  headersMs: milliseconds(600_000),
  bodyIdleMs: milliseconds(300_000),
  clientIdleMs: milliseconds(300_000),
  drainMs: whole(0, HOUR_MS, 'milliseconds', 30_000),
})
const checkHealth = section<HealthOptions>({
  intervalMs: milliseconds(2_000),
  timeoutMs: milliseconds(2_000),
  path: text(/^\/[\x21-\x7e]*$/, 'a path that starts with "/"', '/health'),
})
const DIALECTS = ['openai-chat', 'openai-responses', 'anthropic-messages'] as const

const checkHold = section<HoldOptions>({
  keepAlive: several(DIALECTS),
  keepAliveAfterMs: milliseconds(10_000),
  keepAliveEveryMs: milliseconds(10_000),
})
const checkRetry = section<RetryOptions>({
  attempts: whole(1, 16, 'attempts', 3),
  graceMs: whole(0, HOUR_MS, 'milliseconds', 10_000),
})
const checkLimits = section<GatewayLimits>({
  bodyBytes: whole(1, 2 ** 30, 'bytes', 64 * 1024 * 1024),
  allBodiesBytes: whole(1, 2 ** 40, 'bytes', 512 * 1024 * 1024),
  connections: whole(1, 1_000_000, '', 16_384),
})

/** Written by whoever opens a connection, or proof of who asks; never by a proxy to rank a turn. */
const NO_RANK =
  '(?:connection|keep-alive|te|trailer|transfer-encoding|upgrade|http2-settings|host|expect|' +
  'content-.*|proxy-.*|authorization|(?:set-)?cookie|(?:x-|x-goog-)?api-key)$'
const checkPriorityHeader = text(
  new RegExp(`^(?!${NO_RANK})[\\w!#$%&'*+.^\`|~-]+$`, 'i'),
  'the name of a header that is of no connection, no body and no credential',
  '',
)

const FILE_KEYS = [
  ...['host', 'port', 'scheduler', 'timeouts', 'health', 'hold', 'priorityHeader'],
  ...['retry', 'limits'],
]

/** Fills in the defaults. Throws WARMPATH_CONFIG naming the field. */
function settle(config: GatewayConfig): Settings {
  onlyKeys(config, [...FILE_KEYS, 'accessLog'], '')
  return {
    host: checkHost(config.host, 'host'),
    port: checkPort(config.port, 'port'),
    timeouts: checkTimeouts(config.timeouts, 'timeouts'),
    health: checkHealth(config.health, 'health'),
    hold: checkHold(config.hold, 'hold'),
    priorityHeader: checkPriorityHeader(config.priorityHeader, 'priorityHeader').toLowerCase(),
    retry: checkRetry(config.retry, 'retry'),
    limits: checkLimits(config.limits, 'limits'),
  }
}

type Environment = Readonly<Record<string, string | undefined>>

/**
 * Reads the value of a configuration file. Throws WARMPATH_CONFIG naming the field; what the
 * scheduler's options must be is found out by `startGateway`.
 */
function readConfig(file: unknown, environment: Environment): GatewayConfig {
  const { $schema: _forEditors, ...given } = plainObject(file, 'the configuration')
  onlyKeys(given, FILE_KEYS, '')
  if (given.scheduler === undefined) refuse('scheduler', 'given: the options of the scheduler')
  const options = plainObject(given.scheduler, 'scheduler')
  const scheduler = fillEnvironment(options, 'scheduler', environment)
  const config = { ...given, scheduler } as unknown as GatewayConfig
  settle(config)
  return config
}

const REFERENCE = /^env:([A-Za-z_][A-Za-z0-9_]*)$/
/** Where a secret may stand; elsewhere a value could end up in a message. */
const SECRET_FIELD = /\.(credential|headers\..+|trace\.key)$/
/** Meant as a reference, or as `pass-through`, and none. */
const MISSPELT = /^\s*env\s*:|^pass[ _-]?through$/i

/** Replaces `env:NAME` by that variable's value in every field that may hold a secret. */
function fillEnvironment(value: unknown, field: string, environment: Environment): unknown {
  if (typeof value === 'string') {
    const name = SECRET_FIELD.test(field) ? REFERENCE.exec(value)?.[1] : undefined
    if (name !== undefined) return readVariable(name, field, environment)
    const isMeant = SECRET_FIELD.test(field) && value !== 'pass-through' && MISSPELT.test(value)
    if (isMeant) refuse(field, "'env:NAME', 'pass-through' or the key itself")
    return value
  }
  if (Array.isArray(value)) {
    return value.map((item, index) => fillEnvironment(item, `${field}[${index}]`, environment))
  }
  if (typeof value !== 'object' || value === null) return value
  const filled = Object.entries(value).map(([key, item]) => {
    return [key, fillEnvironment(item, `${field}.${key}`, environment)] as const
  })
  return Object.fromEntries(filled)
}

function readVariable(name: string, field: string, environment: Environment): string {
  const value = environment[name]
  if (value !== undefined && value !== '') return value
  throw new WarmpathError(
    'WARMPATH_CONFIG',
    `${field} refers to the environment variable ${name}, which is not set`,
  )
}

/** The scheduler that a gateway uses. */
interface OpenedScheduler {
  readonly scheduler: Scheduler
  /** Whether closing the gateway closes it. */
  readonly owned: boolean
  /** Before it is called no file of a trace is touched. Throws WARMPATH_CONFIG. */
  readonly openSinks: () => void
}

/** Throws WARMPATH_CONFIG with the field's name as the gateway's configuration has it. */
function openScheduler(given: GatewayConfig['scheduler'], limits: GatewayLimits): OpenedScheduler {
  if (given instanceof Scheduler) return { scheduler: given, owned: false, openSinks: () => {} }
  const { options, open } = openedLater(schedulerOptions(given, limits))
  const openSinks = () => withPrefix(open)
  return withPrefix(() => ({ scheduler: new Scheduler(options), owned: true, openSinks }))
}

/** The options of a scheduler that the gateway owns. Throws WARMPATH_CONFIG. */
function schedulerOptions(given: unknown, { bodyBytes }: GatewayLimits): SchedulerOptions {
  const { limits, ...rest } = plainObject(given, 'scheduler') as SchedulerOptions
  if (limits !== undefined && 'bodyBytes' in plainObject(limits, 'scheduler.limits')) {
    refuse('scheduler.limits.bodyBytes', 'left out: it is the limits.bodyBytes of the gateway')
  }
  return { ...rest, limits: { ...limits, bodyBytes } }
}

/** Names fields as the gateway's configuration has them. */
function withPrefix<T>(make: () => T): T {
  try {
    return make()
  } catch (error) {
    throw prefixed(error)
  }
}

/** The scheduler names its options by their place among them; its users have them one level down. */
function prefixed(error: unknown): unknown {
  if (!WarmpathError.is(error) || error.code !== 'WARMPATH_CONFIG') return error
  const at = (field: string) => `scheduler.${field.replace(/^options\b\.?/, '')}`
  const field = error.detail?.field
  const detail = typeof field === 'string' ? { detail: { field: at(field) } } : {}
  return new WarmpathError(error.code, at(error.message), { cause: error, ...detail })
}

export {
  type AccessSink,
  type Environment,
  type GatewayConfig,
  type HealthOptions,
  type HoldOptions,
  openScheduler,
  type RetryOptions,
  readConfig,
  type Settings,
  schedulerOptions,
  settle,
  type Timeouts,
  withPrefix,
}
