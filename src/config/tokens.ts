/**
 * Whether prompts are known by text or by the tokens of the engine, and who is asked for these.
 *
 * Off unless it is asked for: text needs nobody. Throws CONFIG with the path of the field.
 */
import { callback, fields, number, oneOf, refuse } from './check.js'

/** What a tokenizer of the caller's is told. */
export interface PromptToTokenize {
  /** As the client sent it, such as `/v1/chat/completions`. */
  readonly path: string
  /** The parsed body. */
  readonly body: Readonly<Record<string, unknown>>
  /** What the model is called at the target. */
  readonly model: string | undefined
}

/** The tokens that the engine will see, or undefined where it cannot say. */
export type Tokenize = (
  prompt: PromptToTokenize,
) => Uint32Array | undefined | Promise<Uint32Array | undefined>

export const TOKEN_SOURCES = ['text', 'engine', 'tokenize', 'answers'] as const
export type TokenSource = (typeof TOKEN_SOURCES)[number]

export interface TokenSettings {
  readonly from: TokenSource
  readonly timeoutMs: number
  readonly tokenize?: Tokenize
}

const TOKEN_FIELDS = ['from', 'tokenize', 'timeoutMs']
const TIMEOUT_MS = 500
const LONGEST_MS = 60_000

export function tokenSettings(value: unknown): TokenSettings {
  if (value === undefined) return { from: 'text', timeoutMs: TIMEOUT_MS }
  const given = fields(value, 'tokens', TOKEN_FIELDS)
  const brought = given.tokenize === undefined ? 'text' : 'tokenize'
  const from = oneOf(given.from ?? brought, 'tokens.from', TOKEN_SOURCES)
  if (from === 'tokenize' && given.tokenize === undefined) {
    refuse('tokens.tokenize', 'must be a function where `from` is tokenize')
  }
  const range = { min: 1, max: LONGEST_MS, kind: 'integer' } as const
  return {
    from,
    timeoutMs: number(given.timeoutMs ?? TIMEOUT_MS, 'tokens.timeoutMs', range),
    ...(given.tokenize !== undefined && {
      tokenize: callback(given.tokenize, 'tokens.tokenize') as Tokenize,
    }),
  }
}
