/** Reads a request's JSON body within a limit. */
import type { IncomingMessage } from 'node:http'

import { isRecord, type Json } from './json.js'
import { invalid, Refusal } from './wire.js'

/** Rejects with a `Refusal`: 413 beyond the limit, 400 for what is no JSON object. */
async function readJson(request: IncomingMessage, limit: number): Promise<Json> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request) {
    const bytes = chunk as Buffer
    size += bytes.length
    // What is too much is still taken off the wire: a connection that breaks tells the client less.
    if (size <= limit) chunks.push(bytes)
  }
  if (size > limit) {
    throw new Refusal(413, `The body is larger than ${limit} bytes.`, 'request_too_large')
  }
  let value: unknown
  try {
    value = JSON.parse(Buffer.concat(chunks).toString('utf8'))
  } catch {
    throw invalid('The body is not valid JSON.')
  }
  if (!isRecord(value)) throw invalid('The body must be a JSON object.')
  return value
}

export { readJson }
