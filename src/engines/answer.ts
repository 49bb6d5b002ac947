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
