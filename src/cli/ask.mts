/**
 * Question: what does a running gateway answer to a GET?
 *
 * For the commands that look at one. Every way to fail is a WarmpathError whose message says what a
 * person can do about it; the address in it is the user's own.
 */
import { WarmpathError } from '../index.js'

const LIMIT_MS = 10_000
const DEFAULT_URL = 'http://127.0.0.1:8088'

/** The JSON of an answer below 300. Throws WARMPATH_CONFIG for a bad address, else _UPSTREAM. */
async function ask(base: string, path: string): Promise<unknown> {
  const response = await get(base, path)
  const text = await response.text()
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    const what = `status ${response.status} and no JSON`
    throw new WarmpathError('WARMPATH_UPSTREAM', `${base} is no gateway: it answered with ${what}`)
  }
  if (response.ok) return value
  const message = (value as { error?: { message?: unknown } } | null)?.error?.message
  throw new WarmpathError('WARMPATH_UPSTREAM', String(message ?? `status ${response.status}`))
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
