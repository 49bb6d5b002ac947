/**
 * Question: where does what is no turn go, such as a count of tokens or a stored response?
 *
 * To a worker with an address, a model's name there and headers; no reservation is taken. O(workers).
 */
import type { DialectName } from '../dialects/index.js'
import { WarmpathError } from '../errors.js'
import { hasOwnCredential, requestHeaders } from '../forward/index.js'
import { type HeadersLike, readHeaders } from '../identity/index.js'
import { statusOf } from '../link/report.js'
import type { KnownTarget, KnownWorker } from '../link/topology.js'
import type { Link } from '../link.js'
import { native } from '../native.js'
import { sentBody } from '../turn/sent.js'
import type { Terms } from './terms.js'

/** A worker, and how to reach it with what is no turn. */
export interface Destination {
  readonly worker: string
  readonly target: string
  /** What the model is called there; absent when no name was given and the target has none. */
  readonly model?: string
  /** Base address of the worker. */
  readonly url: string
  /** Whether its headers have the target's or the worker's credential in place of the client's. */
  readonly hasOwnCredential: boolean
  /** Headers of a request to it on behalf of a client. */
  headers(client?: HeadersLike): Record<string, string>
  /**
   * The body of a request to it, with the model called as it is there. `raw` is what `body` was parsed
   * from, without content encodings: sent on as it came, but for that name. O(bytes).
   */
  body(body: Record<string, unknown>, raw?: Uint8Array | string): string | Uint8Array<ArrayBuffer>
}

export class Destinations {
  readonly #link: Link
  readonly #terms: Terms

  constructor(link: Link, terms: Terms) {
    this.#link = link
    this.#terms = terms
  }

  /** See `Scheduler.destination`. */
  of(model: string | undefined, dialect: DialectName | undefined): Destination {
    const topology = this.#link.fresh()
    const up = statusOf(this.#link).workers.filter((worker) => worker.health === 'up')
    for (const name of this.#terms.catalog.servingAny(model, dialect)) {
      const target = topology.targetByName(name)
      const [least] = up
        .filter(({ id }) => topology.workerById(id).group === target.group)
        .sort((a, b) => a.inFlight - b.inFlight)
      if (least) return this.#at(topology.workerById(least.id), target, model)
    }
    throw new WarmpathError('WARMPATH_NO_WORKER', 'no worker is up that could take this request')
  }

  /** Which worker keeps a stored response; undefined too when that has gone. */
  keeping(responseId: string, tenant: string): Destination | undefined {
    const topology = this.#link.fresh()
    const state = `response:${responseId}`
    const owner = this.#link.read((handle) => native.stateOwner(handle, tenant, state))
    if (owner === null) return undefined
    const [target, worker] = [topology.target(owner[0] ?? 0), topology.worker(owner[1] ?? 0)]
    return topology.isThere(target, worker) ? this.#at(worker, target) : undefined
  }

  #at(worker: KnownWorker, target: KnownTarget, asked?: string): Destination {
    const extra = this.#terms.config.forwardHeaders
    const model = target.model ?? asked
    const isOwn = hasOwnCredential({ auth: target.auth, worker: worker.headers })
    return {
      worker: worker.id,
      target: target.name,
      ...(model === undefined ? {} : { model }),
      url: worker.url,
      hasOwnCredential: isOwn,
      headers: (client) =>
        requestHeaders({
          client: readHeaders(client),
          auth: target.auth,
          worker: worker.headers,
          extra,
        }),
      body: (body, raw) => {
        const isRenamed = model !== undefined && body.model !== model
        return sentBody(body, raw, isRenamed ? [{ name: 'model', value: model }] : [])
      },
    }
  }
}
