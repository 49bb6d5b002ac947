/**
 * Builds what is missing or older than its sources: packages, the addon, the TypeScript.
 *
 * The addon needs cargo, and this says so. Nothing is built twice; every step prints one line first.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = join(dirname(fileURLToPath(import.meta.url)), '..')
export const COMMAND_LINE = join(root, 'dist', 'cli', 'main.mjs')

/** Modification time of the newest file below `folder` with one of the endings; 0 if none. */
function newest(folder, endings) {
  let latest = 0
  for (const name of readdirSync(join(root, folder), { recursive: true })) {
    if (!endings.some((ending) => name.endsWith(ending))) continue
    latest = Math.max(latest, statSync(join(root, folder, name)).mtimeMs)
  }
  return latest
}

function addonTime() {
  const names = readdirSync(root).filter((name) => name.endsWith('.node'))
  return Math.max(0, ...names.map((name) => statSync(join(root, name)).mtimeMs))
}

/** Runs a command with its output in view; ends this process with its code when it fails. */
export function run(title, command, args) {
  process.stderr.write(`${title}\n`)
  // Windows finds npm's and npx's command files through a shell only.
  const shell = process.platform === 'win32'
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: 'inherit', shell })
  if (error) process.stderr.write(`could not start ${command}: ${error.message}\n`)
  if (status !== 0) process.exit(status ?? 1)
}

function cargoThere() {
  return spawnSync('cargo', ['--version'], { stdio: 'ignore' }).status === 0
}

/** Brings everything up to date. */
export function build() {
  if (!existsSync(join(root, 'node_modules'))) {
    run('Installing packages', 'npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'])
  }
  if (addonTime() < newest('crates', ['.rs', 'Cargo.toml'])) {
    if (!cargoThere()) {
      process.stderr.write(
        'The addon must be built and cargo is not there: see https://rustup.rs\n',
      )
      process.exit(1)
    }
    const script = ['run', '--silent', 'build:native']
    run('Building the addon (a few minutes the first time)', 'npm', script)
  }
  const built = existsSync(COMMAND_LINE) ? statSync(COMMAND_LINE).mtimeMs : 0
  if (built < newest('src', ['.ts', '.mts'])) {
    run('Building the TypeScript', 'npm', ['run', '--silent', 'build:ts'])
  }
}
