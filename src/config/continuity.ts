/**
 * The options of model choice: which policy decides, and what is known of each target's model.
 *
 * Prices are US dollars a million tokens and come from the target, else from the caller's catalogue;
 * what neither says of the cache comes from the published terms (`providers`), and where there are none
 * either, cached input is as dear as any. What the numbers do is the core's business. Throws CONFIG.
 */
import { completePrice, type ModelPrice, type PriceCatalogue, priceIn } from '../providers/index.js'
import { type BaseRule, baseRules } from './base.js'
import { dictionary, type Fields, fields, flag, MAX_U32, number, oneOf, refuse } from './check.js'

export const GRADES = ['small', 'middle', 'large'] as const
export const MODEL_POLICIES = [
  ...(['bound', 'locks-only', 'sticky', 'single-turn', 'constant', 'saar', 'lookahead'] as const),
] as const

/** How strong a model is among those that a client may be given. */
export type Grade = (typeof GRADES)[number]
/** Who decides which model answers. */
export type ModelPolicy = (typeof MODEL_POLICIES)[number]

/** What is known of a target's model. */
export interface ModelCard {
  readonly grade?: Grade
  readonly quality?: number
  readonly price?: ModelPrice
  readonly contextTokens?: number
  readonly outputTokens?: number
  readonly images?: boolean
  readonly tools?: boolean
}

/** The settings of model choice as the native face wants them; the core has the other defaults. */
export interface ContinuitySettings {
  readonly policy: ModelPolicy
  readonly shadow?: ModelPolicy
  readonly lambda?: number
  readonly value?: (typeof VALUES)[number]
  readonly fee?: number
  readonly floor?: Grade
  readonly grade?: Grade
  readonly saar?: Readonly<Record<string, number | boolean>>
  readonly toolOwnerDown: (typeof WHEN_DOWN)[number]
  readonly stateOwnerDown: (typeof WHEN_DOWN)[number]
  readonly ownerWaitMs: number
  readonly base?: readonly BaseRule[]
}

/** What the choice of a default looks at. */
interface Choosable {
  readonly name: string
  readonly model?: string
  readonly card: ModelCard
}

const VALUES = ['shortfall', 'quality'] as const
const WHEN_DOWN = ['wait', 'fail', 'strip', 'escape'] as const
const WAIT_SECONDS = 30
const MAX_WAIT_SECONDS = 600
const OF_LOOKAHEAD = ['lambda', 'value', 'fee', 'floor']
const SAAR_FLAGS = ['driftReset', 'idleReset', 'pricePressure']
const FIELDS = [
  ...['policy', 'shadow', 'grade', 'saar', 'ownerDown', 'prices', 'base'],
  ...OF_LOOKAHEAD,
]
const PRICE_FIELDS = ['input', 'output', 'cached', 'write']
const MAX_DOLLARS = 1e9

export const CARD_FIELDS = [
  ...['grade', 'quality', 'price', 'contextTokens', 'outputTokens', 'images', 'tools'],
]

/** Checks the section; `aliases` and `targets` say what its default is. */
export function continuity(
  value: unknown,
  aliases: ReadonlyMap<string, readonly string[]>,
  targets: readonly Choosable[],
): ContinuitySettings {
  const given = value === undefined ? {} : fields(value, 'continuity', FIELDS)
  const policy =
    given.policy === undefined
      ? defaultPolicy(aliases, targets)
      : oneOf(given.policy, 'continuity.policy', MODEL_POLICIES)
  const shadow =
    given.shadow === undefined
      ? undefined
      : oneOf(given.shadow, 'continuity.shadow', MODEL_POLICIES)
  // Settings of the default stand whether or not the targets call for it.
  refuseForeign(given, [given.policy === undefined ? 'lookahead' : policy, shadow])
  const down = ownerDown(given.ownerDown)
  const names = targets.map(({ name }) => name)
  return {
    policy,
    ...(shadow !== undefined && { shadow }),
    ...lookahead(given),
    ...(given.grade !== undefined && { grade: oneOf(given.grade, 'continuity.grade', GRADES) }),
    ...(given.saar !== undefined && { saar: saar(given.saar) }),
    ...(given.base !== undefined && { base: baseRules(given.base, names) }),
    ...down,
  }
}

/** The catalogue of the section, if it has one. */
export function catalogueOf(value: unknown): PriceCatalogue | undefined {
  if (value === undefined) return undefined
  const { prices } = fields(value, 'continuity', FIELDS)
  return prices === undefined ? undefined : dictionary(prices, 'continuity.prices')
}

/** What the options say of the model of one target. */
export function modelCard(
  given: Fields,
  path: string,
  { provider, model, catalogue }: CardContext,
): ModelCard {
  const price = priceOf(given.price, `${path}.price`, { provider, model, catalogue })
  const count = (field: string): number =>
    number(given[field], `${path}.${field}`, { min: 1, max: MAX_U32, kind: 'integer' })
  const real = (field: string, max: number): number =>
    number(given[field], `${path}.${field}`, { min: 0, max, kind: 'real' })
  return {
    ...(given.grade !== undefined && { grade: oneOf(given.grade, `${path}.grade`, GRADES) }),
    ...(given.quality !== undefined && { quality: real('quality', 1) }),
    ...(price !== undefined && { price }),
    ...(given.contextTokens !== undefined && { contextTokens: count('contextTokens') }),
    ...(given.outputTokens !== undefined && { outputTokens: count('outputTokens') }),
    ...(given.images !== undefined && { images: flag(given.images, `${path}.images`) }),
    ...(given.tools !== undefined && { tools: flag(given.tools, `${path}.tools`) }),
  }
}

/** Whether anybody looks at whether a prompt has images. O(targets + rules). */
export function asksForImages({
  targets,
  continuity: { base = [] },
}: {
  readonly targets: readonly { readonly card: ModelCard }[]
  readonly continuity: ContinuitySettings
}): boolean {
  const isBlind = ({ card }: { readonly card: ModelCard }) => card.images === false
  return targets.some(isBlind) || base.some(({ images }) => images !== undefined)
}

/** Whose price it is, and where else to look for it. */
interface CardContext {
  readonly provider: string | undefined
  readonly model: string
  readonly catalogue?: PriceCatalogue | undefined
}

function priceOf(
  value: unknown,
  path: string,
  { provider, model, catalogue }: CardContext,
): ModelPrice | undefined {
  if (value === undefined) {
    return catalogue === undefined ? undefined : priceIn(catalogue, provider, model)
  }
  const given = fields(value, path, PRICE_FIELDS)
  const dollars = (field: string): number =>
    number(given[field], `${path}.${field}`, { min: 0, max: MAX_DOLLARS, kind: 'real' })
  const price = {
    input: dollars('input'),
    output: dollars('output'),
    ...(given.cached !== undefined && { cached: dollars('cached') }),
    ...(given.write !== undefined && { write: dollars('write') }),
  }
  return completePrice(price, provider, model)
}

/**
 * `lookahead` where an alias offers several models and every target of every alias with a choice has a
 * price and a grade; else `bound`.
 */
function defaultPolicy(
  aliases: ReadonlyMap<string, readonly string[]>,
  targets: readonly Choosable[],
): ModelPolicy {
  const choices = [...aliases.values()]
    .filter((names) => names.length > 1)
    .map((names) => targets.filter(({ name }) => names.includes(name)))
  const isKnown = ({ card }: Choosable) => card.grade !== undefined && card.price !== undefined
  const hasModels = (choice: Choosable[]) => new Set(choice.map(({ model }) => model)).size > 1
  return choices.some(hasModels) && choices.flat().every(isKnown) ? 'lookahead' : 'bound'
}

/** A setting of a policy that neither decides nor watches would silently do nothing. */
function refuseForeign(given: Fields, policies: readonly (ModelPolicy | undefined)[]): void {
  const needs: [ModelPolicy, readonly string[]][] = [
    ['lookahead', OF_LOOKAHEAD],
    ['saar', ['saar']],
    ['constant', ['grade']],
  ]
  for (const [policy, names] of needs) {
    const field = names.find((name) => given[name] !== undefined)
    if (field !== undefined && !policies.includes(policy)) {
      refuse(`continuity.${field}`, `needs policy or shadow: '${policy}'`)
    }
  }
}

function lookahead(given: Fields): Pick<ContinuitySettings, 'lambda' | 'value' | 'fee' | 'floor'> {
  const dollars = (field: string): number =>
    number(given[field], `continuity.${field}`, { min: 0, max: MAX_DOLLARS, kind: 'real' })
  return {
    ...(given.lambda !== undefined && { lambda: dollars('lambda') }),
    ...(given.value !== undefined && { value: oneOf(given.value, 'continuity.value', VALUES) }),
    ...(given.fee !== undefined && { fee: dollars('fee') }),
    ...(given.floor !== undefined && { floor: oneOf(given.floor, 'continuity.floor', GRADES) }),
  }
}

function saar(value: unknown): Record<string, number | boolean> {
  const path = 'continuity.saar'
  const { expectedTurns, ...flags } = fields(value, path, ['expectedTurns', ...SAAR_FLAGS])
  const checked = Object.entries(flags)
    .filter(([, each]) => each !== undefined)
    .map(([name, each]) => [name, flag(each, `${path}.${name}`)] as const)
  const range = { min: 1, max: MAX_U32, kind: 'integer' } as const
  return {
    ...Object.fromEntries(checked),
    ...(expectedTurns !== undefined && {
      expectedTurns: number(expectedTurns, `${path}.expectedTurns`, range),
    }),
  }
}

type OwnerDownSettings = Pick<
  ContinuitySettings,
  'toolOwnerDown' | 'stateOwnerDown' | 'ownerWaitMs'
>

function ownerDown(value: unknown): OwnerDownSettings {
  const path = 'continuity.ownerDown'
  const names = ['toolLoop', 'providerState', 'waitSeconds']
  const given = value === undefined ? {} : fields(value, path, names)
  const range = { min: 0.001, max: MAX_WAIT_SECONDS, kind: 'real' } as const
  const seconds = number(given.waitSeconds ?? WAIT_SECONDS, `${path}.waitSeconds`, range)
  return {
    toolOwnerDown: oneOf(given.toolLoop ?? 'wait', `${path}.toolLoop`, WHEN_DOWN),
    stateOwnerDown: oneOf(given.providerState ?? 'wait', `${path}.providerState`, WHEN_DOWN),
    ownerWaitMs: Math.ceil(seconds * 1000),
  }
}
