/**
 * The address of an upstream request: a worker's base and the client's path.
 *
 * A client's path may carry the prefix under which a gateway mounts its APIs; only its end says
 * what is asked, so only that is sent on, with the query. A base may carry a prefix of its own, and
 * people write the version segment in it or leave it out; both mean the same address.
 */
import { checkString } from '../argument.js'
import { isSecretName } from '../config/index.js'

const TURN = /(?:^|\/)(chat\/completions|responses(?:\/compact)?|messages)\/*(\?[^#]*)?(?:#.*)?$/
const VERSIONED = /\/v\d+$/

/**
 * `base` without a trailing slash. Paths that ask for no turn are appended as they are. Throws
 * INVALID_ARGUMENT.
 */
export function upstreamUrl(base: string, path: string): string {
  checkString(base, 'base')
  checkString(path, 'path')
  const versioned = VERSIONED.test(base)
  const turn = TURN.exec(path)
  if (turn !== null) return `${base}${versioned ? '' : '/v1'}/${turn[1]}${turn[2] ?? ''}`
  return base + (versioned ? path.replace(/^\/v\d+(?=[/?]|$)/, '') : path)
}

/** The path without what of its query proves who asks: the rest as it was. */
export function withoutCredentials(path: string): string {
  const at = path.indexOf('?')
  if (at === -1) return path
  const kept = path
    .slice(at + 1)
    .split('&')
    .filter((member) => !isSecretName(nameOf(member)))
  return path.slice(0, at) + (kept.length > 0 ? `?${kept.join('&')}` : '')
}

function nameOf(member: string): string {
  const name = member.split('=', 1)[0] ?? ''
  try {
    return decodeURIComponent(name)
  } catch {
    return name
  }
}
