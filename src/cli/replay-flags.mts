/**
 * The options of `warmpath replay`: what can be said, and what it means for a replay.
 *
 * Reads nothing but the command line and, for a key, the environment.
 */
import { type Command, Option } from 'commander'
import { WarmpathError } from '../index.js'
import {
  type EndpointOptions,
  type EngineName,
  type Policy,
  policies,
  type ReplayOptions,
} from '../replay/index.js'
import type { TraceFormat } from '../workload.js'
import { address, checked, list, number, object } from './values.mjs'

interface ReplayFlags {
  compare: Policy[]
  workers: number[]
  pressure?: number[]
  asRecorded?: true
  seeds: number
  seed: number
  engine: EngineName
  cache?: number
  block?: number
  host?: number
  prefill?: 'fcfs' | 'shortest'
  eviction?: 'lru' | 'lease-end'
  events: 'predicted' | 'exact'
  eventDelay: number
  eventLoss: number
  eventRecovery: 'replay' | 'never'
  warmUp: number
  measure: number
  patience?: number
  endpoint?: string[]
  model: string
  keyEnv?: string
  body: Record<string, unknown>
  loop: EndpointOptions['loop']
  speed: number
  concurrency: number
  verify?: true
  lenient?: true
  format?: TraceFormat
  json?: string
  html: string
}

const FORMATS: TraceFormat[] = ['request-trace', 'mooncake', 'weka', 'otel', 'claude-code', 'codex']
const POLICIES = 'round-robin,least-loaded,kv,warmpath,thunderagent'

function addFlags(command: Command): Command {
  addOutput(addEndpoint(addEvents(addEngine(addComparison(command)))))
  return command
}

function addComparison(command: Command): Command {
  const compared = new Option('--compare <policies>', 'policies, with commas between them')
    .argParser((text) => checked(() => policies(text)))
    .default(policies(POLICIES), POLICIES)
  const recorded = new Option('--as-recorded', 'every turn once, when the trace says')
  return command
    .addOption(compared)
    .option('--workers <list>', 'engines of the fleet: 4 or 4,8', list('whole', 1, 1024), [4])
    .option('--pressure <list>', 'contexts over caches: 0.5..3 or 1,1.5,2', list('any', 0.01, 100))
    .addOption(recorded.conflicts('pressure'))
    .option('--seeds <n>', 'runs of each, with different seeds', number('whole', 1, 100), 1)
    .option('--seed <n>', 'the first seed', number('whole', 0, 2 ** 31), 1)
    .option('--warm-up <min>', 'before measuring, with a pressure', number('any', 0, 1e5), 10)
    .option('--measure <min>', 'measured time, with a pressure', number('any', 0.1, 1e5), 30)
    .option('--patience <s>', 'mean time until a client gives up', number('any', 0.001, 1e6))
}

function addEngine(command: Command): Command {
  const engine = new Option('--engine <model>', 'timing model of the engines')
  const prefill = new Option('--prefill <order>', 'whose prompt comes first (h100-class)')
  const eviction = new Option('--eviction <order>', 'whose cache goes first (h100-class)')
  return command
    .addOption(engine.choices(['dynamo-poly', 'h100-class']).default('dynamo-poly'))
    .option('--cache <tokens>', 'cache of one engine', number('whole', 1, 2 ** 40))
    .option(
      '--host <tokens>',
      'host tier behind the cache of each engine',
      number('whole', 1, 2 ** 40),
    )
    .option('--block <tokens>', 'block size of engine and index', number('whole', 1, 65_536))
    .addOption(prefill.choices(['fcfs', 'shortest']))
    .addOption(eviction.choices(['lru', 'lease-end']))
}

function addEvents(command: Command): Command {
  const events = new Option('--events <kind>', 'what policies believe of caches: see below')
  const recovery = new Option('--event-recovery <kind>', 'whether engines tell again what was lost')
  return command
    .addOption(events.choices(['predicted', 'exact']).default('predicted'))
    .option('--event-delay <ms>', 'time of an event on its way', number('any', 0, 1e6), 0)
    .option('--event-loss <share>', 'events that are lost, 0 to 1', number('any', 0, 1), 0)
    .addOption(recovery.choices(['replay', 'never']).default('replay'))
}

function addEndpoint(command: Command): Command {
  const loop = new Option('--loop <kind>', 'when turns come, over HTTP')
  return command
    .option('--endpoint <url>', 'send the turns there instead; may be repeated', (text, before) => [
      ...((before as string[] | undefined) ?? []),
      address(text),
    ])
    .option('--model <name>', 'model to ask for', 'default')
    .option('--key-env <name>', 'environment variable that holds the key')
    .option('--body <json>', 'members for every body, such as {"ignore_eos":true}', object, {})
    .addOption(loop.choices(['trace', 'closed', 'open']).default('trace'))
    .option('--speed <x>', 'how much faster pauses pass', number('any', 0.001, 1e6), 1)
    .option('--concurrency <n>', 'requests under way at most', number('whole', 1, 65_536), 256)
}

function addOutput(command: Command): Command {
  return command
    .option('--verify', 'decide every recorded decision again; receipts must be in the trace')
    .addOption(new Option('--format <name>', 'format of all traces').choices(FORMATS))
    .option('--lenient', 'leave faulty records out and count them')
    .option('--json <file>', 'write the figures as JSON rows')
    .option('--html <file>', 'where the page goes', 'replay-results/report.html')
}

/** Options that mean something only in one kind of replay. */
const OVER_HTTP = ['model', 'keyEnv', 'body', 'loop', 'speed', 'concurrency'] as const
const OF_FLEETS = [
  ...(['compare', 'workers', 'pressure', 'asRecorded', 'seeds', 'warmUp', 'measure'] as const),
  ...(['engine', 'cache', 'host', 'prefill', 'eviction', 'events'] as const),
  ...(['eventDelay', 'eventLoss', 'eventRecovery'] as const),
]
const OF_EXTENTS = ['prefill', 'eviction'] as const
const OF_EVENTS = ['eventDelay', 'eventLoss', 'eventRecovery'] as const
const OF_PRESSURE = ['warmUp', 'measure'] as const
/** What `--verify` does not look at. */
const OF_RUNS = [
  ...OVER_HTTP,
  ...OF_FLEETS,
  ...(['endpoint', 'seed', 'block', 'patience', 'format', 'json', 'html'] as const),
]

/**
 * Refuses options that would do nothing beside the others.
 *
 * @param given whether the caller named an option, or it stands for a default
 */
function refuseIdle(flags: ReplayFlags, given: (name: string) => boolean): void {
  const refuse = (names: readonly (keyof ReplayFlags)[], why: string) => {
    const idle = names.find(given)
    if (idle === undefined) return
    throw new WarmpathError('WARMPATH_CONFIG', `${spelled(idle)} does nothing ${why}`)
  }
  if (flags.verify) refuse(OF_RUNS, 'with --verify')
  if (flags.endpoint !== undefined) refuse(OF_FLEETS, 'with --endpoint')
  else refuse(OVER_HTTP, 'without --endpoint')
  if (flags.engine !== 'h100-class') refuse(OF_EXTENTS, 'without --engine h100-class')
  else refuse(['events'], 'with --engine h100-class, which has no blocks to tell of')
  if (flags.events !== 'exact') refuse(OF_EVENTS, 'without --events exact')
  if (flags.eventLoss === 0) refuse(['eventRecovery'], 'without --event-loss')
  if (flags.asRecorded) refuse(OF_PRESSURE, 'with --as-recorded')
}

/** Blocks that a modelled engine keeps a table of. */
const MOST_BLOCKS = 2 ** 24

/**
 * Refuses caches of no block, or of more than can be modelled.
 *
 * @param traced tokens of a block in the trace
 */
function refuseCache({ cache, block, engine, host }: ReplayFlags, traced: number): void {
  const tokens = block ?? traced
  for (const [option, size] of [
    ['--cache', cache],
    ['--host', host],
  ] as const) {
    if (size === undefined || engine !== 'dynamo-poly') continue
    if (size >= tokens && size / tokens <= MOST_BLOCKS) continue
    const range = `from one block of ${tokens} tokens to ${MOST_BLOCKS} of them`
    throw new WarmpathError('WARMPATH_CONFIG', `${option} ${size}: it must be ${range}`)
  }
}

/** An option as it is written: `--warm-up` for `warmUp`. */
function spelled(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
}

function fleetOptions(flags: ReplayFlags): ReplayOptions {
  const { pressure, cache, block, host, prefill, eviction, patience } = flags
  return {
    policies: flags.compare,
    workers: flags.workers,
    asRecorded: flags.asRecorded ?? false,
    seeds: flags.seeds,
    seed: flags.seed,
    engine: flags.engine,
    warmUpMs: flags.warmUp * 60_000,
    measureMs: flags.measure * 60_000,
    ...(pressure !== undefined && { pressures: pressure }),
    ...(cache !== undefined && { cacheTokens: cache }),
    ...(block !== undefined && { blockTokens: block }),
    ...(host !== undefined && { hostTokens: host }),
    ...(prefill !== undefined && { prefill }),
    ...(eviction !== undefined && { eviction }),
    ...(patience !== undefined && { patienceMs: patience * 1000 }),
    ...(flags.events === 'exact' && {
      events: { lagMs: flags.eventDelay, loss: flags.eventLoss, recovery: flags.eventRecovery },
    }),
  }
}

/** Throws CONFIG when the key is not where it was said to be. */
function endpointOptions(flags: ReplayFlags, urls: readonly string[]): EndpointOptions {
  const { model, body, loop, speed, concurrency, patience } = flags
  return {
    urls,
    model,
    headers: authorization(flags.keyEnv),
    body,
    loop,
    speed,
    concurrency,
    seed: flags.seed,
    ...(patience !== undefined && { patienceMs: patience * 1000 }),
  }
}

function authorization(name: string | undefined): Record<string, string> {
  if (name === undefined) return {}
  const key = process.env[name]
  if (key !== undefined && key !== '') return { authorization: `Bearer ${key}` }
  throw new WarmpathError('WARMPATH_CONFIG', `the environment has no ${name}`)
}

export {
  addFlags,
  endpointOptions,
  FORMATS,
  fleetOptions,
  type ReplayFlags,
  refuseCache,
  refuseIdle,
}
