/**
 * How often engines are asked for their metrics. Off unless it is asked for. Throws CONFIG with the path
 * of the field.
 */
import { fields, number } from './check.js'

export interface MetricsSettings {
  readonly intervalMs: number
  readonly timeoutMs: number
}

const INTERVAL = { min: 100, max: 3_600_000, kind: 'integer' } as const
const TIMEOUT = { min: 1, max: 60_000, kind: 'integer' } as const

/** Undefined where nobody is to be asked. */
export function metricsSettings(value: unknown): MetricsSettings | undefined {
  if (value === undefined || value === false) return undefined
  const given = value === true ? {} : fields(value, 'metrics', ['intervalMs', 'timeoutMs'])
  return {
    intervalMs: number(given.intervalMs ?? 5_000, 'metrics.intervalMs', INTERVAL),
    timeoutMs: number(given.timeoutMs ?? 2_000, 'metrics.timeoutMs', TIMEOUT),
  }
}
