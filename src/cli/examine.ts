/**
 * Question: what does an engine answer when it is asked beside turns?
 *
 * For its health as a gateway asks, for its metrics where `metrics: true` would find them, and for the
 * name of a model; with the headers that its turns get. Each answer is bounded in time and size.
 */
import {
  type Answer,
  askedText,
  baseOf,
  type EngineMetrics,
  LONGEST_METRICS,
  METRICS_PATHS,
  readMetrics,
} from '../engines/index.js'

/** Where an engine is, and what it is asked with. */
interface Place {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

interface Answers {
  /** `ok`, or why it is not. */
  readonly health: string
  readonly metrics?: EngineMetrics
}

const LIMIT_MS = 5_000
const NEVER = new AbortController().signal

async function examine(place: Place, healthPath: string): Promise<Answers> {
  const [health, metrics] = await Promise.all([healthOf(place, healthPath), metricsOf(place)])
  return metrics === undefined ? { health } : { health, metrics }
}

/** To a gateway any answer below 500 is one of a worker that is up; a key that is refused is told all the same. */
async function healthOf(place: Place, path: string): Promise<string> {
  const { error, status = 500 } = await ask(place, new URL(path, new URL(place.url).origin).href)
  const isUp = status < 500 && status !== 401 && status !== 403
  return error === undefined || isUp ? 'ok' : error
}

async function metricsOf(place: Place): Promise<EngineMetrics | undefined> {
  for (const path of METRICS_PATHS) {
    const { text } = await ask(place, baseOf(place.url) + path)
    const metrics = text === undefined ? undefined : readMetrics(text)
    if (metrics !== undefined) return metrics
  }
  return undefined
}

/** The first model that an engine serves. Throws where it does not say. */
async function modelOf(place: Place): Promise<string> {
  const { text, error } = await ask(place, `${baseOf(place.url)}/v1/models`)
  if (text === undefined) throw new Error(`it names no model at /v1/models: ${error}`)
  const id = firstModel(text)
  if (typeof id !== 'string') throw new Error('what it answers at /v1/models names no model')
  return id
}

function firstModel(text: string): unknown {
  try {
    return (JSON.parse(text) as { data: { id?: unknown }[] }).data[0]?.id
  } catch {
    return undefined
  }
}

function ask({ headers }: Place, url: string): Promise<Answer> {
  const limits = { timeoutMs: LIMIT_MS, mostChars: LONGEST_METRICS, signal: NEVER, headers }
  return askedText(url, limits)
}

export { type Answers, examine, modelOf, type Place }
