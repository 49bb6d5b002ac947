/**
 * Metrics as Prometheus takes them: as text to be scraped, or in a registry of prom-client.
 *
 * What they are and where each is read is in `families.ts`.
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
