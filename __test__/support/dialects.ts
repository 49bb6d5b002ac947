/** The three dialects by name. */
import { type Dialect, dialectOf } from '../../src/dialects/index.js'

function get(path: string): Dialect {
  const found = dialectOf(path)
  if (found === undefined) throw new Error(path)
  return found
}

export const chat = get('/v1/chat/completions')
export const responses = get('/v1/responses')
export const anthropic = get('/v1/messages')
