/**
 * Which targets a model name of a client means.
 *
 * Order: alias, target name, upstream model name of any target, the pass-through target of the
 * short form. A request without a name is served when there is no choice. Targets that do not
 * speak the request's dialect are left out; what is left keeps the order of preference. Static for
 * the life of a scheduler. Cost: O(targets) for names that are no alias.
 */
import type { DialectName } from '../dialects/index.js'
import { WarmpathError } from '../errors.js'
import type { TargetEntry } from './resolve.js'

export class Catalog {
  readonly #targets: readonly TargetEntry[]
  readonly #aliases: ReadonlyMap<string, readonly string[]>

  constructor(targets: readonly TargetEntry[], aliases: ReadonlyMap<string, readonly string[]>) {
    this.#targets = targets
    this.#aliases = aliases
  }

  /** Target names in order of preference, never empty. Throws UNKNOWN_MODEL, UNSUPPORTED_PATH. */
  targetsFor(model: string | undefined, dialect: DialectName): string[] {
    const named = this.#named(model)
    if (named.length === 0) throw this.#unknown(model)
    const speaking = named.filter((target) => target.dialects.includes(dialect))
    if (speaking.length === 0) {
      throw new WarmpathError(
        'WARMPATH_UNSUPPORTED_PATH',
        `no target of model ${JSON.stringify(model)} speaks ${dialect}`,
        { detail: { dialect, model: model ?? null } },
      )
    }
    return speaking.map((target) => target.name)
  }

  /** The same for what is no turn: any target serves a request that names no model. */
  servingAny(model: string | undefined, dialect: DialectName | undefined): string[] {
    const named = model === undefined ? this.#targets : this.#named(model)
    if (named.length === 0) throw this.#unknown(model)
    const all = named.map((target) => target.name)
    return dialect === undefined || model === undefined ? all : this.targetsFor(model, dialect)
  }

  /** Names that a client may ask for; empty when any name is passed through. */
  models(): string[] {
    const own = this.#targets.flatMap(({ name, model }) =>
      model === undefined ? [] : [name, model],
    )
    return [...new Set([...this.#aliases.keys(), ...own])]
  }

  #named(model: string | undefined): readonly TargetEntry[] {
    if (model === undefined) return this.#targets.length === 1 ? this.#targets : []
    const alias = this.#aliases.get(model)
    if (alias !== undefined) {
      return alias.flatMap((name) => this.#targets.filter((target) => target.name === name))
    }
    const byName = this.#targets.filter((target) => target.name === model)
    if (byName.length > 0) return byName
    const byModel = this.#targets.filter((target) => target.model === model)
    if (byModel.length > 0) return byModel
    return this.#targets.filter((target) => target.model === undefined)
  }

  #unknown(model: string | undefined): WarmpathError {
    const available = this.models()
    const asked =
      model === undefined ? 'the request names no model' : `unknown model ${JSON.stringify(model)}`
    return new WarmpathError(
      'WARMPATH_UNKNOWN_MODEL',
      `${asked}; available: ${available.join(', ')}`,
      { detail: { model: model ?? null, available } },
    )
  }
}
