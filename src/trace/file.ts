/**
 * A file that is appended to and, when it is full, moved aside for the next one.
 *
 * What is in a file is whole: a piece that could be written only in part is cut off again, and a
 * file that was there before is never written to, since nobody knows how its writer ended. Moved
 * files have ascending numbers before their extension.
 *
 * One append at a time. Opening is synchronous, so that a path that does not work is an error when a
 * program starts; the rest waits for the disk without holding anybody up. A raw descriptor, since a
 * file that is forgotten with its scheduler shall not complain.
 */
import * as fs from 'node:fs'
import { readdir, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { WarmpathError } from '../errors.js'

/** When a file is full; infinite where nothing was said. */
export interface Limits {
  readonly bytes: number
  readonly lines: number
  readonly ageMs: number
  /** Full files that are kept. */
  readonly files: number
}

/** Session names are in it. */
const MODE = 0o600
const NUMBER_DIGITS = 6
const EXTENSION = /(\.jsonl?|\.ndjson)?(\.gz)?$/

const appendFile = promisify(fs.appendFile)
const close = promisify(fs.close)
const open = promisify(fs.open)
const truncate = promisify(fs.ftruncate)

/** By path; a file that is forgotten with its scheduler is free again. */
const written = new Map<string, WeakRef<RotatingFile>>()

export class RotatingFile {
  readonly #path: string
  readonly #limits: Limits
  #fd: number | undefined
  #bytes = 0
  #lines = 0
  #since = 0
  /** A terminal or the like is neither moved nor cut. */
  #isRegular = true
  #isTorn = false
  #isOwned = false

  constructor(path: string, limits: Limits) {
    this.#path = path
    this.#limits = limits
  }

  /** Throws CONFIG when the file cannot be written, or somebody has opened it through this. */
  open(): void {
    if (this.#isOwned) this.#refuse('is written by another scheduler')
    try {
      this.#claim()
      const found = fs.statSync(this.#path, { throwIfNoEntry: false })
      this.#isRegular = found?.isFile() ?? true
      if (found?.isFIFO()) this.#refuse('is a pipe')
      const folder = dirname(this.#path)
      if (this.#isRegular && (found?.size ?? 0) > 0) {
        fs.renameSync(this.#path, this.#aside(fs.readdirSync(folder)))
        for (const path of this.#surplus(fs.readdirSync(folder))) fs.rmSync(path, { force: true })
      }
      this.#begin(fs.openSync(this.#path, 'a', MODE))
    } catch (error) {
      if (WarmpathError.is(error)) throw error
      this.#refuse(`cannot be written (${(error as NodeJS.ErrnoException).code ?? 'an error'})`)
    }
  }

  /** Whether somebody has opened it and not closed it. */
  get isOwned(): boolean {
    return this.#isOwned
  }

  /** Two of a process would move each other's files aside. A terminal or the like takes any number. */
  #claim(): void {
    const found = fs.statSync(this.#path, { throwIfNoEntry: false })
    if (found === undefined || found.isFile()) {
      const path = found
        ? fs.realpathSync(this.#path)
        : join(fs.realpathSync(dirname(this.#path)), basename(this.#path))
      if (written.get(path)?.deref()?.isOwned) this.#refuse('is written by another sink')
      written.set(path, new WeakRef(this))
    }
    this.#isOwned = true
  }

  /** How many lines the file has room for that the next piece goes to. */
  get roomLines(): number {
    const room = this.#limits.lines - this.#lines
    return room > 0 ? room : this.#limits.lines
  }

  /** Rejects when the piece is not in the file; then nothing of it is. */
  async append(piece: Buffer, lines: number): Promise<void> {
    const fd = await this.#room(piece.length, lines)
    try {
      await appendFile(fd, piece)
    } catch (error) {
      await this.#cutBack(fd)
      throw error
    }
    this.#bytes += piece.length
    this.#lines += lines
  }

  async close(): Promise<void> {
    try {
      await this.#shut()
    } finally {
      this.#isOwned = false
    }
  }

  async #shut(): Promise<void> {
    const fd = this.#fd
    this.#fd = undefined
    if (fd !== undefined) await close(fd)
  }

  /** The file that has room for a piece. */
  async #room(bytes: number, lines: number): Promise<number> {
    if (this.#fd !== undefined && !this.#isFull(bytes, lines)) return this.#fd
    return this.#rotate()
  }

  #isFull(bytes: number, lines: number): boolean {
    if (!this.#isRegular) return false
    if (this.#isTorn) return true
    if (this.#lines === 0) return false
    const { bytes: most, lines: mostLines, ageMs } = this.#limits
    return (
      this.#bytes + bytes > most ||
      this.#lines + lines > mostLines ||
      performance.now() - this.#since >= ageMs
    )
  }

  /** What fails here is tried again with the next piece. */
  async #rotate(): Promise<number> {
    await this.#shut()
    const folder = dirname(this.#path)
    await rename(this.#path, this.#aside(await readdir(folder))).catch(ignoreMissing)
    const fd = await open(this.#path, 'a', MODE)
    this.#begin(fd)
    for (const path of this.#surplus(await readdir(folder))) await rm(path).catch(ignoreMissing)
    return fd
  }

  #begin(fd: number): void {
    this.#fd = fd
    this.#isTorn = false
    this.#bytes = 0
    this.#lines = 0
    this.#since = performance.now()
  }

  async #cutBack(fd: number): Promise<void> {
    if (!this.#isRegular) return
    await truncate(fd, this.#bytes).catch(() => {
      this.#isTorn = true
    })
  }

  /** The path for the present file once it is full. */
  #aside(names: readonly string[]): string {
    const { stem, extension } = this.#parts()
    const newest = this.#moved(names).at(-1)?.number ?? 0
    const number = String(newest + 1).padStart(NUMBER_DIGITS, '0')
    return join(dirname(this.#path), `${stem}.${number}${extension}`)
  }

  /** Files that were moved aside, the oldest first. */
  #moved(names: readonly string[]): { name: string; number: number }[] {
    const { stem, extension } = this.#parts()
    const found = names.flatMap((name) => {
      const isOurs = name.startsWith(`${stem}.`) && name.endsWith(extension)
      const digits = isOurs ? name.slice(stem.length + 1, name.length - extension.length) : ''
      return /^\d{6,15}$/.test(digits) ? [{ name, number: Number(digits) }] : []
    })
    return found.sort((a, b) => a.number - b.number)
  }

  /** Paths of the moved files that are too many. */
  #surplus(names: readonly string[]): string[] {
    const moved = this.#moved(names)
    const old = moved.slice(0, Math.max(0, moved.length - this.#limits.files))
    return old.map(({ name }) => join(dirname(this.#path), name))
  }

  #parts(): { stem: string; extension: string } {
    const name = basename(this.#path)
    const extension = EXTENSION.exec(name)?.[0] ?? ''
    return { stem: name.slice(0, name.length - extension.length), extension }
  }

  #refuse(why: string): never {
    throw new WarmpathError('WARMPATH_CONFIG', `trace.sink: ${this.#path} ${why}`, {
      detail: { field: 'trace.sink' },
    })
  }
}

/** Somebody has taken the file away meanwhile. */
function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}
