/** The responses that a later request may continue; the oldest are forgotten beyond the limit. */
import { isRecord, type Json, list } from './json.js'
import { inputItems } from './responses.js'

interface Stored {
  response: Json
  /** The whole conversation up to and including the answer. */
  items: readonly unknown[]
}

class ResponseStore {
  readonly #stored = new Map<string, Stored>()

  constructor(readonly limit = 1000) {}

  /** Keeps a response, unless its request said not to. */
  add(id: string, request: Json, response: Json): void {
    if (request.store === false) return
    const previous = request.previous_response_id
    const earlier = typeof previous === 'string' ? (this.items(previous) ?? []) : []
    const output = list(response.output).filter(isRecord)
    this.#stored.set(id, { response, items: [...earlier, ...inputItems(request), ...output] })
    for (const oldest of this.#stored.keys()) {
      if (this.#stored.size <= this.limit) return
      this.#stored.delete(oldest)
    }
  }

  response(id: string): Json | undefined {
    return this.#stored.get(id)?.response
  }

  items(id: string): readonly unknown[] | undefined {
    return this.#stored.get(id)?.items
  }
}

export { ResponseStore }
