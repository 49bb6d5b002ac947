/**
 * What a model costs, from whatever the caller has: a price in the options, or a catalogue in the shape
 * of LiteLLM's price file or of models.dev.
 *
 * All prices here are US dollars a million tokens. What a price does not say of the cache follows from
 * the published terms of the provider; where there are none either, nothing is cheaper for being cached
 * and `cache` says `unknown`, which ends up in the receipts. Nothing is fetched, and no entry of a
 * catalogue is trusted: what is no finite number of at least 0 counts as not there.
 */
import { cacheTerms } from './terms.js'

/** As a user writes it. */
export interface PriceOptions {
  readonly input: number
  readonly output: number
  readonly cached?: number
  readonly write?: number
}

/** What a turn is priced by. */
export interface ModelPrice {
  readonly input: number
  readonly cached: number
  readonly write: number
  readonly output: number
  /** Where the price of cached input comes from. */
  readonly cache: 'given' | 'published' | 'unknown'
}

/** Prices by the names of models; see the head of this file for the shapes. */
export type PriceCatalogue = Readonly<Record<string, unknown>>

interface Entry {
  readonly input: number
  readonly output: number
  readonly cached: number | undefined
  readonly write: number | undefined
}

const MILLION = 1_000_000

/** Completes a price by what is published of the provider's cache. */
export function completePrice(
  { input, output, cached, write }: PriceOptions,
  provider: string | undefined,
  model: string,
): ModelPrice {
  const terms = cacheTerms(provider, model)
  if (cached !== undefined) {
    return {
      input,
      output,
      cached,
      write: write ?? dollars(input * (terms?.write ?? 1)),
      cache: 'given',
    }
  }
  if (terms === undefined) return { input, output, cached: input, write: input, cache: 'unknown' }
  return {
    input,
    output,
    cached: dollars(input * terms.read),
    write: write ?? dollars(input * terms.write),
    cache: 'published',
  }
}

/** Without what multiplication adds: half a millionth of a cent is no price. */
function dollars(product: number): number {
  return Number(product.toPrecision(12))
}

/** The price of a model in a catalogue; undefined where it has none. */
export function priceIn(
  catalogue: PriceCatalogue,
  provider: string | undefined,
  model: string,
): ModelPrice | undefined {
  const entry = litellm(catalogue, provider, model) ?? modelsDev(catalogue, provider, model)
  if (entry === undefined) return undefined
  const { input, output, cached, write } = entry
  const given = {
    input,
    output,
    ...(cached !== undefined && { cached }),
    ...(write !== undefined && { write }),
  }
  return completePrice(given, provider, model)
}

/** `{ "<provider>/<model>": { input_cost_per_token, ... } }`, also without the provider. */
function litellm(
  catalogue: PriceCatalogue,
  provider: string | undefined,
  model: string,
): Entry | undefined {
  const own = objectAt(catalogue, `${provider}/${model}`) ?? objectAt(catalogue, model)
  if (own === undefined) return undefined
  const perMillion = (field: string): number | undefined => {
    const price = priceAt(own, field)
    return price === undefined ? undefined : dollars(price * MILLION)
  }
  return entryOf(
    perMillion('input_cost_per_token'),
    perMillion('output_cost_per_token'),
    perMillion('cache_read_input_token_cost'),
    perMillion('cache_creation_input_token_cost'),
  )
}

/** `{ "<provider>": { models: { "<model>": { cost: { input, output, cache_read, cache_write } } } } }`. */
function modelsDev(
  catalogue: PriceCatalogue,
  provider: string | undefined,
  model: string,
): Entry | undefined {
  if (provider === undefined) return undefined
  const models = objectAt(objectAt(catalogue, provider), 'models')
  const cost = objectAt(objectAt(models, model), 'cost')
  if (cost === undefined) return undefined
  const price = (field: string): number | undefined => priceAt(cost, field)
  return entryOf(price('input'), price('output'), price('cache_read'), price('cache_write'))
}

function entryOf(
  input: number | undefined,
  output: number | undefined,
  cached: number | undefined,
  write: number | undefined,
): Entry | undefined {
  return input === undefined || output === undefined ? undefined : { input, output, cached, write }
}

function objectAt(value: unknown, key: string): Readonly<Record<string, unknown>> | undefined {
  if (!isObject(value) || !Object.hasOwn(value, key)) return undefined
  const found = value[key]
  return isObject(found) ? found : undefined
}

function priceAt(value: Readonly<Record<string, unknown>>, key: string): number | undefined {
  const price = value[key]
  return typeof price === 'number' && Number.isFinite(price) && price >= 0 ? price : undefined
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
