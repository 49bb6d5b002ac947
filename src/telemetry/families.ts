/**
 * What has happened and what is under way, as metrics: the table of them.
 *
 * Nothing is counted here: the core adds as it decides, and is read when somebody asks. Labels are
 * workers, reasons and outcomes, of which there are few; never a session, a tenant or a model that a
 * client has named. docs/metrics.md has the list, which a test compares with this file.
 */
import type { MetricFamily, MetricValue } from './metrics.js'

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

/** What a metric is read from. */
interface Source {
  readonly counts: CoreCounts
  readonly workers: readonly WorkerFigures[]
}

interface Family extends Pick<MetricFamily, 'name' | 'help' | 'type'> {
  read(source: Source): MetricValue[]
}

type Read = Family['read']
/** How many, and how many of them are at most so much. */
type Upto = readonly (readonly [le: number, count: number])[]

const TRUST = ['none', 'predicted', 'degraded', 'exact']

const FAMILIES: readonly Family[] = [
  gauge('sessions', 'Sessions by what they do.', by('phase', 'sessions')),
  gauge('sessions_paused', 'Branches of sessions that admission has paused.', one('paused')),
  gauge('turns', 'Turns under way.', by('state', 'turns')),
  counter('turns_submitted_total', 'Turns taken in.', one('submitted')),
  counter('turns_ended_total', 'Turns that have ended.', by('outcome', 'ended')),
  counter('reroutes_total', 'Turns moved after a failure.', one('rerouted')),
  counter('model_switches_total', "Turns that changed their session's model.", one('switches')),
  counter('holds_total', 'Times that a turn began to wait for this.', by('reason', 'holds')),
  counter('holds_ended_total', 'Holds that have ended.', by('outcome', 'holdEnds')),
  histogram('hold_seconds', 'How long holds were that have ended.', holdTimes),
  counter(
    'admission_events_total',
    'What admission did to sessions and turns.',
    by('event', 'policy'),
  ),
  counter('prompt_tokens_total', 'Tokens of prompts that went, as estimated.', tokens('prompt')),
  counter(
    'predicted_cached_tokens_total',
    'Of these, tokens believed to be cached.',
    tokens('predicted'),
  ),
  counter('reported_tokens_total', 'Tokens that engines have reported.', (source) => [
    ...tokens('reportedPrompt', { kind: 'prompt' })(source),
    ...tokens('cached', { kind: 'cached' })(source),
    ...tokens('completion', { kind: 'completion' })(source),
  ]),
  histogram(
    'session_pauses',
    'Branches of sessions by how often they lost all their room.',
    churn('pauses'),
  ),
  histogram(
    'session_moves',
    'Branches of sessions by how often they left the worker that had their context.',
    churn('moves'),
  ),
  gauge(
    'worker_up',
    '1 if the worker takes turns.',
    ofWorkers(({ health }) => Number(health === 'up')),
  ),
  gauge(
    'worker_turns',
    'Turns that run on the worker.',
    ofWorkers((worker) => worker.inFlight),
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
  gauge('worker_trust', '1 for how good what is known of its cache is, 0 for the rest.', trust),
  gauge(
    'worker_disagreement',
    '1 if its events and the prompts speak of different tokens.',
    ofWorkers(({ events }) => events && Number(events.disagreement !== null)),
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

/** @param json what the core has counted, as it writes it */
export function metricFamilies(json: string, workers: readonly WorkerFigures[]): MetricFamily[] {
  const source = { counts: JSON.parse(json) as CoreCounts, workers }
  return FAMILIES.map(({ name, help, type, read }) => ({ name, help, type, values: read(source) }))
}

function counter(name: string, help: string, read: Read): Family {
  return { name: `warmpath_${name}`, help, type: 'counter', read }
}

function gauge(name: string, help: string, read: Read): Family {
  return { name: `warmpath_${name}`, help, type: 'gauge', read }
}

function histogram(
  plain: string,
  help: string,
  read: (counts: CoreCounts) => { upTo: Upto; all: number; sum: number },
): Family {
  const name = `warmpath_${plain}`
  const bucket = (le: number | string, value: number): MetricValue => {
    return { metricName: `${name}_bucket`, labels: { le }, value }
  }
  return {
    name,
    help,
    type: 'histogram',
    read: ({ counts }) => {
      const { upTo, all, sum } = read(counts)
      return [
        ...upTo.map(([le, value]) => bucket(le, value)),
        bucket('+Inf', all),
        { metricName: `${name}_sum`, labels: {}, value: sum },
        { metricName: `${name}_count`, labels: {}, value: all },
      ]
    },
  }
}

function one(of: 'paused' | 'submitted' | 'rerouted' | 'switches'): Read {
  return ({ counts }) => [{ value: counts[of], labels: {} }]
}

function tokens(of: string, labels: MetricValue['labels'] = {}): Read {
  return ({ counts }) => [{ value: counts.tokens[of] ?? 0, labels }]
}

function by(
  label: string,
  of: 'sessions' | 'turns' | 'ended' | 'holds' | 'holdEnds' | 'policy',
): Read {
  return ({ counts }) =>
    Object.entries(counts[of]).map(([name, value]) => ({ value, labels: { [label]: name } }))
}

/** Those of which it is not known are left out. */
function ofWorkers(read: (worker: WorkerFigures) => number | null | undefined): Read {
  return ({ workers }) =>
    workers.flatMap((worker) => {
      const value = read(worker)
      return value === null || value === undefined ? [] : [{ value, labels: { worker: worker.id } }]
    })
}

function ofRanks(field: 'gaps' | 'disconnects' | 'unreadable'): Read {
  return ofWorkers(({ events }) => events?.ranks.reduce((sum, rank) => sum + rank[field], 0))
}

function trust({ workers }: Source): MetricValue[] {
  return workers.flatMap(({ id, evidence }) =>
    TRUST.map((each) => ({
      value: Number(evidence.trust === each),
      labels: { worker: id, trust: each },
    })),
  )
}

function holdTimes({ holdTimes: { steps, counts, sum } }: CoreCounts) {
  let below = 0
  const upTo = steps.map((step, at) => {
    below += counts[at] ?? 0
    return [step, below] as const
  })
  return { upTo, all: below + (counts[steps.length] ?? 0), sum }
}

/** The core counts who has reached a step; a histogram who has not gone beyond. */
function churn(kind: 'pauses' | 'moves') {
  return ({ churn: { steps, branches, reached, sum } }: CoreCounts) => ({
    upTo: steps.map((step, at) => [step - 1, branches - (reached[kind][at] ?? 0)] as const),
    all: branches,
    sum: sum[kind],
  })
}
