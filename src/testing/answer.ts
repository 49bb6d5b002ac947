/**
 * What the double answers: the script decides how much, this file decides with which tokens.
 *
 * The words are drawn from the prompt, so the same prompt gets the same answer. Each token of the
 * text is four ASCII characters, which is why the text, sent back, becomes the same tokens again.
 * Tool calls follow the text; the last token ends the turn. A limit cuts from the end, as a real
 * engine does: first the end token, then calls that are not complete, then text.
 */
import { StringDecoder } from 'node:string_decoder'

import type { IssuerRegistry } from './issuer.js'
import { BYTES_A_TOKEN, CALL, END, normalArguments, tokenize } from './prompt.js'

/** What a script sees of a request. */
interface ScriptRequest {
  dialect: 'openai-chat' | 'openai-responses' | 'anthropic-messages'
  /** Lower-case names. */
  headers: Readonly<Record<string, string | string[] | undefined>>
  body: Readonly<Record<string, unknown>>
  promptTokens: number
  /** Equal prompts have equal hashes. */
  promptHash: number
  maxOutputTokens: number | undefined
  /** The names of the tools that the request offers. */
  tools: readonly string[]
}

/** What a script wants to be answered. */
interface ScriptedAnswer {
  /** Tokens of text, at least 0. */
  textTokens: number
  /** `namespace`: of a tool that was offered in one, for clients of the Responses API. */
  toolCalls?: { name: string; namespace?: string; arguments: unknown }[]
}

type Script = (request: ScriptRequest) => ScriptedAnswer

interface ToolCall {
  id: string
  name: string
  namespace?: string
  arguments: string
}

/** What a token adds to what the client sees. */
type Delta =
  | { kind: 'text'; text: string }
  | { kind: 'call'; index: number; call: ToolCall }
  | { kind: 'arguments'; index: number; text: string }

interface Answer {
  finish: Finish
  tokens: Uint32Array
  /** For each token what it adds; `undefined` for a token that shows nothing. */
  deltas: (Delta | undefined)[]
}

type Finish = 'stop' | 'length' | 'tool'

const DEFAULT_TEXT_TOKENS = 16
const DEFAULT_SPREAD = 48

/**
 * The default script: `x-double-output-tokens` sets the tokens of text, `x-double-tool` asks for a
 * tool call, as a name or as a name and JSON arguments ("ls {}"); without them some text whose
 * length depends on the prompt.
 */
const defaultScript: Script = ({ headers, promptHash }) => {
  const asked = Number(single(headers['x-double-output-tokens']))
  const textTokens =
    Number.isInteger(asked) && asked >= 0
      ? asked
      : DEFAULT_TEXT_TOKENS + (promptHash % DEFAULT_SPREAD)
  const tool = single(headers['x-double-tool'])?.trim()
  if (!tool) return { textTokens }
  const [name = tool, rest] = tool.split(/ (.*)/s)
  return { textTokens, toolCalls: [{ name, arguments: parsed(rest) }] }
}

function single(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value
}

function parsed(source: string | undefined): unknown {
  if (source === undefined) return {}
  try {
    return JSON.parse(source)
  } catch {
    return { input: source }
  }
}

/** Turns what the script wants into tokens, within the limit the client set. */
function compose(
  wanted: ScriptedAnswer,
  request: ScriptRequest,
  newCallId: () => string,
  issuer: IssuerRegistry,
): Answer {
  const builder = new AnswerBuilder(request.maxOutputTokens ?? Number.POSITIVE_INFINITY)
  const words = wordSource(request.promptHash)
  const textTokens = Math.max(0, Math.floor(wanted.textTokens) || 0)
  for (let i = 1; i <= textTokens && builder.addText(words(i === textTokens)); i++);
  for (const { arguments: value, ...named } of wanted.toolCalls ?? []) {
    const source = typeof value === 'string' ? value : (JSON.stringify(value) ?? '{}')
    const call = { id: newCallId(), ...named, arguments: normalArguments(source) }
    if (!builder.addCall(call)) break
    issuer.add(call.id)
  }
  return builder.finish()
}

class AnswerBuilder {
  readonly #tokens: number[] = []
  readonly #deltas: (Delta | undefined)[] = []
  readonly #limit: number
  #calls = 0
  #cut = false

  constructor(limit: number) {
    this.#limit = limit
  }

  /** One token of text; false if there is no room for it. */
  addText(word: string): boolean {
    if (!this.#fits(1)) return false
    this.#push(tokenize(word), [{ kind: 'text', text: word }])
    return true
  }

  /** False if there is no room for all of it. */
  addCall(call: ToolCall): boolean {
    const name = tokenize(call.name)
    const args = tokenize(call.arguments)
    if (!this.#fits(1 + name.length + args.length)) return false
    const index = this.#calls++
    this.#push(Uint32Array.of(CALL), [{ kind: 'call', index, call }])
    this.#push(name, [])
    const fragments = argumentFragments(call.arguments, args.length)
    const deltas: Delta[] = fragments.map((text) => ({ kind: 'arguments', index, text }))
    this.#push(args, deltas)
    return true
  }

  finish(): Answer {
    if (this.#fits(1)) this.#push(Uint32Array.of(END), [])
    const finish = this.#cut ? 'length' : this.#calls > 0 ? 'tool' : 'stop'
    return { finish, tokens: Uint32Array.from(this.#tokens), deltas: this.#deltas }
  }

  #fits(tokens: number): boolean {
    if (this.#cut || this.#tokens.length + tokens > this.#limit) this.#cut = true
    return !this.#cut
  }

  #push(tokens: Uint32Array, deltas: Delta[]): void {
    for (const [i, token] of tokens.entries()) {
      this.#tokens.push(token)
      this.#deltas.push(deltas[i])
    }
  }
}

/** What the client has after the first `produced` tokens. */
function said(answer: Answer, produced: number): { text: string; calls: ToolCall[] } {
  let text = ''
  const calls: ToolCall[] = []
  for (const delta of answer.deltas.slice(0, produced)) {
    if (delta?.kind === 'text') text += delta.text
    if (delta?.kind === 'call') calls.push({ ...delta.call, arguments: '' })
    const open = calls.at(-1)
    if (delta?.kind === 'arguments' && open !== undefined) open.arguments += delta.text
  }
  return { text, calls }
}

/** The text of each token; characters that two tokens share go with the later one. */
function argumentFragments(source: string, tokens: number): string[] {
  const bytes = Buffer.from(source)
  const decoder = new StringDecoder('utf8')
  return Array.from({ length: tokens }, (_, i) =>
    decoder.write(bytes.subarray(i * BYTES_A_TOKEN, (i + 1) * BYTES_A_TOKEN)),
  )
}

const CONSONANTS = 'bdfghklmnprstvz'
const VOWELS = 'aeiou'

/** Words of three letters and a space, or a full stop for the last. */
function wordSource(seed: number): (last: boolean) => string {
  let state = seed
  const draw = (letters: string): string => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return letters.charAt((state >>> 16) % letters.length)
  }
  return (last) => draw(CONSONANTS) + draw(VOWELS) + draw(CONSONANTS) + (last ? '.' : ' ')
}

export {
  type Answer,
  compose,
  type Delta,
  defaultScript,
  type Finish,
  type Script,
  type ScriptedAnswer,
  type ScriptRequest,
  said,
  type ToolCall,
}
