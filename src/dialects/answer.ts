/**
 * Collects what an answer says about itself, from one JSON body or event by event.
 *
 * Everything is bounded, since the other side decides how much there is. A usage field that was
 * good once stays: a later report replaces it only with another good value.
 */
import { countOf, digest, isObject, textOf } from './json.js'
import type { Json, ResponseFacts, ToolCall, Usage } from './types.js'

const MAX_ITEMS = 1024
const MAX_ID = 1024
const MAX_SEAL = 1 << 20
const MAX_MESSAGE = 200

class Answer {
  id: string | undefined
  finishReason: string | undefined
  error: string | undefined
  sequence: number | undefined
  firstToken = false
  ended = false
  /** The last event of its stream has come. */
  over = false
  readonly #calls = new Map<string, ToolCall>()
  readonly #state = new Set<string>()
  readonly #seals = new Map<number, string>()
  #usage: Usage = {}

  /** Takes the fields that are counts; the others stay as they were. */
  usage(report: Readonly<Record<keyof Usage, unknown>>): void {
    for (const name of ['promptTokens', 'cachedTokens', 'completionTokens'] as const) {
      const count = countOf(report[name])
      if (count !== undefined) this.#usage[name] = count
    }
  }

  /** A call, or a fragment of one: fragments with the same key are the same call. */
  call(key: string, id: unknown, name: unknown): void {
    const known = this.#calls.get(key)
    if (known === undefined && this.#calls.size >= MAX_ITEMS) return
    const call = known ?? { id: '' }
    if (call.id === '') call.id = shortOf(id) ?? ''
    const given = shortOf(name)
    if (call.name === undefined && given !== undefined) call.name = given
    this.#calls.set(key, call)
  }

  owns(kind: string, id: unknown): void {
    const name = shortOf(id)
    if (name !== undefined && this.#state.size < MAX_ITEMS) this.#state.add(`${kind}:${name}`)
  }

  /** Reasoning that only its maker can read or check. */
  ownsReasoning(seal: unknown): void {
    const value = textOf(seal)
    if (value !== undefined) this.owns('reasoning', digest(value))
  }

  /** A fragment of the signature of block `index`. */
  sealFragment(index: number, fragment: unknown): void {
    const value = textOf(fragment)
    const before = this.#seals.get(index) ?? ''
    if (value === undefined || before.length + value.length > MAX_SEAL) return
    if (before !== '' || this.#seals.size < MAX_ITEMS) this.#seals.set(index, before + value)
  }

  /** The signature of block `index` is complete. */
  sealDone(index: number): void {
    this.ownsReasoning(this.#seals.get(index))
    this.#seals.delete(index)
  }

  /** Takes the error of a body, if it is one in any of the shapes that servers use. */
  failed(body: Json): void {
    if (body.object === 'error') this.fail(body)
    // FastAPI's own errors, such as those of an unknown path, have nothing but a detail.
    else if ('detail' in body && Object.keys(body).length === 1) this.fail(body.detail)
    else this.fail(body.error)
  }

  /** An error by its code, type or message; nothing if `error` is none. */
  fail(error: unknown): void {
    if (error === undefined || error === null || error === false) return
    const first = isObject(error) ? [error.code, error.type, error.message] : [error]
    const named = first.find((v) => typeof v === 'number' || textOf(v) !== undefined)
    this.error = String(named ?? 'error').slice(0, MAX_MESSAGE)
    this.ended = true
  }

  facts(): ResponseFacts {
    const facts: ResponseFacts = {
      toolCalls: this.#toolCalls(),
      state: [...this.#state],
      firstToken: this.firstToken,
      ended: this.ended,
    }
    if (this.id !== undefined) facts.id = this.id
    if (this.finishReason !== undefined) facts.finishReason = this.finishReason
    if (this.sequence !== undefined) facts.sequence = this.sequence
    if (this.error !== undefined) facts.error = this.error
    const usage = this.#usageFacts()
    if (usage !== undefined) facts.usage = usage
    return facts
  }

  /** Each id once; a call that never got an id cannot be answered and is none. */
  #toolCalls(): ToolCall[] {
    const byId = new Map<string, ToolCall>()
    for (const call of this.#calls.values()) {
      if (call.id !== '' && !byId.has(call.id)) byId.set(call.id, { ...call })
    }
    return [...byId.values()]
  }

  #usageFacts(): Usage | undefined {
    const usage = { ...this.#usage }
    // More read than there was to read: one of the two is wrong, and the total is the surer one.
    if ((usage.cachedTokens ?? 0) > (usage.promptTokens ?? Infinity)) delete usage.cachedTokens
    return Object.keys(usage).length === 0 ? undefined : usage
  }
}

/** A name or id, unless it is absurdly long. */
function shortOf(value: unknown): string | undefined {
  const text = textOf(value)
  return text !== undefined && text.length <= MAX_ID ? text : undefined
}

export { Answer }
