/** Rows that an example of the simulator computes in Rust, where it drives what is shipped. Needs cargo. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { root } from '../../scripts/build.mjs'

const RUN = ['run', '--release', '--quiet', '-p', 'warmpath-sim', '--example']

/** @param args of the example, given the file that it writes its rows to */
export function harnessRows(example, args) {
  const scratch = mkdtempSync(join(tmpdir(), 'warmpath-rows-'))
  try {
    const file = join(scratch, 'rows.json')
    const all = [...RUN, example, '--', ...args(file)]
    const ran = spawnSync('cargo', all, { cwd: root, encoding: 'utf8' })
    if (ran.status !== 0)
      throw new Error(`the example ${example} failed: ${ran.stderr ?? ran.error}`)
    return JSON.parse(readFileSync(file, 'utf8')).rows
  } finally {
    rmSync(scratch, { recursive: true })
  }
}
