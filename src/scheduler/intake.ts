/**
 * Question: what does a request ask of the core?
 *
 * Reads it once, where prompts lie, and makes the frame of one native call: which targets its model name
 * means, whose session it is, what its prompt is. A body of which the core recalls the beginning is asked
 * for with the rest only, and read whole if that was not enough. Takes no decision, and keeps nothing of a
 * request but the memory that the next one is read into.
 */
import { refuseArgument } from '../argument.js'
import { asksForImages } from '../config/index.js'
import { TextSink } from '../dialects/index.js'
import { WarmpathError } from '../errors.js'
import { NO_TEXT, type Origin, PromptKind, type TurnFrame } from '../link/frame.js'
import { type Candidate, candidatesOf } from '../link/report.js'
import type { Link, Placement } from '../link.js'
import { canStrip, needsOf } from '../turn/needs.js'
import { type Break, breaksAt, ownerBook } from '../turn/portability.js'
import {
  type ReadRequest,
  type Recall,
  type RequestRules,
  readRequest,
  readWhole,
  routeOf,
  type TurnRequest,
} from '../turn/request.js'
import { refuseStrangers } from '../turn/strangers.js'
import type { Terms } from './terms.js'

/** A turn that the core has taken in. */
export interface Taken {
  readonly read: ReadRequest
  readonly placement: Placement
}

export class Intake {
  readonly #link: Link
  readonly #terms: Terms
  readonly #rules: RequestRules
  /** Whether anybody looks at whether a prompt has images. */
  readonly #asksForImages: boolean
  readonly #recall: Recall = (...body) => this.#link.recall(...body)
  /** Where prompts lie; absent while one does. */
  #sink: TextSink | undefined

  constructor(link: Link, terms: Terms, rules: RequestRules) {
    this.#link = link
    this.#terms = terms
    this.#rules = rules
    this.#asksForImages = asksForImages(terms.config)
  }

  /**
   * Reads the request and asks the core. `isWhole`: a trace tells the lengths of all segments, so nothing
   * is left to be recalled.
   */
  take(request: TurnRequest, origin: Origin, isWhole: boolean): Taken {
    return this.#withSink((sink) => {
      const isText = request.tokens === undefined && request.hashes === undefined
      const recall = isText && !isWhole ? this.#recall : undefined
      const read = readRequest(request, this.#rules, sink, recall)
      this.#refuseStrangers(read)
      const placement = this.#link.submit(this.#frame(request, read, origin))
      if (placement !== undefined) return { read, placement }
      const whole = readWhole(read, sink)
      const again = this.#link.submit(this.#frame(request, whole, origin))
      if (again !== undefined) return { read: whole, placement: again }
      throw new WarmpathError('WARMPATH_PANIC', 'a whole prompt was taken for a recalled one')
    })
  }

  /** Throws UNKNOWN_ID for what leans on what a provider stores for somebody else. */
  check(request: TurnRequest): void {
    this.#withSink((sink) => this.#refuseStrangers(readRequest(request, this.#rules, sink)))
  }

  candidates(request: TurnRequest): Candidate[] {
    const found = this.#withSink((sink) => {
      const read = readRequest(request, this.#rules, sink)
      return this.#link.candidates(this.#frame(request, read, 'given'))
    })
    return candidatesOf(found, this.#link.topology)
  }

  /** What sending it to the target of that name would break. Throws UNKNOWN_ID. */
  breaks(request: TurnRequest, target: string): Break[] {
    const known = this.#link.fresh().targetByName(target)
    return this.#withSink((sink) => {
      const read = readRequest(request, this.#rules, sink)
      const frame = this.#frameOf(request, read, [known.name], 'given')
      const tokens = this.#link.promptTokens(frame)
      return breaksAt(read, tokens, known, ownerBook(this.#link, read.tenant))
    })
  }

  #refuseStrangers({ facts, tenant, model, dialect }: ReadRequest): void {
    if (facts === undefined || facts.state.length === 0) return
    const { config, catalog } = this.#terms
    if (config.identity.unknownState === 'pass') return
    const names = catalog.targetsFor(model, dialect.name)
    refuseStrangers(facts.state, names, this.#link.topology, ownerBook(this.#link, tenant))
  }

  /** What a request runs may submit another one, which then gets a sink of its own. */
  #withSink<T>(use: (sink: TextSink) => T): T {
    const sink = this.#sink ?? new TextSink(this.#rules.bodyBytes)
    this.#sink = undefined
    try {
      return use(sink)
    } finally {
      this.#sink = sink
    }
  }

  #frame(request: TurnRequest, read: ReadRequest, origin: Origin): TurnFrame {
    const names = this.#terms.catalog.targetsFor(read.model, read.dialect.name)
    return this.#frameOf(request, read, names, origin)
  }

  #frameOf(
    request: TurnRequest,
    read: ReadRequest,
    names: readonly string[],
    origin: Origin,
  ): TurnFrame {
    const { facts, identity, tenant, recalled } = read
    const { topology } = this.#link
    const exact = request.tokens ?? request.hashes
    const { base } = request
    if (base !== undefined && !names.includes(base)) refuseArgument('base', names.join(', '))
    return {
      final: identity.final,
      stream: facts?.stream ?? false,
      kind: kindOf(request, read),
      ticket: recalled?.ticket,
      exact,
      maxOutputTokens: facts?.maxOutputTokens ?? 0,
      tenant,
      session: identity.session ?? '',
      parent: identity.parent ?? '',
      route: routeOf(request),
      cacheSalt: this.#saltOf(read),
      drift: request.drift ?? false,
      priority: request.priority ?? 0,
      base: base === undefined ? undefined : topology.targetByName(base).index,
      canStrip: canStrip(read),
      origin,
      needs: needsOf(read, this.#asksForImages),
      targets: names.map((name) => topology.targetByName(name).index),
      toolResults: facts?.toolResults ?? [],
      state: facts?.state ?? [],
      prompt:
        facts === undefined || exact !== undefined
          ? NO_TEXT
          : {
              bytes: facts.prompt.bytes,
              ends: facts.prompt.ends,
              volatile: facts.volatile,
              breakpoints: facts.breakpoints,
              contents: facts.contents,
            },
    }
  }

  /** What sets the turn's blocks apart: where there is one target for all models, the model too. */
  #saltOf({ model, facts }: ReadRequest): string {
    const salt = facts?.cacheSalt ?? ''
    if (model === undefined || !this.#terms.config.takesAnyModel) return salt
    return `${model}\0${salt}`
  }
}

function kindOf(request: TurnRequest, { recalled }: ReadRequest): TurnFrame['kind'] {
  if (request.tokens !== undefined) return PromptKind.tokens
  if (request.hashes !== undefined) return PromptKind.hashes
  return recalled === undefined ? PromptKind.text : PromptKind.recalled
}
