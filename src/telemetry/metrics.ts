/**
 * What has happened and what is under way, as metrics of Prometheus.
 *
 * Nothing is counted here: the core adds as it decides, and is read when somebody asks. Labels are
 * workers, reasons and outcomes, of which there are few; never a session, a tenant or a model that a
 * client has named. docs/metrics.md has the list, which a test compares with this file.
 */
import { refuseArgument } from '../argument.js'

/** One metric with all its values. */
export interface MetricFamily {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly values: readonly MetricValue[]
}

export interface MetricValue {
  readonly value: number
  readonly labels: Readonly<Record<string, string | number>>
  /** Where it is not that of the family, as for the parts of a histogram. */
  readonly metricName?: string
}

type Counts = Readonly<Record<string, number>>

/** As the core counts. */
interface CoreCounts {
  readonly sessions: Counts
  readonly paused: number
  readonly turns: Counts
  readonly submitted: number
  readonly ended: Counts
  readonly rerouted: number
  readonly switches: number
  readonly holds: Counts
  readonly holdEnds: Counts
  readonly holdTimes: {
    readonly steps: readonly number[]
    readonly counts: readonly number[]
    readonly sum: number
  }
  readonly policy: Counts
  readonly tokens: Counts
  readonly churn: {
    readonly steps: readonly number[]
    readonly branches: number
    readonly reached: Readonly<Record<'pauses' | 'moves', readonly number[]>>
    readonly sum: Readonly<Record<'pauses' | 'moves', number>>
  }
}

/** What is read of a worker's status. */
interface WorkerFigures {
  readonly id: string
  readonly health: string
  readonly capacityTokens: number | null
  readonly inFlight: number
  readonly usedTokens: number
  readonly leasedTokens: number
  readonly evidence: { readonly trust: string }
  /** Null where its engine tells nothing. */
  readonly events: {
    readonly disagreement: object | null
    readonly ranks: readonly Readonly<Record<'gaps' | 'disconnects' | 'unreadable', number>>[]
  } | null
}

const TRUST = ['none', 'predicted', 'degraded', 'exact']

/** @param json what the core has counted, as it writes it */
export function metricFamilies(json: string, workers: readonly WorkerFigures[]): MetricFamily[] {
  const counts = JSON.parse(json) as CoreCounts
  const ofWorkers = (read: (worker: WorkerFigures) => number | null | undefined) =>
    workers.flatMap((worker) => {
      const value = read(worker)
      return value === null || value === undefined ? [] : [{ value, labels: { worker: worker.id } }]
    })
  const ofRanks = (field: 'gaps' | 'disconnects' | 'unreadable') =>
    ofWorkers(({ events }) => events?.ranks.reduce((sum, rank) => sum + rank[field], 0))
  const { tokens, policy } = counts
  return [
    gauge('sessions', 'Sessions by what they do.', by('phase', counts.sessions)),
    gauge('sessions_paused', 'Branches of sessions that admission has paused.', one(counts.paused)),
    gauge('turns', 'Turns under way.', by('state', counts.turns)),
    counter('turns_submitted_total', 'Turns taken in.', one(counts.submitted)),
    counter('turns_ended_total', 'Turns that have ended.', by('outcome', counts.ended)),
    counter('reroutes_total', 'Turns moved after a failure.', one(counts.rerouted)),
    counter(
      'model_switches_total',
      "Turns that changed their session's model.",
      one(counts.switches),
    ),
    counter('holds_total', 'Times that a turn began to wait for this.', by('reason', counts.holds)),
    counter('holds_ended_total', 'Holds that have ended.', by('outcome', counts.holdEnds)),
    holdTimes(counts),
    counter(
      'admission_events_total',
      'What admission did to sessions and turns.',
      by('event', policy),
    ),
    counter(
      'prompt_tokens_total',
      'Tokens of prompts that went, as estimated.',
      one(tokens.prompt),
    ),
    counter(
      'predicted_cached_tokens_total',
      'Of these, tokens believed to be cached.',
      one(tokens.predicted),
    ),
    counter('reported_tokens_total', 'Tokens that engines have reported.', [
      ...one(tokens.reportedPrompt, { kind: 'prompt' }),
      ...one(tokens.cached, { kind: 'cached' }),
      ...one(tokens.completion, { kind: 'completion' }),
    ]),
    churn(counts, 'pauses', 'Branches of sessions by how often they lost all their room.'),
    churn(
      counts,
      'moves',
      'Branches of sessions by how often they left the worker that had their context.',
    ),
    gauge(
      'worker_up',
      '1 if the worker takes turns.',
      ofWorkers((w) => Number(w.health === 'up')),
    ),
    gauge(
      'worker_turns',
      'Turns that run on the worker.',
      ofWorkers((w) => w.inFlight),
    ),
    gauge(
      'worker_used_tokens',
      'What admission counts there.',
      ofWorkers((w) => w.usedTokens),
    ),
    gauge(
      'worker_leased_tokens',
      'Of these, kept between turns.',
      ofWorkers((w) => w.leasedTokens),
    ),
    gauge(
      'worker_capacity_tokens',
      'Tokens of its cache.',
      ofWorkers((w) => w.capacityTokens),
    ),
    gauge(
      'worker_trust',
      '1 for how good what is known of its cache is, 0 for the rest.',
      workers.flatMap(({ id, evidence }) =>
        TRUST.map((trust) => ({
          value: Number(evidence.trust === trust),
          labels: { worker: id, trust },
        })),
      ),
    ),
    gauge(
      'worker_disagreement',
      '1 if its events and the prompts speak of different tokens.',
      ofWorkers(({ events }) => (events ? Number(events.disagreement !== null) : null)),
    ),
    counter('event_gaps_total', 'Times that events of its engine were lost.', ofRanks('gaps')),
    counter(
      'event_disconnects_total',
      'Times that the connection for its events was lost.',
      ofRanks('disconnects'),
    ),
    counter(
      'event_unreadable_total',
      'Messages of its engine that could not be read.',
      ofRanks('unreadable'),
    ),
  ]
}

function counter(name: string, help: string, values: MetricValue[]): MetricFamily {
  return { name: `warmpath_${name}`, help, type: 'counter', values }
}

function gauge(name: string, help: string, values: MetricValue[]): MetricFamily {
  return { name: `warmpath_${name}`, help, type: 'gauge', values }
}

function one(value = 0, labels: MetricValue['labels'] = {}): MetricValue[] {
  return [{ value, labels }]
}

function by(label: string, counts: Counts): MetricValue[] {
  return Object.entries(counts).map(([name, value]) => ({ value, labels: { [label]: name } }))
}

function holdTimes({ holdTimes: { steps, counts, sum } }: CoreCounts): MetricFamily {
  let below = 0
  const upTo = steps.map((step, at) => {
    below += counts[at] ?? 0
    return [step, below] as const
  })
  const all = below + (counts[steps.length] ?? 0)
  const name = 'warmpath_hold_seconds'
  const help = 'How long holds were that have ended.'
  return { name, help, type: 'histogram', values: histogram(name, upTo, all, sum) }
}

/** The core counts who has reached a step; a histogram who has not gone beyond. */
function churn(
  { churn: counts }: CoreCounts,
  kind: 'pauses' | 'moves',
  help: string,
): MetricFamily {
  const { steps, branches } = counts
  const reached = counts.reached[kind]
  const upTo = steps.map((step, at) => [step - 1, branches - (reached[at] ?? 0)] as const)
  const name = `warmpath_session_${kind}`
  return {
    name,
    help,
    type: 'histogram',
    values: histogram(name, upTo, branches, counts.sum[kind]),
  }
}

function histogram(
  name: string,
  upTo: readonly (readonly [number, number])[],
  all: number,
  sum: number,
): MetricValue[] {
  const bucket = (le: number | string, value: number): MetricValue => {
    return { metricName: `${name}_bucket`, labels: { le }, value }
  }
  return [
    ...upTo.map(([le, value]) => bucket(le, value)),
    bucket('+Inf', all),
    { metricName: `${name}_sum`, labels: {}, value: sum },
    { metricName: `${name}_count`, labels: {}, value: all },
  ]
}

/** The text that Prometheus scrapes, version 0.0.4 of its format. */
export function metricsText(families: readonly MetricFamily[]): string {
  if (!Array.isArray(families as unknown))
    refuseArgument('families', 'what scheduler.metrics() gives')
  const lines = families.flatMap(({ name, help, type, values }) => [
    `# HELP ${name} ${help}`,
    `# TYPE ${name} ${type}`,
    ...values.map(({ metricName = name, labels, value }) => {
      const pairs = Object.entries(labels).map(([key, text]) => `${key}="${escaped(String(text))}"`)
      return `${metricName}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}`
    }),
  ])
  return `${lines.join('\n')}\n`
}

function checkMethod(value: unknown, name: string, method: string): void {
  const isThere = typeof value === 'object' && value !== null
  if (!isThere || typeof Reflect.get(value, method) !== 'function') {
    refuseArgument(name, `an object with the method ${method}`)
  }
}

/** What a label value may not have in it as it is. */
function escaped(text: string): string {
  return text.replace(/[\\"\n]/g, (found) => (found === '\n' ? '\\n' : `\\${found}`))
}

/** The part of prom-client's `Registry` that is used; nothing of that package is loaded. */
export interface MetricRegistry {
  registerMetric(metric: never): void
}

/** Where metrics come from. */
interface MetricSource {
  metrics(): MetricFamily[]
}

/**
 * Adds a scheduler's metrics to a registry of prom-client. They are read when that is scraped, once for
 * all of them. One scheduler a registry: their names are the same. Throws INVALID_ARGUMENT, and what the
 * registry throws where it has one of these names already.
 */
export function registerMetrics(registry: MetricRegistry, scheduler: MetricSource): void {
  checkMethod(registry, 'registry', 'registerMetric')
  checkMethod(scheduler, 'scheduler', 'metrics')
  let read: Map<string, MetricFamily> | undefined
  const families = (): Map<string, MetricFamily> => {
    if (read === undefined) {
      read = new Map(scheduler.metrics().map((family) => [family.name, family]))
      setImmediate(() => {
        read = undefined
      })
    }
    return read
  }
  for (const { name, help, type } of scheduler.metrics()) {
    const get = async () => ({ ...families().get(name), aggregator: 'sum' })
    const metric = { name, help, type, aggregator: 'sum', labelNames: [], get, reset() {} }
    registry.registerMetric(metric as never)
  }
}
