/**
 * What an engine answers beside turns: its text, up to a bound, and why there is none. Trusts nothing.
 */

/** Throws a RangeError beyond so many UTF-16 units, and what the connection throws. */
export async function boundedText(response: Response, most: number): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const piece of response.body ?? []) {
    text += decoder.decode(piece, { stream: true })
    if (text.length > most) throw new RangeError('the answer is too long')
  }
  return text + decoder.decode()
}

/** The system's code; else the words of whoever gave up, since `fetch` itself only says that it failed. */
export function causeOf(error: Error): string {
  const { code, message } = (error.cause ?? error) as { code?: unknown; message?: string }
  return typeof code === 'string' ? code : (message ?? error.name)
}

/** A text, or why there is none; with the status where there was one that is no success. */
export type Answer =
  | { readonly text: string; readonly error?: undefined; readonly status?: undefined }
  | { readonly text?: undefined; readonly error: string; readonly status?: number }

export interface AskLimits {
  readonly timeoutMs: number
  /** UTF-16 units. */
  readonly mostChars: number
  /** Ends the question early. */
  readonly signal: AbortSignal
  /** For this address and no other. */
  readonly headers?: Readonly<Record<string, string>>
}

/** Asks once, follows nobody elsewhere, and throws nothing. */
export async function askedText(url: string, limits: AskLimits): Promise<Answer> {
  const ender = new AbortController()
  const end = () => ender.abort()
  const timer = setTimeout(end, limits.timeoutMs).unref()
  limits.signal.addEventListener('abort', end, { once: true })
  try {
    const { headers = {} } = limits
    const response = await fetch(url, { headers, signal: ender.signal, redirect: 'manual' })
    const text = await boundedText(response, limits.mostChars)
    const { ok, status } = response
    return ok ? { text } : { error: `status ${status}`, status }
  } catch (error) {
    return { error: ender.signal.aborted ? 'no answer in time' : causeOf(error as Error) }
  } finally {
    clearTimeout(timer)
    limits.signal.removeEventListener('abort', end)
  }
}
