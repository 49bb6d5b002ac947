/**
 * What a user may say of traces: where records go, and what is in them.
 *
 * Types and checks; the sinks themselves are in trace/. A key becomes its 16 bytes here and is shown
 * nowhere. Throws CONFIG with the path of the field.
 */
import { hash } from 'node:crypto'
import type { TraceRecord } from '../telemetry/index.js'
import { fields, list, number, oneOf, refuse, shown } from './check.js'
import { type EnvCredential, fromEnvironment } from './env.js'

/**
 * Takes records. Nothing waits for it: while a call is under way further records queue, and what
 * the queue has no room for is dropped and counted.
 */
export interface TraceSink {
  /** Called once, by the scheduler that it is given to. What it throws is wrong with the options. */
  open?(): void
  /** Whether a record would reach anybody now; when none of the sinks wants one, none is made. */
  wants?(): boolean
  /** How long records may gather before they are written, in milliseconds. Default 0. */
  readonly gatherMs?: number
  /** Records in the order of their ends. What it throws or rejects with counts all of them as lost. */
  write(records: readonly TraceRecord[]): void | Promise<void>
  /** After the last record. */
  close?(): void | Promise<void>
}

/** Takes one record; as a {@link TraceSink} that does nothing else. */
export type TraceFunction = (record: TraceRecord) => void | Promise<void>

type AnySink = TraceSink | TraceFunction

/** One record at the end of each answer, without its content. */
export interface TraceOptions {
  /** One or several. Default: `diagnostics()`. */
  sink?: AnySink | AnySink[]
  /**
   * Keys block hashes and session names, so that who reads a trace cannot guess what stands behind
   * them; equal ones stay equal. 16 bytes, 32 hex digits, or a text of at least 16 characters, or
   * `env('NAME')` of one of these. Left out: no key; given but undefined: an error.
   */
  key?: string | Uint8Array | EnvCredential
  /** Records that may wait for each sink, 1 to 1,000,000. Default 1024. */
  queue?: number
  /**
   * How long `flush` and closing wait for a sink that does not answer, 0.001 to 3600 seconds. What it
   * has and what waits for it counts as lost then. Default 10.
   */
  giveUpSeconds?: number
  /**
   * Bytes of text to a token, 0.5 to 20, by which the text of a prompt is cut into blocks. Traces
   * that are read together need the same. Default 4.
   */
  bytesPerToken?: number
  /** Whether records hold the receipt's id, or the whole receipt. Default `id`. */
  receipts?: 'id' | 'full'
}

export interface TraceSettings {
  readonly sinks: readonly AnySink[]
  /** 16 bytes. */
  readonly key: Uint8Array | undefined
  readonly queue: number
  readonly giveUpMs: number
  readonly bytesPerToken: number
  readonly receipts: 'id' | 'full'
}

const KEY_BYTES = 16
const KEY_HEX = /^[0-9a-f]{32}$/i
const METHODS = ['open', 'wants', 'write', 'close'] as const

export function traceSettings(
  value: unknown,
  environment: NodeJS.ProcessEnv,
): TraceSettings | undefined {
  if (value === undefined) return undefined
  const known = ['sink', 'key', 'queue', 'giveUpSeconds', 'bytesPerToken', 'receipts']
  const given = fields(value, 'trace', known)
  return {
    sinks: sinks(given.sink),
    // A variable that is not set must not turn a keyed trace into an open one.
    key: Object.hasOwn(given, 'key') ? keyBytes(keyOf(given.key, environment)) : undefined,
    queue: number(given.queue ?? 1024, 'trace.queue', { min: 1, max: 1_000_000, kind: 'integer' }),
    giveUpMs:
      1000 *
      number(given.giveUpSeconds ?? 10, 'trace.giveUpSeconds', {
        min: 0.001,
        max: 3_600,
        kind: 'real',
      }),
    bytesPerToken: number(given.bytesPerToken ?? 4, 'trace.bytesPerToken', {
      min: 0.5,
      max: 20,
      kind: 'real',
    }),
    receipts: oneOf(given.receipts ?? 'id', 'trace.receipts', ['id', 'full']),
  }
}

function sinks(value: unknown): AnySink[] {
  if (!Array.isArray(value)) return value === undefined ? [] : [sink(value, 'trace.sink')]
  const found = list(value, 'trace.sink').map((item, at) => sink(item, `trace.sink[${at}]`))
  if (found.length === 0) refuse('trace.sink', 'needs at least one sink')
  if (new Set(found).size < found.length) refuse('trace.sink', 'has the same sink twice')
  return found
}

function sink(value: unknown, path: string): AnySink {
  if (typeof value === 'function') return value as TraceFunction
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    refuse(path, 'must be a sink, such as jsonl({ path }), or a function', shown(value))
  }
  const given = value as TraceSink
  for (const method of METHODS) {
    const found: unknown = given[method]
    const isLeftOut = found === undefined && method !== 'write'
    if (typeof found !== 'function' && !isLeftOut) {
      refuse(`${path}.${method}`, 'must be a function', typeof found)
    }
  }
  const range = { min: 0, max: 3_600_000, kind: 'real' } as const
  if (given.gatherMs !== undefined) number(given.gatherMs, `${path}.gatherMs`, range)
  return given
}

function keyOf(value: unknown, environment: NodeJS.ProcessEnv): unknown {
  const isNamed = typeof value === 'object' && value !== null && Object.hasOwn(value, 'env')
  return isNamed ? fromEnvironment(value as EnvCredential, 'trace.key', environment) : value
}

/** A text is hashed, since a key has 16 bytes; a short one could be guessed. */
function keyBytes(value: unknown): Uint8Array {
  if (value instanceof Uint8Array && value.length === KEY_BYTES) return Uint8Array.from(value)
  if (typeof value === 'string' && KEY_HEX.test(value)) return Buffer.from(value, 'hex')
  if (typeof value === 'string' && value.length >= KEY_BYTES) {
    return hash('sha256', value, 'buffer').subarray(0, KEY_BYTES)
  }
  const found = value instanceof Uint8Array ? `${value.length} bytes` : typeof value
  refuse(
    'trace.key',
    'must be 16 bytes, 32 hex digits or a text of at least 16 characters',
    typeof value === 'string' ? `a text of ${value.length}` : found,
  )
}
