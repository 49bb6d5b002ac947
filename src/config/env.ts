/**
 * Credentials that are named in a configuration instead of written in it.
 *
 * `env('NAME')` keeps the name only; the value is read once, when a scheduler is constructed, so a
 * missing variable fails at start and not at the first request.
 */

export interface EnvCredential {
  readonly env: string
}

/** A credential that is read from the environment variable `name` at construction. */
export function env(name: string): EnvCredential {
  return { env: name }
}
