/**
 * Records as lines of JSON in a file, compressed if wanted.
 *
 * Each write of a compressed file is a gzip member of its own: members one after the other are one
 * gzip file, and whatever ends the process, all that was written before can be read. Records gather
 * for a second then, since a member of few lines is hardly smaller than they are.
 *
 * A write is cut into pieces of half a mebibyte, so that formatting them gives way to turns; files
 * of a given size or number of lines are not passed by more than one record.
 */
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { fields, MAX_COUNT, name, number, refuse, shown } from '../config/check.js'
import type { TraceSink } from '../config/index.js'
import type { TraceRecord } from '../telemetry/index.js'
import { type Limits, RotatingFile } from './file.js'
import { formatRecord } from './format.js'

/** When a file is full and the next one begins. What is left out does not count. */
export interface RotateOptions {
  /** As they are on the disk, at least 1024. */
  bytes?: number
  lines?: number
  /** Looked at when there is something to write. */
  ageSeconds?: number
  /** Full files that are kept; older ones are deleted. Absent: all. */
  files?: number
}

export interface JsonlOptions {
  /**
   * The file that is written, by one sink only: another one of this process (in a worker thread it is not
   * seen) is refused with CONFIG. One that is there already is moved aside like
   * a full one: `trace.jsonl` becomes `trace.000001.jsonl`, the highest number is the newest.
   */
  path: string
  /** Default: whether the path ends in `.gz`. */
  gzip?: boolean
  rotate?: RotateOptions
}

const GATHER_MS = 1000
const PIECE_BYTES = 512 * 1024

const compress = promisify(gzip)

/** Throws CONFIG with the name of a bad field; the scheduler's constructor when it cannot open the file. */
export function jsonl(options: JsonlOptions): TraceSink {
  const given = fields(options, 'jsonl', ['path', 'gzip', 'rotate'])
  const path = name(given.path, 'jsonl.path')
  const isZipped = given.gzip ?? path.endsWith('.gz')
  if (typeof isZipped !== 'boolean') refuse('jsonl.gzip', 'must be true or false', shown(isZipped))
  return new JsonlSink(path, isZipped ? 'gzip' : 'plain', limits(given.rotate))
}

function limits(value: unknown): Limits {
  const known = ['bytes', 'lines', 'ageSeconds', 'files']
  const given = fields(value ?? {}, 'jsonl.rotate', known)
  const limit = (field: string, min: number): number => {
    if (given[field] === undefined) return Number.POSITIVE_INFINITY
    return number(given[field], `jsonl.rotate.${field}`, { min, max: MAX_COUNT, kind: 'integer' })
  }
  return {
    bytes: limit('bytes', 1024),
    lines: limit('lines', 1),
    ageMs: limit('ageSeconds', 1) * 1000,
    files: limit('files', 0),
  }
}

class JsonlSink implements TraceSink {
  readonly gatherMs: number
  readonly #file: RotatingFile
  readonly #limits: Limits
  readonly #form: 'plain' | 'gzip'

  constructor(path: string, form: 'plain' | 'gzip', limits: Limits) {
    this.#file = new RotatingFile(path, limits)
    this.#limits = limits
    this.#form = form
    this.gatherMs = form === 'gzip' ? GATHER_MS : 0
  }

  open(): void {
    this.#file.open()
  }

  async write(records: readonly TraceRecord[]): Promise<void> {
    let lines: string[] = []
    let bytes = 0
    for (const record of records) {
      const line = `${formatRecord(record)}\n`
      const length = Buffer.byteLength(line)
      if (lines.length > 0 && !this.#fits(bytes + length, lines.length + 1)) {
        await this.#append(lines)
        lines = []
        bytes = 0
      }
      lines.push(line)
      bytes += length
    }
    if (lines.length > 0) await this.#append(lines)
  }

  close(): Promise<void> {
    return this.#file.close()
  }

  /** Whether so much is still one piece. */
  #fits(bytes: number, lines: number): boolean {
    return bytes <= Math.min(PIECE_BYTES, this.#limits.bytes) && lines <= this.#file.roomLines
  }

  async #append(lines: readonly string[]): Promise<void> {
    const text = Buffer.from(lines.join(''))
    const bytes = this.#form === 'gzip' ? await compress(text) : text
    await this.#file.append(bytes, lines.length)
  }
}
