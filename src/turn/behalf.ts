/**
 * Question: what is asked of an upstream that its client has not asked for, and taken out again?
 *
 * Chat streams tell their usage on request only, and engines the tokens that they make of a prompt, where
 * the options want to learn them. A client that asks by itself gets what it has asked for.
 */
import type { TokenSource } from '../config/index.js'
import {
  ASK_FOR_TOKENS,
  ASK_FOR_USAGE,
  type Change,
  type TokenIdsPlan,
  UsageChunkFilter,
} from '../forward/index.js'
import type { ReadRequest } from './request.js'

type Asking = Pick<ReadRequest, 'body' | 'dialect' | 'facts'>

/** What the router asks for in the place of a client. */
export interface Behalf {
  readonly usage: boolean
  readonly tokens: boolean
  /** Whether the answer's tokens are looked for, whoever has asked. */
  readonly reads: boolean
}

/** `tokens`: what the target's prompts are known by. */
export function behalfOf({ body, dialect, facts }: Asking, tokens: TokenSource): Behalf {
  const isChat = dialect.name === 'openai-chat' && body !== undefined
  const usage = isChat && facts?.stream === true && !facts.usageAsked
  const reads = isChat && tokens === 'answers'
  return { usage, tokens: reads && body?.return_token_ids !== true, reads }
}

/** What changes in a body when it is asked for. */
export function changesFor({ usage, tokens }: Behalf): Change[] {
  const changes: Change[] = []
  if (usage) changes.push(ASK_FOR_USAGE)
  if (tokens) changes.push(ASK_FOR_TOKENS)
  return changes
}

/** A prompt may have so many times the tokens that it is guessed to have, and so many more that a template adds. */
const GUESSED_TIMES = 8
const TEMPLATE_TOKENS = 1 << 16

/**
 * What reads it in an answer, and takes it out. `promptTokens`: what the prompt is guessed to have, by
 * which what is kept of an answer is bounded.
 */
export function takersOf(
  { usage, tokens, reads }: Behalf,
  promptTokens: number,
  found: TokenIdsPlan['found'],
) {
  const most = GUESSED_TIMES * promptTokens + TEMPLATE_TOKENS
  return {
    filter: usage ? new UsageChunkFilter() : undefined,
    tokenIds: reads ? { found, most, takesOut: tokens } : undefined,
  }
}
