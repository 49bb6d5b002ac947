/**
 * Question: what does the master of a store say when it is asked, instead of listened to?
 *
 * Its events have no beginning: a build without them binds no socket and says so only here. And they have
 * holes: nothing is published when everything is removed at once, or when a machine with objects is lost.
 * So every few seconds it is asked whether it publishes, and whether it still has a few of the objects that
 * its events have told of. What is missing at two looks in a row is gone: one look may be quicker than the
 * event. The question takes no lease on the objects, so asking keeps nothing alive. One request at a time,
 * bounded in time and size; ever less often while there is no answer. Knows no scheduler; keeps no process
 * alive.
 */
import { type Answer, askedText } from './answer.js'

export interface MasterWatchOptions {
  /** Base address of its HTTP side. */
  readonly url: string
  /** Up to so many keys of objects that are there by its events; other ones with each call. */
  readonly sample: (most: number) => readonly string[]
  readonly told: (found: MasterFound) => void
  readonly failed: (why: string) => void
}

export interface MasterFound {
  /** Whether it publishes events. */
  readonly publishes: boolean
  /** How many objects it was asked for. */
  readonly asked: number
  /** Those that it has not had for two looks. */
  readonly gone: readonly string[]
}

const INTERVAL_MS = 5_000
const LONGEST_PAUSE_MS = 60_000
const LIMITS = { timeoutMs: 2_000, mostChars: 1 << 20 } as const
/** Their keys have to fit into an address. */
const SAMPLE = 32

export class MasterWatch {
  readonly #options: MasterWatchOptions
  readonly #closing = new AbortController()
  /** Missing at the last look. */
  #missing: ReadonlySet<string> = new Set()
  #failures = 0
  #timer: NodeJS.Timeout | undefined

  constructor(options: MasterWatchOptions) {
    this.#options = options
    this.#timer = setTimeout(() => void this.#look(), 0).unref()
  }

  close(): void {
    this.#closing.abort()
    clearTimeout(this.#timer)
  }

  async #look(): Promise<void> {
    const found = await this.#ask()
    if (this.#closing.signal.aborted) return
    if (typeof found === 'string') {
      this.#failures += 1
      this.#options.failed(found)
    } else {
      this.#failures = 0
      this.#options.told(found)
    }
    if (this.#closing.signal.aborted) return
    const pause = Math.min(INTERVAL_MS * 2 ** Math.min(this.#failures, 16), LONGEST_PAUSE_MS)
    this.#timer = setTimeout(() => void this.#look(), pause).unref()
  }

  async #ask(): Promise<MasterFound | string> {
    const status = await this.#get('/kv_events/status')
    if (status.error !== undefined) return status.error
    const publishes = member(status.text, 'enabled')
    if (typeof publishes !== 'boolean') return 'no master of a store: its answer has no "enabled"'
    const before = this.#missing
    const keys = [...new Set([...before, ...this.#options.sample(SAMPLE)])].filter(isAskable)
    this.#missing = new Set()
    if (keys.length === 0) return { publishes, asked: 0, gone: [] }
    const answer = await this.#get(`/batch_query_keys?keys=${keys.map(encodeURIComponent).join()}`)
    if (answer.error !== undefined) return answer.error
    const missing = keys.filter((key) => isMissing(member(answer.text, 'data'), key))
    this.#missing = new Set(missing.filter((key) => !before.has(key)))
    return { publishes, asked: keys.length, gone: missing.filter((key) => before.has(key)) }
  }

  #get(path: string): Promise<Answer> {
    return askedText(this.#options.url + path, { ...LIMITS, signal: this.#closing.signal })
  }
}

/** A comma ends a key of the question. */
function isAskable(key: string): boolean {
  return !key.includes(',')
}

/** Only what is said to be missing is. */
function isMissing(data: unknown, key: string): boolean {
  const found = isRecord(data) ? data[key] : undefined
  return isRecord(found) && found.ok === false && found.error === 'OBJECT_NOT_FOUND'
}

function member(text: string, name: string): unknown {
  try {
    const value: unknown = JSON.parse(text)
    return isRecord(value) ? value[name] : undefined
  } catch {
    return undefined
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
