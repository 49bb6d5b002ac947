/**
 * `npm run check:tarball -- [--runtime FILE]...`: installs what would be published into empty folders,
 * without the network, and uses it as a stranger would, on each runtime given (default: this one).
 *
 * Prints a line a claim and fails when one does not hold. Dependencies are packed from node_modules.
 */
import { spawnSync } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { npm, pack, packFolder, root } from './pack.mjs'

const { values } = parseArgs({ options: { runtime: { type: 'string', multiple: true } } })

/** Scripts that npm would run at its users'. */
const INSTALL_SCRIPTS = ['preinstall', 'install', 'postinstall', 'prepare']

const SUPPORTED = /Linux x64 and arm64 \(glibc and musl\), macOS x64 and arm64, Windows x64/

const work = mkdtempSync(join(tmpdir(), 'warmpath-tarball-'))
let failed = 0

try {
  await main()
} finally {
  rmSync(work, { recursive: true })
}
process.exitCode = failed > 0 ? 1 : 0

async function main() {
  const stage = folder('stage')
  const tarballs = await pack(stage, folder('out'))
  const whole = install('whole', [tarballs.root, tarballs.platform])
  const bare = install('bare', [tarballs.root])
  checkManifests(whole, tarballs.platformName)
  for (const runtime of values.runtime ?? [process.execPath]) check(runtime, whole, bare)
}

/** The README's example, with the addresses of the engines from the environment. */
function example() {
  const readme = readFileSync(join(root, 'README.md'), 'utf8')
  const source = readme.split('\n## Embed it\n')[1].split('```js\n')[1].split('```')[0]
  return source.replaceAll(/'http:\/\/engine-(\d):8000'/g, 'process.env.ENGINE_$1')
}

function asCommonJs(source) {
  const required = source.replace(/import (\{.*\}) from '(.*)'/, "const $1 = require('$2')")
  return `${required.replace('export async', 'async')}\nmodule.exports = { handle }\n`
}

function folder(name) {
  const path = join(work, name)
  mkdirSync(path)
  return path
}

/** An empty project with the tarballs installed; offline, so the dependencies are packed too. */
function install(name, tarballs) {
  const path = folder(name)
  const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const others = Object.keys(dependencies).map((each) =>
    packFolder(join(root, 'node_modules', each), path),
  )
  writeFileSync(join(path, 'package.json'), '{"private": true}')
  const args = ['install', '--offline', '--no-audit', '--no-fund', '--no-package-lock']
  const omit = tarballs.length > 1 ? [] : ['--omit=optional']
  npm([...args, ...omit, ...tarballs, ...others], path)
  const source = example()
  writeFileSync(join(path, 'embed.mjs'), source)
  writeFileSync(join(path, 'embed.cjs'), asCommonJs(source))
  for (const each of ['drive.mjs', 'state.mjs']) {
    cpSync(join(import.meta.dirname, each), join(path, each))
  }
  return path
}

function checkManifests(whole, platformName) {
  const read = (name) =>
    JSON.parse(readFileSync(join(whole, 'node_modules', name, 'package.json'), 'utf8'))
  const [published, platform] = [read('warmpath'), read(platformName)]
  claim('the binary is an optional dependency', published.optionalDependencies?.[platformName])
  const scripts = [published, platform].flatMap(({ scripts = {} }) => Object.keys(scripts))
  claim('nothing runs at install', !scripts.some((name) => INSTALL_SCRIPTS.includes(name)))
  const files = readdirSync(join(whole, 'node_modules', 'warmpath'))
  claim('the root package has no binary', !files.some((name) => name.endsWith('.node')))
}

function check(runtime, whole, bare) {
  const on = `${runtime.split('/').at(-1)} ${run(runtime, whole, ['--version']).out.trim()}`
  for (const file of ['embed.mjs', 'embed.cjs']) {
    const { out, err } = run(runtime, whole, ['drive.mjs', `./${file}`])
    const [first, second] = parsed(out) ?? []
    const isWarm = first?.status === 200 && second?.status === 200 && second.cached > first.cached
    claim(`${on}: the README's example as ${file}`, isWarm, err)
  }
  const { out, err } = run(runtime, whole, ['state.mjs'])
  const same = parsed(out)
  const isOne = same?.scheduler && same.error && same.shared && same.reservations === 1
  claim(`${on}: one copy of all state`, isOne && same.names.length === 0, err)
  checkWithout(runtime, on, bare)
}

/** What somebody sees whose install has left the binary out. */
function checkWithout(runtime, on, bare) {
  const source =
    "try { require('warmpath') } catch (e) { process.stdout.write(e.code + ' ' + e.message) }"
  writeFileSync(join(bare, 'without.cjs'), source)
  const { out, err } = run(runtime, bare, ['without.cjs'])
  const isClear = out.startsWith('WARMPATH_UNSUPPORTED_PLATFORM') && SUPPORTED.test(out)
  claim(`${on}: without the binary an error that names the platforms`, isClear, out + err)
  const cli = run(runtime, bare, ['node_modules/warmpath/dist/cli/main.mjs', 'status'])
  const isLine = cli.err.trim().split('\n').length === 1 && SUPPORTED.test(cli.err)
  claim(`${on}: without the binary the command says one line`, isLine && cli.code === 1, cli.err)
}

function run(runtime, cwd, args) {
  const { stdout, stderr, status } = spawnSync(runtime, args, { cwd, encoding: 'utf8' })
  return { out: stdout ?? '', err: stderr ?? '', code: status }
}

function parsed(text) {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function claim(what, holds, detail = '') {
  if (!holds) failed += 1
  process.stdout.write(`${holds ? 'ok    ' : 'FAILED'} ${what}\n`)
  if (!holds && detail) process.stdout.write(`${detail}\n`)
}
