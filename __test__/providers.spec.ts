/**
 * Prices from options and catalogues, completed by published terms of caches; what is bound to what.
 */
import test from 'ava'
import {
  CACHE_TERMS,
  cacheTerms,
  completePrice,
  OWNERSHIP,
  ownershipOf,
  priceIn,
} from '../src/providers/index.js'

test('the first row that fits counts, whatever names the provider goes by', (t) => {
  t.is(cacheTerms('anthropic', 'claude-opus-5.5-20261001')?.read, 0.05)
  t.is(cacheTerms('anthropic', 'anthropic/claude-opus-5')?.minTokens, 512)
  t.is(cacheTerms('anthropic', 'claude-haiku-4-5')?.minTokens, 4096)
  t.is(cacheTerms('openai', 'gpt-5.6')?.write, 1.25)
  t.is(cacheTerms('openai', 'gpt-5.5')?.write, 1)
  t.is(cacheTerms('openai', 'text-embedding-3'), undefined)
  t.is(cacheTerms(undefined, 'claude-opus-5'), undefined)
})

test('every row is a share, a life and a day', (t) => {
  for (const row of CACHE_TERMS) {
    t.true(row.read > 0 && row.read <= 1 && row.write >= 1, row.provider)
    t.true(row.ttlSeconds >= 180 && row.minTokens >= 0, row.provider)
    t.regex(row.checked, /^\d{4}-\d\d-\d\d$/)
  }
})

test('what a price does not say of the cache is published, or there is no credit', (t) => {
  const price = { input: 5, output: 25 }
  t.deepEqual(completePrice(price, 'anthropic', 'claude-opus-5'), {
    ...price,
    cached: 0.5,
    write: 6.25,
    cache: 'published',
  })
  t.deepEqual(completePrice({ ...price, cached: 1 }, 'anthropic', 'claude-opus-5'), {
    ...price,
    cached: 1,
    write: 6.25,
    cache: 'given',
  })
  t.deepEqual(completePrice(price, 'acme', 'm1'), {
    ...price,
    cached: 5,
    write: 5,
    cache: 'unknown',
  })
})

test('both catalogues give the same price', (t) => {
  const litellm = {
    'claude-opus-5': {
      input_cost_per_token: 5e-6,
      output_cost_per_token: 2.5e-5,
      cache_read_input_token_cost: 5e-7,
      cache_creation_input_token_cost: 6.25e-6,
    },
  }
  const cost = { input: 5, output: 25, cache_read: 0.5, cache_write: 6.25 }
  const modelsDev = { anthropic: { models: { 'claude-opus-5': { cost } } } }
  const expected = { input: 5, output: 25, cached: 0.5, write: 6.25, cache: 'given' as const }
  t.deepEqual(priceIn(litellm, 'anthropic', 'claude-opus-5'), expected)
  t.deepEqual(priceIn(modelsDev, 'anthropic', 'claude-opus-5'), expected)
})

test('nothing in a catalogue is trusted', (t) => {
  const entry = { input_cost_per_token: -1, output_cost_per_token: Number.NaN }
  t.is(priceIn({ m: entry }, 'p', 'm'), undefined)
  t.is(priceIn({ m: null, p: { models: [] } }, 'p', 'm'), undefined)
  t.is(priceIn({}, 'p', 'constructor'), undefined)
  t.is(priceIn({}, undefined, '__proto__'), undefined)
})

test('each kind of state has an owner, and what is unknown is bound to its account', (t) => {
  t.deepEqual(ownershipOf('response:resp_1').bound, ['account'])
  t.true(ownershipOf('reasoning:abc').strippable)
  t.deepEqual(ownershipOf('novelty:1').bound, ['account'])
  t.is(new Set(OWNERSHIP.map((row) => row.what)).size, OWNERSHIP.length)
})
