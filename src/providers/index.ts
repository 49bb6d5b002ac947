export { type AffinityKnob, affinityKnob, WITH_AFFINITY } from './affinity.js'
export { type Bound, OWNERSHIP, type Ownership, ownershipOf } from './ownership.js'
export {
  completePrice,
  type ModelPrice,
  type PriceCatalogue,
  type PriceOptions,
  priceIn,
} from './prices.js'
export { CACHE_TERMS, type CacheTerms, cacheTerms } from './terms.js'
