/** Installs the agents from npm, each version once, into a folder that may be kept. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export function install(folder, client) {
  const at = join(folder, 'node_modules', client.package)
  mkdirSync(folder, { recursive: true })
  if (installedVersion(at) !== client.version) {
    const spec = `${client.package}@${client.version}`
    process.stderr.write(`installing ${spec}\n`)
    run('npm', ['install', '--prefix', folder, '--no-audit', '--no-fund', '--save-exact', spec])
    if (client.postinstall) run(process.execPath, [join(at, client.postinstall)], at)
  }
  return join(folder, 'node_modules/.bin')
}

function installedVersion(at) {
  const manifest = join(at, 'package.json')
  return existsSync(manifest) ? JSON.parse(readFileSync(manifest, 'utf8')).version : undefined
}

function run(command, args, cwd) {
  const { status } = spawnSync(command, args, { cwd, stdio: ['ignore', 'ignore', 'inherit'] })
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${status}`)
}
