/**
 * Can this process run the library, and what should its owner do if not?
 *
 * The first import of every entry: nothing newer than the oldest Node that may meet this file runs
 * before the version has been looked at. Other runtimes count by the Node version that they claim.
 */
import { WarmpathError } from './errors.js'

const OLDEST_NODE = [20, 19] as const
const SUPPORTED = 'Linux x64 and arm64 (glibc and musl), macOS x64 and arm64, Windows x64'

/** Throws UNSUPPORTED_PLATFORM for a version of Node that is too old. */
export function checkNode(version: string): void {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [oldest, feature] = OLDEST_NODE
  if (major > oldest || (major === oldest && minor >= feature)) return
  throw new WarmpathError(
    'WARMPATH_UNSUPPORTED_PLATFORM',
    `Node ${version} is too old: install Node ${OLDEST_NODE.join('.')} or newer`,
    { detail: { node: version, oldest: OLDEST_NODE.join('.') } },
  )
}

/** The error for a process whose native binary could not be loaded, for whatever reason. */
export function noBinary(cause: unknown): WarmpathError {
  const here = `${process.platform} ${process.arch}`
  return new WarmpathError(
    'WARMPATH_UNSUPPORTED_PLATFORM',
    `no native binary for ${here}; supported: ${SUPPORTED}. On one of these, install again with ` +
      'optional dependencies (no --omit=optional, no node_modules of another system); ' +
      'elsewhere, build from source',
    { cause, detail: { platform: process.platform, arch: process.arch } },
  )
}

checkNode(process.versions.node)
