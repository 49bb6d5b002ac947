/** A process that cannot run the library is told why, and what to do. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { checkNode } from '../src/platform.js'

const MAIN = join(__dirname, '../dist/cli/main.mjs')

/** Runs the command in a process in which `before` has run. */
function runAfter(t: ExecutionContext, before: string) {
  const folder = mkdtempSync(join(tmpdir(), 'warmpath-platform-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const preload = join(folder, 'before.cjs')
  writeFileSync(preload, before)
  return spawnSync(process.execPath, ['--require', preload, MAIN, '--version'], {
    encoding: 'utf8',
  })
}

test('Node 20.19 is the oldest that will do', (t) => {
  for (const version of ['20.19.0', '20.20.2', '22.0.0', '24.3.0', '100.1.2']) {
    t.notThrows(() => checkNode(version))
  }
  for (const version of ['18.20.8', '20.18.3', '20.9.0', '16.0.0']) {
    t.throws(() => checkNode(version), {
      code: 'WARMPATH_UNSUPPORTED_PLATFORM',
      message: `Node ${version} is too old: install Node 20.19 or newer`,
    })
  }
})

test('a Node that is too old gets one line and an exit code', (t) => {
  const old = "Object.defineProperty(process.versions, 'node', { value: '18.20.8' })"
  const { status, stdout, stderr } = runAfter(t, old)
  t.is(stdout, '')
  t.regex(stderr, /^warmpath: Node 18\.20\.8 is too old: [^\n]*\n$/)
  t.is(status, 1)
})

test('a platform without a binary gets one line that names those with one', (t) => {
  const other = "Object.defineProperty(process, 'arch', { value: 's390x' })"
  const { status, stdout, stderr } = runAfter(t, other)
  t.is(stdout, '')
  t.regex(stderr, /^warmpath: no native binary for \w+ s390x; supported: Linux x64 [^\n]*\n$/)
  t.is(status, 1)
})
