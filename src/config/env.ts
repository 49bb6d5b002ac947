/**
 * Credentials that are named in a configuration instead of written in it.
 *
 * `env('NAME')` keeps the name only; the value is read once, when a scheduler is constructed, so a
 * missing variable fails at start and not at the first request.
 */

export interface EnvCredential {
  readonly env: string
}

import { fields, name, refuse } from './check.js'

/** A credential that is read from the environment variable `name` at construction. */
export function env(name: string): EnvCredential {
  return { env: name }
}

/** What `env('NAME')` stands for. Throws CONFIG when it is not one, or the variable is not set. */
export function fromEnvironment(
  value: EnvCredential,
  path: string,
  environment: NodeJS.ProcessEnv,
): string {
  const variable = name(fields(value, path, ['env']).env, `${path}.env`)
  const found = environment[variable]
  if (found === undefined || found.trim() === '') {
    refuse(path, `environment variable ${variable} must be set`)
  }
  return found
}
