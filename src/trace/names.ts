/**
 * What a session is called in a trace.
 *
 * Names of clients mean something within their tenant only, so the tenant stands before them. With
 * a key they are digests of both: whoever has the trace sees which turns belong together and not
 * whose they are. HMAC-SHA256, 128 bits of it; a session's name is worked out once a turn.
 */
import { createHmac } from 'node:crypto'

const HEX = 32

export class Names {
  readonly #key: Uint8Array | undefined

  constructor(key: Uint8Array | undefined) {
    this.#key = key
  }

  /** As the router sees it. */
  session(tenant: string, name: string): string {
    if (this.#key === undefined) return tenant === '' ? name : `${tenant}/${name}`
    // Lengths first, so that no two pairs are written alike.
    const digest = createHmac('sha256', this.#key)
    return digest.update(`session ${tenant.length} ${tenant}${name}`).digest('hex').slice(0, HEX)
  }

  /** As the client has it; with a key the same as {@link session}. */
  asSent(tenant: string, name: string): string {
    return this.#key === undefined ? name : this.session(tenant, name)
  }
}
