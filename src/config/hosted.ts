/**
 * The little that is fixed about a hosted provider: its address, the wire APIs it speaks and the
 * header that carries its key. Prices and cache rules are not here.
 *
 * A provider that is not listed is a label: its address comes from the workers, its key travels as
 * a bearer token and it is taken to speak every dialect.
 */
import type { DialectName } from '../dialects/index.js'

export interface Hosted {
  /** Base address; absent when it differs per customer. */
  readonly url?: string
  readonly dialects: readonly DialectName[]
  readonly keyHeader: 'authorization' | 'x-api-key'
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

export function hosted(provider: string | undefined): Hosted {
  return (provider === undefined ? undefined : HOSTED.get(provider)) ?? ENGINE
}
