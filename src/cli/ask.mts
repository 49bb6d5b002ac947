/**
 * Question: what does a running gateway answer to a GET?
 *
 * For the commands that look at one. Every way to fail is a WarmpathError whose message says what a
 * person can do about it; the address in it is the user's own. What answers but is no gateway of ours
 * is told as such: its JSON may have any shape.
 */
import { ERROR_CODES, WarmpathError } from '../index.js'

const LIMIT_MS = 10_000
const DEFAULT_URL = 'http://127.0.0.1:8088'

/**
 * The JSON object of an answer below 300, which has `members`. Throws WARMPATH_CONFIG for a bad
 * address, what the gateway itself answered as an error, else WARMPATH_UPSTREAM.
 */
async function ask(base: string, path: string, members: readonly string[]): Promise<unknown> {
  const response = await get(base, path)
  const value = objectIn(await response.text())
  if (value === undefined) throw stranger(base, `status ${response.status} and no JSON object`)
  if (response.ok) {
    if (members.every((member) => member in value)) return value
    throw stranger(base, `JSON that has no ${members.filter((m) => !(m in value)).join(', ')}`)
  }
  const { code, message } = (value.error ?? {}) as { code?: unknown; message?: unknown }
  const known = ERROR_CODES.find((each) => each === code)
  if (known === undefined) throw stranger(base, `status ${response.status}`)
  throw new WarmpathError(known, String(message))
}

function objectIn(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null) return undefined
    return value as Record<string, unknown>
  } catch {
    return undefined
  }
}

function stranger(base: string, answer: string): WarmpathError {
  const message = `${base} is no Warmpath gateway: it answered with ${answer}`
  return new WarmpathError('WARMPATH_UPSTREAM', message)
}

async function get(base: string, path: string): Promise<Response> {
  let url: URL
  try {
    url = new URL(base.replace(/\/*$/, path))
  } catch {
    throw new WarmpathError('WARMPATH_CONFIG', `--url must be an address such as ${DEFAULT_URL}`)
  }
  try {
    return await fetch(url, { signal: AbortSignal.timeout(LIMIT_MS) })
  } catch (error) {
    const cause = (error as Error).cause as { code?: string; message?: string } | undefined
    const why = cause?.code ?? cause?.message ?? (error as Error).name
    throw new WarmpathError('WARMPATH_UPSTREAM', `cannot reach a gateway at ${base} (${why})`)
  }
}

export { ask, DEFAULT_URL }
