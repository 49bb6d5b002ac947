/**
 * Question: by what tokens is this request known, if by any?
 *
 * Asked before a turn is decided, and only where the options want it: by a function of the caller's, or
 * by an engine that could serve the turn, which gets the bytes that the turn will be sent with. Nobody is
 * waited for longer than `tokens.timeoutMs`; another engine is tried once while there is time. Where there
 * are no tokens the turn is known by its text, and its receipt says why.
 *
 * Tokens are of one model: a request that could go to several groups of workers is known by its text.
 * Where they are learnt from answers nobody is asked: the core knows what it has been told of each target.
 * Cost: parsing the body, which is not parsed again, and what is asked.
 */
import type { Catalog, Logger, TokenSettings } from './config/index.js'
import { type Dialect, dialectOf, hasImages } from './dialects/index.js'
import { type NoTokens, TokenSourceOfEngine } from './engines/index.js'
import { requestHeaders, upstreamUrl } from './forward/index.js'
import { readHeaders } from './identity/index.js'
import type { Origin } from './link/frame.js'
import { PerWorker } from './link/per-worker.js'
import type { KnownTarget, KnownWorker } from './link/topology.js'
import type { Link } from './link.js'
import { native } from './native.js'
import { type DisagreementMessage, published } from './telemetry/index.js'
import { onAbort } from './turn/abort.js'
import { parseBody } from './turn/bounds.js'
import { decodeBody } from './turn/encoding.js'
import { abortError } from './turn/hold.js'
import type { TurnRequest } from './turn/request.js'
import { sentBody } from './turn/sent.js'

export interface ExactParts {
  readonly link: Link
  readonly settings: TokenSettings
  readonly bodyBytes: number
  readonly forwardHeaders: readonly string[]
  readonly logger: Logger | undefined
}

/** A request with its tokens, or with why there are none. */
export interface Known {
  readonly request: TurnRequest
  readonly origin: Origin
}

/** What is asked for the tokens of. */
interface Prompt {
  readonly request: TurnRequest
  readonly dialect: Dialect
  readonly body: Record<string, unknown>
  /** As it came, without content encodings. */
  readonly raw: TurnRequest['raw']
  readonly target: KnownTarget
}

interface Limit {
  readonly signal: AbortSignal
  readonly isOver: () => boolean
  end(): void
}

/** An engine that cannot be reached leaves time for another. */
const ENGINES = 2

export class Exact {
  readonly #parts: ExactParts
  readonly #engines = new PerWorker(() => new TokenSourceOfEngine(() => performance.now()))
  /** Groups whose disagreement has been told. */
  readonly #said = new Set<number>()
  readonly #closing = new AbortController()
  #turn = 0

  constructor(parts: ExactParts) {
    this.#parts = parts
  }

  /** Nobody is waited for any more: what is asked ends at once, with no tokens. */
  close(): void {
    this.#closing.abort()
  }

  /** Throws what the body and the model's name are refused with, and ABORTED. */
  async know(request: TurnRequest, catalog: Catalog): Promise<Known> {
    const dialect = request.tokens || request.hashes ? undefined : dialectOf(request.path)
    if (dialect === undefined || this.#closing.signal.aborted) return { request, origin: 'given' }
    const { raw, body } = this.#read(request)
    if (body === undefined) return { request, origin: 'given' }
    const known = { ...request, body }
    const model = request.model ?? (typeof body.model === 'string' ? body.model : undefined)
    const { topology } = this.#parts.link
    const targets = catalog
      .targetsFor(model, dialect.name)
      .map((name) => topology.targetByName(name))
    const [target] = targets
    if (target === undefined || targets.every(({ tokens }) => tokens === 'text')) {
      return { request: known, origin: 'given' }
    }
    if (targets.every(({ tokens }) => tokens === 'text' || tokens === 'answers')) {
      return { request: known, origin: this.#ofAnswers(targets, dialect, body) }
    }
    const isOne = targets.every(
      ({ group, tokens }) => group === target.group && tokens === target.tokens,
    )
    if (!isOne) return { request: known, origin: 'models' }
    if (this.#disagrees(target)) return { request: known, origin: 'disagreement' }
    if (hasImages(body, dialect.items)) return { request: known, origin: 'media' }
    const tokens = await this.#ask({ request, dialect, body, raw, target })
    if (request.signal?.aborted) throw abortError(request.signal)
    if (tokens instanceof Uint32Array) {
      const origin = target.tokens === 'engine' ? 'engine' : 'tokenizer'
      return { request: { ...known, tokens }, origin }
    }
    this.#parts.logger?.debug({ target: target.name, why: tokens }, 'no tokens: known by its text')
    return { request: known, origin: tokens }
  }

  /** Whether its text may be known by what earlier answers said: each target's by those of its own. */
  #ofAnswers(
    targets: readonly KnownTarget[],
    dialect: Dialect,
    body: Record<string, unknown>,
  ): Origin {
    // No other API of vLLM's tells tokens.
    if (dialect.name !== 'openai-chat') return 'unsupported'
    if (hasImages(body, dialect.items)) return 'media'
    const asking = targets.filter(({ tokens }) => tokens === 'answers')
    const agreeing = asking.filter((target) => !this.#disagrees(target))
    return agreeing.length === 0 ? 'disagreement' : 'answers'
  }

  /** Whether the group's events have turned out to be of other tokens; said once, until that is over. */
  #disagrees({ group, name }: KnownTarget): boolean {
    const { link, logger } = this.#parts
    const json = link.read((handle) => native.groupDisagreement(handle, group))
    if (json === null) {
      this.#said.delete(group)
      return false
    }
    if (this.#said.has(group)) return true
    this.#said.add(group)
    const { worker, cause, ours, theirs } = JSON.parse(json) as DisagreementMessage
    const found = { worker, cause, ours, theirs }
    published.disagreement(found)
    logger?.warn(
      { ...found, target: name },
      'prompts and events speak of different tokens: prompts are known by their text',
    )
    return true
  }

  /** No body: what is refused later. */
  #read({ raw, body, headers }: TurnRequest) {
    const encodings = readHeaders(headers).get('content-encoding')
    const decoded =
      raw === undefined ? undefined : decodeBody(raw, encodings, this.#parts.bodyBytes)
    if (body === undefined) return { raw: decoded, body: decoded ? parseBody(decoded) : undefined }
    const isObject = typeof body === 'object' && body !== null && !Array.isArray(body)
    return { raw: decoded, body: isObject ? (body as Record<string, unknown>) : undefined }
  }

  async #ask(prompt: Prompt): Promise<Uint32Array | NoTokens> {
    const enders = [prompt.request.signal, this.#closing.signal]
    const limit = limitOf(this.#parts.settings.timeoutMs, enders)
    try {
      return prompt.target.tokens === 'engine'
        ? await this.#askEngines(prompt, limit)
        : await this.#askCaller(prompt, limit)
    } finally {
      limit.end()
    }
  }

  async #askCaller(
    { request, body, target }: Prompt,
    { signal }: Limit,
  ): Promise<Uint32Array | NoTokens> {
    const { tokenize } = this.#parts.settings
    if (tokenize === undefined) return 'unsupported'
    try {
      const asked = tokenize({ path: request.path, body, model: target.model })
      const tokens = await Promise.race([asked, aborted(signal)])
      if (tokens === 'late') return 'late'
      if (tokens === undefined) return 'unsupported'
      return tokens instanceof Uint32Array && tokens.length > 0 ? tokens : 'failed'
    } catch (cause) {
      this.#parts.logger?.warn({ cause }, 'the tokenizer fails')
      return 'failed'
    }
  }

  async #askEngines(prompt: Prompt, limit: Limit): Promise<Uint32Array | NoTokens> {
    const { topology } = this.#parts.link
    const workers = topology.workersOf(prompt.target.group)
    let found: Uint32Array | NoTokens = 'resting'
    let asked = 0
    this.#turn += 1
    for (let at = 0; at < workers.length && asked < ENGINES && !limit.isOver(); at += 1) {
      const worker = workers[(this.#turn + at) % workers.length]
      const engine = worker && this.#engines.of(topology, worker)
      if (worker === undefined || engine === undefined || engine.rests) continue
      asked += 1
      found = await engine.ask({ ...this.#requestTo(worker, prompt), signal: limit.signal })
      if (found !== 'failed') return found
    }
    return found
  }

  #requestTo(worker: KnownWorker, { request, body, raw, target }: Prompt) {
    const { model } = target
    const isRenamed = model !== undefined && body.model !== model
    return {
      url: upstreamUrl(worker.url, request.path),
      headers: requestHeaders({
        client: readHeaders(request.headers),
        auth: target.auth,
        worker: worker.headers,
        extra: this.#parts.forwardHeaders,
      }),
      body: sentBody(body, raw, isRenamed ? [{ name: 'model', value: model }] : []),
    }
  }
}

/** Over after so many milliseconds, or when the client leaves or all is closed. Keeps no process alive. */
function limitOf(ms: number, enders: readonly (AbortSignal | undefined)[]): Limit {
  const ender = new AbortController()
  const timer = setTimeout(() => ender.abort(), ms).unref()
  const unhear = enders.map((each) => onAbort(each, () => ender.abort()))
  return {
    signal: ender.signal,
    isOver: () => ender.signal.aborted,
    end: () => {
      clearTimeout(timer)
      for (const each of unhear) each()
    },
  }
}

function aborted(signal: AbortSignal): Promise<'late'> {
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve('late'), { once: true })
  })
}
