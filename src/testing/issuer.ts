/**
 * Who issued an id: doubles of one provider, account and model share a registry, others do not.
 *
 * A tool result or a response id is accepted only by those who issued what it answers, which is how
 * a router that moves a session in the middle of a tool loop is found out. The oldest ids are
 * forgotten beyond the limit.
 */
class IssuerRegistry {
  readonly #ids = new Set<string>()

  /** `limit`: ids remembered, at least 1. */
  constructor(readonly limit = 100_000) {}

  add(id: string): void {
    this.#ids.add(id)
    if (this.#ids.size <= this.limit) return
    for (const oldest of this.#ids) {
      this.#ids.delete(oldest)
      return
    }
  }

  has(id: string): boolean {
    return this.#ids.has(id)
  }

  get size(): number {
    return this.#ids.size
  }
}

export { IssuerRegistry }
