/**
 * Question: what tokens does this engine make of a request?
 *
 * The request goes to the engine's own renderer with the bytes that the turn will be sent with, since
 * anything that is written anew may read otherwise: first to `<path>/render`, which vLLM and its router
 * have, then to `/tokenize`, which vLLM and SGLang have for chats. Which of them an engine has is
 * remembered for a while. An engine that fails several times in a row is left alone, each time longer.
 *
 * Knows no scheduler; never throws. Cost: a request to the engine and a pass over its answer.
 */
import { boundedText } from './answer.js'

/** Why there are no tokens, in the words of receipts. */
export type NoTokens = 'late' | 'resting' | 'refused' | 'failed' | 'unsupported' | 'media'

export interface TokenRequest {
  /** Address of the turn's own request. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array<ArrayBuffer>
  /** Aborted when it has taken too long. */
  readonly signal: AbortSignal
}

type Answer = Uint32Array | NoTokens

/** Failures in a row before an engine is left alone. */
const PATIENCE = 3
const FIRST_REST_MS = 1_000
const LONGEST_REST_MS = 60_000
/** How long an engine is believed to have no renderer: it may be replaced by a newer one. */
const FORGET_MS = 600_000
/** No prompt's tokens are longer. */
const MAX_ANSWER = 256 << 20
const MAX_TOKEN = 0xffff_ffff
/** Answers of servers that have no such endpoint, or do not let us use it. */
const NO_SUCH = new Set([403, 404, 405, 501])
const MAX_ADDRESSES = 64

/** One engine that is asked for tokens. */
export class TokenSourceOfEngine {
  readonly #now: () => number
  #failures = 0
  #restsUntil = 0
  /** Addresses that it does not have, and until when that is believed. */
  readonly #lacks = new Map<string, number>()

  constructor(now: () => number) {
    this.#now = now
  }

  get rests(): boolean {
    return this.#now() < this.#restsUntil
  }

  async ask(request: TokenRequest): Promise<Answer> {
    for (const url of addresses(request.url)) {
      if ((this.#lacks.get(url) ?? 0) > this.#now()) continue
      const answer = await askAt(url, request)
      if (answer !== 'unsupported') {
        this.#learn(answer)
        return answer
      }
      if (this.#lacks.size >= MAX_ADDRESSES) this.#lacks.clear()
      this.#lacks.set(url, this.#now() + FORGET_MS)
    }
    return 'unsupported'
  }

  #learn(answer: Answer): void {
    if (answer !== 'late' && answer !== 'failed') {
      this.#failures = 0
      return
    }
    this.#failures += 1
    const more = this.#failures - PATIENCE
    if (more < 0) return
    this.#restsUntil = this.#now() + Math.min(FIRST_REST_MS * 2 ** more, LONGEST_REST_MS)
  }
}

/** Where the tokens of a request to `turn` may be had, the surest first. */
function addresses(turn: string): string[] {
  const bare = turn.replace(/[?#].*$/, '')
  const [, base] = /^(.*?)(?:\/v\d+)?\/chat\/completions$/.exec(bare) ?? []
  return base === undefined ? [`${bare}/render`] : [`${bare}/render`, `${base}/tokenize`]
}

async function askAt(url: string, { headers, body, signal }: TokenRequest): Promise<Answer> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body,
      signal,
      redirect: 'manual',
    })
    if (response.ok) return readTokens(await boundedText(response, MAX_ANSWER))
    await response.body?.cancel()
    if (NO_SUCH.has(response.status)) return 'unsupported'
    return response.status < 500 ? 'refused' : 'failed'
  } catch {
    return signal.aborted ? 'late' : 'failed'
  }
}

/** Tokens of an answer of either endpoint; `media` where there is more in the prompt than these say. */
export function readTokens(text: string): Answer {
  let answer: Record<string, unknown>
  try {
    const read: unknown = JSON.parse(text)
    // Renders of several prompts come as a list; a turn has one.
    const one: unknown = Array.isArray(read) && read.length === 1 ? read[0] : read
    if (typeof one !== 'object' || one === null) return 'failed'
    answer = one as Record<string, unknown>
  } catch {
    return 'failed'
  }
  if (hasMedia(answer.features)) return 'media'
  return tokenList(answer.token_ids ?? answer.tokens) ?? 'failed'
}

/** The tokens that a value is a list of; undefined where it is none, or empty. */
export function tokenList(ids: unknown): Uint32Array | undefined {
  if (!Array.isArray(ids) || ids.length === 0) return undefined
  const tokens = new Uint32Array(ids.length)
  for (const [at, id] of ids.entries()) {
    if (!Number.isInteger(id) || id < 0 || id > MAX_TOKEN) return undefined
    tokens[at] = id
  }
  return tokens
}

function hasMedia(features: unknown): boolean {
  if (typeof features !== 'object' || features === null) return false
  const { mm_hashes: hashes } = features as { mm_hashes?: unknown }
  return typeof hashes === 'object' && hashes !== null && Object.keys(hashes).length > 0
}
