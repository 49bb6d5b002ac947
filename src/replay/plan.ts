/**
 * Which runs make up a comparison?
 *
 * Every policy in front of every fleet under every load with every seed. The load is a closed
 * population of the trace's sessions where a pressure was asked for, else the trace as it was
 * recorded; nothing is asked for by default, and then it depends on the trace: sessions of several
 * turns say how they would fill a fleet, single requests only when they came.
 */
import type { Scenario, WorkloadSummary } from '../workload.js'
import type { Policy } from './policies.js'

type EngineName = Scenario['engine']

interface ReplayOptions {
  policies: readonly Policy[]
  workers: readonly number[]
  /** Undefined: see `loads`. */
  pressures?: readonly number[]
  asRecorded: boolean
  /** How many, and the first. */
  seeds: number
  seed: number
  engine: EngineName
  /** Tokens of one worker; default: the engine's. */
  cacheTokens?: number
  blockTokens?: number
  hostTokens?: number
  prefill?: 'fcfs' | 'shortest'
  eviction?: 'lru' | 'lease-end'
  warmUpMs: number
  measureMs: number
  patienceMs?: number
  outages?: { everyMs: number; downMs: number }
  /** What engines tell of their caches; without it the policy believes its own decisions. */
  events?: NonNullable<Scenario['events']>
}

/** One fleet under one load: what policies and seeds are compared in. */
interface Setting {
  workers: number
  /** Undefined: as recorded. */
  pressure: number | undefined
}

/** One run. */
interface Cell extends Setting {
  label: string
  seed: number
}

/** One run of a modelled fleet. */
type FleetCell = Cell & Policy

/** Tokens that the cache of one worker holds. */
const CACHE_TOKENS: Readonly<Record<EngineName, number>> = {
  'dynamo-poly': 1_048_576,
  'h100-class': 2_200_000,
}

const PRESSURES = [0.5, 1, 1.5, 2] as const
/** Turns a session from which on its own pace says more than its times. */
const LOOP = 3

/** What presses on the fleet: pressures, or the trace as recorded. */
function loads(options: ReplayOptions, summary: WorkloadSummary): readonly (number | undefined)[] {
  if (options.asRecorded) return [undefined]
  if (options.pressures !== undefined) return options.pressures
  const isLooping = summary.turns / Math.max(1, summary.sessions - summary.subSessions) >= LOOP
  return isLooping ? PRESSURES : [undefined]
}

function settings(options: ReplayOptions, summary: WorkloadSummary): Setting[] {
  const pressures = loads(options, summary)
  return options.workers.flatMap((workers) => pressures.map((pressure) => ({ workers, pressure })))
}

/** Every run, those of one setting beside each other. */
function cells(options: ReplayOptions, summary: WorkloadSummary): FleetCell[] {
  const seeds = Array.from({ length: options.seeds }, (_, index) => options.seed + index)
  return settings(options, summary).flatMap((setting) =>
    options.policies.flatMap((policy) => seeds.map((seed) => ({ ...setting, ...policy, seed }))),
  )
}

function cacheTokens({ cacheTokens: asked, engine }: ReplayOptions): number {
  return asked ?? CACHE_TOKENS[engine]
}

function scenario(
  options: ReplayOptions,
  { label, policy, score, workers, pressure, seed }: FleetCell,
): Scenario {
  const { engine, warmUpMs, measureMs } = options
  return {
    label,
    policy: told(policy, options),
    workers,
    engine,
    cacheTokens: cacheTokens(options),
    seed,
    ...(pressure !== undefined && { population: { pressure, warmUpMs, measureMs } }),
    ...given('score', score),
    ...given('blockTokens', options.blockTokens),
    ...given('hostTokens', options.hostTokens),
    ...given('prefill', options.prefill),
    ...given('eviction', options.eviction),
    ...given('patienceMs', options.patienceMs),
    ...given('outages', options.outages),
    ...given('events', options.events),
  }
}

/** `lease` must know in which order the engines give up contexts; an option of its own wins. */
function told(policy: Policy['policy'], { eviction }: ReplayOptions): Policy['policy'] {
  if (typeof policy === 'string' || policy.core.policy !== 'lease') return policy
  return { core: { ...given('eviction', eviction), ...policy.core } }
}

function given<K extends string, V>(key: K, value: V | undefined): { [key in K]?: V } {
  return (value === undefined ? {} : { [key]: value }) as { [key in K]?: V }
}

export {
  type Cell,
  cacheTokens,
  cells,
  type EngineName,
  type FleetCell,
  loads,
  type ReplayOptions,
  type Setting,
  scenario,
  settings,
}
