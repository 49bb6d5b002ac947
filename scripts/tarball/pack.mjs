/**
 * Packs what a release would publish, for this platform only: the root package and the one with the
 * binary, as two tarballs. Works on a copy, since the optional dependency on the binary's package
 * exists in the published manifest only. Needs what `npm run build` makes.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { NapiCli, parseTriple } from '@napi-rs/cli'

export const root = join(import.meta.dirname, '..', '..')

const STAGED = ['dist', 'index.js', 'index.d.ts', 'README.md', 'LICENSE']

/** Runs npm; what it says on standard output. */
export function npm(args, cwd) {
  // Windows finds npm's command file through a shell only.
  const shell = process.platform === 'win32'
  return execFileSync('npm', args, {
    cwd,
    shell,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

/** Packs a folder; the path of the tarball. */
export function packFolder(folder, out) {
  const args = ['pack', '--ignore-scripts', '--json', '--pack-destination', out]
  const [{ filename }] = JSON.parse(npm(args, folder))
  return join(out, filename)
}

/** How the binary's file and package are called on this machine. */
function hostAbi() {
  const libc = process.report.getReport().header.glibcVersionRuntime ? 'gnu' : 'musl'
  const abi = { linux: libc, win32: 'msvc' }[process.platform]
  return [process.platform, process.arch, abi].filter(Boolean).join('-')
}

/** Packs both into `out`, by way of the folder `stage`. */
export async function pack(stage, out) {
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const abi = hostAbi()
  const name = `${manifest.napi.binaryName}.${abi}.node`
  const target = manifest.napi.targets.find((each) => parseTriple(each).platformArchABI === abi)
  for (const each of STAGED) cpSync(join(root, each), join(stage, each), { recursive: true })
  manifest.napi.targets = [target]
  writeFileSync(join(stage, 'package.json'), JSON.stringify(manifest, null, 2))
  const cli = new NapiCli()
  await cli.createNpmDirs({ cwd: stage })
  const artifacts = join(stage, 'artifacts')
  mkdirSync(artifacts)
  cpSync(join(root, name), join(artifacts, name))
  await cli.artifacts({ cwd: stage })
  await cli.prePublish({
    cwd: stage,
    tagStyle: 'npm',
    ghRelease: false,
    skipOptionalPublish: true,
  })
  mkdirSync(out, { recursive: true })
  const platform = packFolder(join(stage, 'npm', abi), out)
  return { root: packFolder(stage, out), platform, platformName: `${manifest.name}-${abi}` }
}
