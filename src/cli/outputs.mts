/** Files that a command writes must be none of those that it reads, nor one another. */
import { realpathSync } from 'node:fs'
import { resolve, sep } from 'node:path'
import { WarmpathError } from '../index.js'

/** Of a folder only what says JSON is read. */
const READ_OF_FOLDERS = /\.jsonl?(\.gz)?$/i

/** Outputs by their option, such as `--out`; absent ones are not written. Throws CONFIG. */
function refuseOverwriting(
  inputs: readonly string[],
  outputs: Readonly<Record<string, string | undefined>>,
): void {
  const read = inputs.map(real)
  const written = new Map<string, string>()
  for (const [option, file] of Object.entries(outputs)) {
    if (file === undefined) continue
    const path = real(file)
    const isInside = read.some((at) => path.startsWith(at + sep))
    if (read.includes(path) || (isInside && exists(file) && READ_OF_FOLDERS.test(path))) {
      throw new WarmpathError('WARMPATH_CONFIG', `${option} would overwrite ${file}, which is read`)
    }
    const other = written.get(path)
    if (other !== undefined) {
      throw new WarmpathError('WARMPATH_CONFIG', `${other} and ${option} are the same file`)
    }
    written.set(path, option)
  }
}

/** Links followed, as far as there is something. */
function real(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return resolve(path)
  }
}

function exists(path: string): boolean {
  try {
    realpathSync(path)
    return true
  } catch {
    return false
  }
}

export { refuseOverwriting }
