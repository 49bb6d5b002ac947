/**
 * Question: does an engine tell of the very blocks that it computes, and do others make the same tokens?
 *
 * It is sent one small chat of its own that nobody has sent before, with tools whose keys are in no order,
 * text that is not ASCII, calls and results, and answers with the tokens of its prompt. By its events it
 * must then have them: less means another block size, another form of hashes, or layers that are passed
 * over. Where prompts are known by its renderer, that is asked for the same bytes and has to say the same.
 *
 * It costs the engine a prompt of some blocks and one token. Nothing of it is a turn. An engine that hangs is
 * waited for ten seconds, or for as long as its events are where that is longer.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  boundedText,
  causeOf,
  type NoTokens,
  TokenSourceOfEngine,
  tokenList,
} from '../engines/index.js'
import type { Scheduler } from '../index.js'

interface Probe {
  readonly scheduler: Scheduler
  readonly worker: string
  /** Where turns of it go, and what with. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** What the model is called there, and what it is asked for by here. */
  readonly model: string
  readonly target: string
  /** Tokens in a block, as the configuration has it. */
  readonly blockTokens: number
  /** Whether its renderer is asked too. */
  readonly asksRenderer: boolean
  /** How late events may come. */
  readonly waitMs: number
}

/** What became of it; `error` where the engine did not answer as it should have. */
interface Probed {
  readonly promptTokens: number
  /** Of the tokens that its events should tell of, those that they do. */
  readonly expectedTokens: number
  readonly toldTokens: number
  /** What its renderer makes of the same bytes; null where it was not asked. */
  readonly renderer: Rendered | null
  readonly error: string | null
}

/** `says`: the `same` tokens, `other` ones (the first of them is told), or why there are none. */
type Rendered =
  | { readonly says: 'same' }
  | {
      readonly says: 'other'
      readonly index: number
      readonly rendered: number | null
      readonly computed: number | null
    }
  | { readonly says: NoTokens }

const CHAT = '/v1/chat/completions'
/** An engine that is not busy computes such a prompt in well under a second. */
const LIMIT_MS = 10_000
const LOOK_MS = 50
const MAX_ANSWER = 64 << 20
/** Blocks that the prompt has at least, and words in it for each of them and one more. */
const BLOCKS = 3

async function probe(plan: Probe): Promise<Probed> {
  const body = bodyOf(plan.model, plan.blockTokens)
  let tokens: Uint32Array
  try {
    tokens = await computed(plan, body)
  } catch (error) {
    return failedProbe(error as Error)
  }
  const { length } = tokens
  // An engine computes the last token of a prompt whatever it has.
  const expectedTokens = Math.floor((length - 1) / plan.blockTokens) * plan.blockTokens
  const toldTokens = await told(plan, tokens, expectedTokens)
  const renderer = plan.asksRenderer ? await ofRenderer(plan, body, tokens) : null
  return { promptTokens: length, expectedTokens, toldTokens, renderer, error: null }
}

function failedProbe(error: Error): Probed {
  const nothing = { promptTokens: 0, expectedTokens: 0, toldTokens: 0, renderer: null }
  return { ...nothing, error: causeOf(error) }
}

/** Longer than three blocks, and unlike anything before from its first block on. */
function bodyOf(model: string, blockTokens: number): string {
  const salt = randomBytes(8).toString('hex')
  const words = Array.from({ length: (BLOCKS + 1) * blockTokens }, (_, at) => `${(at * 7919) % 97}`)
  const parameters = {
    type: 'object',
    required: ['path'],
    properties: { path: { type: 'string', description: 'where <it> is & how' } },
  }
  const call = (id: string) => ({
    id: `${salt}-${id}`,
    type: 'function',
    function: { name: `look_${salt}`, arguments: '{"path": "/café"}' },
  })
  const result = (id: string) => ({
    role: 'tool',
    tool_call_id: `${salt}-${id}`,
    content: 'größe 4',
  })
  const tools = [{ type: 'function', function: { name: `look_${salt}`, parameters } }]
  const messages = [
    { role: 'system', content: `${salt}: a check of the cache. ${words.join(' ')}` },
    { role: 'user', content: 'Which files are there?' },
    { role: 'assistant', content: null, tool_calls: [call('a'), call('b')] },
    ...['a', 'b'].map(result),
  ]
  // Servers that were not set up to call tools refuse to choose one; the prompt has them all the same.
  const asked = { tool_choice: 'none', max_tokens: 1, return_token_ids: true }
  return JSON.stringify({ model, tools, messages, ...asked })
}

async function computed(plan: Probe, body: string): Promise<Uint32Array> {
  const { url, headers, blockTokens } = plan
  const limitMs = limitOf(plan)
  const signal = AbortSignal.timeout(limitMs)
  let text: string
  try {
    const response = await fetch(url + CHAT, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body,
      redirect: 'manual',
      signal,
    })
    if (!response.ok) {
      await response.body?.cancel()
      throw new Error(`status ${response.status}`)
    }
    text = await boundedText(response, MAX_ANSWER)
  } catch (error) {
    throw signal.aborted ? new Error(`no answer within ${limitMs / 1000} seconds`) : error
  }
  const ids = promptOf(text)
  if (!Array.isArray(ids) || ids.length === 0) throw new Error('it does not tell tokens')
  const tokens = tokenList(ids)
  if (tokens === undefined) throw new Error('what it tells are no tokens')
  const least = BLOCKS * blockTokens
  if (tokens.length >= least) return tokens
  throw new Error(`it tells ${tokens.length} tokens of a prompt of more than ${least}`)
}

function promptOf(text: string): unknown {
  try {
    return (JSON.parse(text) as { prompt_token_ids?: unknown } | null)?.prompt_token_ids
  } catch {
    throw new Error('its answer is no JSON')
  }
}

function limitOf({ waitMs }: Probe): number {
  return Math.max(LIMIT_MS, waitMs)
}

/** How many of the tokens the worker has by its events, once it has them all or there is no more time. */
async function told(plan: Probe, tokens: Uint32Array, expected: number): Promise<number> {
  const { scheduler, worker, target, waitMs } = plan
  const until = performance.now() + waitMs
  for (;;) {
    const found = scheduler.candidates({ path: CHAT, model: target, tokens })
    const overlap = found.find((each) => each.worker === worker)?.overlapTokens ?? 0
    if (overlap >= expected || performance.now() > until) return overlap
    await sleep(LOOK_MS)
  }
}

async function ofRenderer(plan: Probe, body: string, computed: Uint32Array): Promise<Rendered> {
  const { url, headers } = plan
  const source = new TokenSourceOfEngine(() => performance.now())
  const signal = AbortSignal.timeout(limitOf(plan))
  const found = await source.ask({ url: url + CHAT, headers, body, signal })
  return found instanceof Uint32Array ? compared(found, computed) : { says: found }
}

function compared(rendered: Uint32Array, computed: Uint32Array): Rendered {
  const most = Math.max(rendered.length, computed.length)
  for (let index = 0; index < most; index += 1) {
    const [a, b] = [rendered[index], computed[index]]
    if (a !== b) return { says: 'other', index, rendered: a ?? null, computed: b ?? null }
  }
  return { says: 'same' }
}

/** What should be changed, or looked into. */
function* probeAdvice(probed: Probed, blockTokens: number): Generator<string> {
  const { error, expectedTokens, toldTokens, renderer } = probed
  if (error !== null) {
    yield `a chat with return_token_ids fails: ${error}`
    return
  }
  if (toldTokens < expectedTokens) {
    const why =
      toldTokens > 0
        ? 'the rest is late, or was given up already'
        : `blocks that are not of ${blockTokens} tokens, another form of hashes, or no events at all`
    yield `it computed a prompt and tells of ${toldTokens} of ${expectedTokens} tokens: ${why}`
  }
  if (renderer?.says === 'other') {
    const { index, rendered, computed } = renderer
    yield `its renderer makes other tokens of the same bytes: ${rendered ?? 'none'} for ${computed ?? 'none'} at ${index}`
  } else if (renderer !== null && renderer.says !== 'same') {
    yield `its renderer tells no tokens (${renderer.says}): its turns are known by their text`
  }
}

export { failedProbe, type Probe, type Probed, probe, probeAdvice }
