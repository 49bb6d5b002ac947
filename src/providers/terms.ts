/**
 * What hosted caches cost and how long they live, as multiples of the price of uncached input.
 *
 * Checked by hand against what each provider publishes, once; `checked` says when. The first row that
 * fits counts, so the special ones stand before the general ones. A model that no row fits has no cache
 * as far as money goes: whoever routes by price then counts nothing on it. Prices themselves are the
 * caller's (`price` of a target, or a catalogue): they change more often than this file.
 */

/** How the cache of a family of models is paid for. */
export interface CacheTerms {
  readonly provider: string
  /** Which of its models; tried on the name without a date or a region. */
  readonly model: RegExp
  /** Price of a token that is read from the cache, as a multiple of uncached input. */
  readonly read: number
  /** Price of a token that is written to it. 1: writing costs nothing more. */
  readonly write: number
  /** A shorter prompt is not cached. */
  readonly minTokens: number
  /** How long what is not used stays. */
  readonly ttlSeconds: number
  /** `documented`: published by the provider; `measured`: by others; `guess`: neither. */
  readonly evidence: 'documented' | 'measured' | 'guess'
  /** Day on which the row was checked. */
  readonly checked: string
}

const CHECKED = '2026-11-29'

type Row = readonly [
  model: RegExp,
  read: number,
  write: number,
  minTokens: number,
  ttlSeconds: number,
  evidence?: CacheTerms['evidence'],
]

/** Sources that disagree: the highest minimum and the shortest life count. */
const ROWS: Readonly<Record<string, readonly Row[]>> = {
  anthropic: [
    [/^claude-(fable|mythos)-5[.-]1/, 0.025, 1.25, 512, 300],
    [/^claude-(opus|sonnet)-5[.-]5/, 0.05, 1.25, 512, 300],
    [/^claude-haiku-5[.-]5/, 0.1, 1.25, 512, 300],
    [/^claude-(opus-5|fable-5|mythos-5)/, 0.1, 1.25, 512, 300],
    [/^claude-(opus-4[.-]8|sonnet-5|opus-4[.-]1)/, 0.1, 1.25, 1024, 300],
    [/^claude-(opus-4[.-]7|3[.-]5-haiku)/, 0.1, 1.25, 2048, 300],
    [/^claude-/, 0.1, 1.25, 4096, 300],
  ],
  openai: [
    [/^gpt-6[.-]1/, 0.05, 1.25, 1024, 1800],
    [/^gpt-(5[.-][6-9]|6)/, 0.1, 1.25, 1024, 1800],
    [/^gpt-5/, 0.1, 1, 1024, 300],
    [/^(gpt-4[.-]1|o3|o4-mini)/, 0.25, 1, 1024, 300],
    [/^gpt-4o/, 0.5, 1, 1024, 300],
  ],
  google: [
    [/^gemini-(2[.-]5|3)-flash/, 0.1, 1, 1024, 180],
    [/^gemini-/, 0.1, 1, 4096, 180],
  ],
  deepseek: [
    [/v4-pro/, 0.033, 1, 0, 3600],
    [/^deepseek/, 0.033, 1, 0, 3600, 'guess'],
  ],
  xai: [[/^grok/, 0.25, 1, 128, 300, 'measured']],
  mistral: [[/./, 0.1, 1, 64, 300]],
  groq: [[/gpt-oss/, 0.5, 1, 0, 7200]],
  moonshot: [
    [/^kimi-k3/, 0.1, 1, 0, 300],
    [/^kimi-k2/, 0.2, 1, 0, 300, 'guess'],
  ],
  zai: [[/^glm/, 0.25, 1, 0, 300, 'guess']],
  qwen: [[/^qwen/, 0.2, 1, 1024, 300, 'guess']],
  fireworks: [[/./, 0.5, 1, 0, 300, 'guess']],
}

/** Every row, for people. */
export const CACHE_TERMS: readonly CacheTerms[] = Object.entries(ROWS).flatMap(([provider, rows]) =>
  rows.map(([model, read, write, minTokens, ttlSeconds, evidence = 'documented']) => {
    return { provider, model, read, write, minTokens, ttlSeconds, evidence, checked: CHECKED }
  }),
)

/** The terms of a model; undefined where none are known. */
export function cacheTerms(provider: string | undefined, model: string): CacheTerms | undefined {
  const name = model.slice(model.lastIndexOf('/') + 1).toLowerCase()
  return CACHE_TERMS.find((row) => row.provider === provider && row.model.test(name))
}
