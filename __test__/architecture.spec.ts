/**
 * Who may know whom: the arrows of the house, checked against the imports and manifests themselves.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, join, normalize, relative } from 'node:path'
import test from 'ava'

const root = join(__dirname, '..')

const BELOW_A_TURN =
  'argument clock config dialects errors forward identity link native providers telemetry trace'.split(
    ' ',
  )

/**
 * Rooms of src/ and the rooms that each may import. A file directly in src/ is a room of its own, and so is
 * each one of the scheduler.
 */
const ROOMS: Record<string, readonly string[]> = {
  errors: [],
  argument: ['errors'],
  clock: [],
  providers: [],
  identity: [],
  telemetry: ['argument'],
  dialects: ['argument', 'errors'],
  config: ['errors', 'identity', 'dialects', 'providers', 'telemetry'],
  forward: ['argument', 'identity', 'config'],
  platform: ['errors'],
  native: ['platform'],
  simulation: ['native'],
  workload: ['errors', 'native'],
  link: ['argument', 'clock', 'config', 'dialects', 'errors', 'native'],
  trace: ['clock', 'config', 'dialects', 'errors', 'identity', 'link', 'telemetry'],
  turn: BELOW_A_TURN,
  fleet: ['argument', 'config', 'errors', 'link', 'native'],
  exact: [...BELOW_A_TURN, 'engines', 'turn'],
  'engine-pull': ['engines', 'link', 'native'],
  'engine-load': ['config', 'engines', 'link', 'native'],
  'pool-watch': ['config', 'engines', 'link', 'native'],
  scheduler: [
    ...['argument', 'config', 'dialects', 'errors', 'fleet', 'identity', 'link', 'telemetry'],
    ...['trace', 'turn', 'scheduler/destinations', 'scheduler/opening', 'scheduler/rooms'],
  ],
  'scheduler/rooms': [
    ...['clock', 'config', 'errors', 'exact', 'fleet', 'link', 'trace', 'turn'],
    ...['destinations', 'intake', 'opening', 'terms', 'turns', 'watchers'].map(
      (name) => `scheduler/${name}`,
    ),
  ],
  'scheduler/terms': ['config'],
  'scheduler/opening': ['clock', 'config', 'errors', 'link', 'native', 'trace'],
  'scheduler/intake': [
    ...['argument', 'config', 'dialects', 'errors', 'link', 'turn'],
    'scheduler/terms',
  ],
  'scheduler/turns': [
    ...['clock', 'config', 'errors', 'exact', 'link', 'telemetry', 'trace', 'turn'],
    ...['scheduler/intake', 'scheduler/terms'],
  ],
  'scheduler/destinations': [
    ...['dialects', 'errors', 'forward', 'identity', 'link', 'native', 'turn'],
    'scheduler/terms',
  ],
  'scheduler/watchers': ['config', 'engine-load', 'engine-pull', 'link', 'pool-watch'],
  index: [
    'config',
    'dialects',
    'errors',
    'fleet',
    'forward',
    'identity',
    'link',
    'platform',
    'scheduler',
    'scheduler/destinations',
    'telemetry',
    'trace',
    'turn',
  ],
  engines: [],
  testing: ['simulation'],
  gateway: ['index'],
  cli: ['errors', 'index', 'gateway', 'demo', 'engines', 'replay', 'workload'],
  replay: ['index', 'cli', 'demo', 'workload'],
  evidence: ['demo', 'gateway', 'replay', 'testing', 'workload'],
  demo: ['index', 'gateway', 'testing', 'cli'],
}

/** Crates and the crates of the workspace that each may depend on. */
const CRATES: Record<string, readonly string[]> = {
  body: [],
  xxh3: [],
  core: ['body', 'xxh3'],
  sim: ['core', 'trace'],
  trace: ['core'],
  wire: ['core'],
  feed: ['core', 'wire'],
  node: ['body', 'core', 'feed', 'sim', 'trace'],
}

function filesBelow(folder: string, keep: (name: string) => boolean): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name)
    if (statSync(path).isDirectory()) return filesBelow(path, keep)
    return keep(name) ? [path] : []
  })
}

function roomOf(path: string): string {
  const [first = '', ...rest] = relative(join(root, 'src'), path).split('/')
  if (rest.length === 0) return plain(first)
  return first === 'scheduler' ? `${first}/${plain(rest.join('/'))}` : first
}

function plain(file: string): string {
  return basename(file).replace(/\..*$/, '')
}

/** Static and dynamic imports of other files of this package. */
function imports(path: string): string[] {
  const text = readFileSync(path, 'utf8')
  return [...text.matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)].map((match) =>
    normalize(join(dirname(path), match[1] ?? '')),
  )
}

const sources = filesBelow(join(root, 'src'), (name) => /\.m?ts$/.test(name))

test('each room of src imports only the rooms that it may know', (t) => {
  for (const path of sources) {
    const room = roomOf(path)
    const allowed = ROOMS[room]
    if (allowed === undefined) {
      t.fail(`${relative(root, path)}: no rule for the room "${room}"`)
      continue
    }
    for (const target of imports(path)) {
      if (!target.startsWith(join(root, 'src'))) continue
      const known = roomOf(target)
      t.true(known === room || allowed.includes(known), `${relative(root, path)} imports ${known}`)
    }
  }
})

test('only native.ts imports the generated loader', (t) => {
  const loader = join(root, 'index.js')
  const importers = sources.filter((path) => imports(path).includes(loader))
  t.deepEqual(importers.map(roomOf).sort(), ['native'])
})

test('each crate depends only on the crates that it may know', (t) => {
  const crates = readdirSync(join(root, 'crates')).sort()
  t.deepEqual(crates, Object.keys(CRATES).sort())
  for (const [crate, allowed] of Object.entries(CRATES)) {
    const manifest = readFileSync(join(root, 'crates', crate, 'Cargo.toml'), 'utf8')
    const dependencies = manifest.split('[dev-dependencies]')[0] ?? ''
    for (const match of dependencies.matchAll(/^warmpath-(\w+)/gm)) {
      t.true(allowed.includes(match[1] ?? ''), `${crate} depends on ${match[1]}`)
    }
  }
})

test('the core has no clock, no I/O, no thread and no unsafe code', (t) => {
  const folder = join(root, 'crates/core/src')
  t.regex(readFileSync(join(folder, 'lib.rs'), 'utf8'), /#!\[forbid\(unsafe_code\)\]/)
  const forbidden = /\b(std::(time|thread|fs|net|io|process|env)\b|Instant::now|SystemTime)/
  for (const path of filesBelow(folder, (name) => name.endsWith('.rs'))) {
    const code = readFileSync(path, 'utf8').replace(/\/\/.*$/gm, '')
    t.notRegex(code, forbidden, relative(root, path))
  }
})

test('every subpath that the package exports exists as a source', (t) => {
  const manifest: { exports: Record<string, unknown> } = JSON.parse(
    readFileSync(join(root, 'package.json'), 'utf8'),
  )
  const files = JSON.stringify(manifest.exports).match(/\.\/dist\/[^"]+/g) ?? []
  t.true(files.length > 0)
  for (const file of files) {
    const source = file.replace('./dist/', 'src/').replace(/\.(d\.)?(m?)[jt]s$/, '.$2ts')
    t.true(
      sources.includes(join(root, source)),
      `${file} would be built from ${source}, which is not there`,
    )
  }
})
