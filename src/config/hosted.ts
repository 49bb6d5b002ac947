/**
 * The little that is fixed about a hosted provider: its address, the wire APIs it speaks, the
 * header that carries its key, and how its cache works where that is published. Prices are not here.
 *
 * A provider that is not listed is a label: its address comes from the workers, its key travels as
 * a bearer token and it is taken to speak every dialect.
 */
import type { DialectName } from '../dialects/index.js'
import type { CacheRules } from './cache.js'

export interface Hosted {
  /** Base address; absent when it differs per customer. */
  readonly url?: string
  readonly dialects: readonly DialectName[]
  readonly keyHeader: 'authorization' | 'x-api-key'
  /** Of its own dialects. */
  readonly cache?: CacheRules
}

export const ALL_DIALECTS: readonly DialectName[] = [
  'openai-chat',
  'openai-responses',
  'anthropic-messages',
]

const ENGINE: Hosted = { dialects: ALL_DIALECTS, keyHeader: 'authorization' }

const HOSTED: ReadonlyMap<string, Hosted> = new Map([
  [
    'anthropic',
    {
      url: 'https://api.anthropic.com',
      dialects: ['anthropic-messages'],
      keyHeader: 'x-api-key',
      // As published in September 2026. The minimum is the highest of its models': what a model
      // caches below it is not counted on.
      cache: { match: 'breakpoint', ttlMs: 300_000, minTokens: 4096, lookback: 20 },
    } satisfies Hosted,
  ],
  [
    'openai',
    {
      url: 'https://api.openai.com',
      dialects: ['openai-chat', 'openai-responses'],
      keyHeader: 'authorization',
    } satisfies Hosted,
  ],
])

/** Providers that need no worker of their own. */
export const ADDRESSED: readonly string[] = [...HOSTED.keys()]

export function hosted(provider: string | undefined): Hosted {
  return (provider === undefined ? undefined : HOSTED.get(provider)) ?? ENGINE
}
