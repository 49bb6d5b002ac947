/**
 * One generation request, from the parsed body to the last byte.
 *
 * It submits the prompt to the paced model and passes on what each step makes, as a stream or at
 * the end as one document. A client that goes away gives its request up in the model.
 */
import { randomBytes } from 'node:crypto'
import type { IncomingHttpHeaders, ServerResponse } from 'node:http'

import { type Answer, compose, type Delta, type Finish, type Script, said } from './answer.js'
import type { IssuerRegistry } from './issuer.js'
import type { Pacer, Progress } from './pacer.js'
import { hashTokens, renderPrompt } from './prompt.js'
import {
  type Ask,
  type Dialect,
  type DialectName,
  invalid,
  type Reply,
  type StreamWriter,
} from './wire.js'

/** How a request ended. Times are model ms since the double's epoch. */
interface RequestEnd {
  id: string
  dialect: DialectName
  end: 'complete' | 'cacheFull' | 'rejected' | 'cancelled'
  finish: Finish
  promptTokens: number
  cachedTokens: number
  outputTokens: number
  arrivalMs: number
  firstTokenMs: number | undefined
  endMs: number
  headers: IncomingHttpHeaders
}

interface GenerationContext {
  readonly pacer: Pacer
  readonly issuer: IssuerRegistry
  readonly script: Script
  readonly model: string
  readonly capacityTokens: number
  readonly onEnd: (end: RequestEnd) => void
  readonly onReply: (reply: Reply) => void
}

/** What is asked, by whom, and where the answer goes. */
interface Exchange {
  dialect: Dialect
  ask: Ask
  headers: IncomingHttpHeaders
  response: ServerResponse
  /** Whether the connection is to break in the middle of the answer. */
  fate: 'whole' | 'cut'
}

class Generation implements Reply {
  readonly id: string
  readonly created = Math.floor(Date.now() / 1000)
  readonly model: string
  readonly ask: Ask
  readonly #context: GenerationContext
  readonly #exchange: Exchange
  readonly #answer: Answer
  readonly #writer: StreamWriter
  readonly prompt: Uint32Array
  #progress: Progress | undefined
  #sent = 0
  #opened = false

  constructor(context: GenerationContext, exchange: Exchange) {
    const { dialect, ask, headers } = exchange
    this.#context = context
    this.#exchange = exchange
    this.ask = ask
    this.id = newId(dialect.replyPrefix)
    this.model = ask.model ?? context.model
    this.prompt = renderPrompt(ask.messages)
    refuseTooLong(this.prompt.length, context.capacityTokens)
    const request = {
      dialect: dialect.name,
      headers,
      body: ask.body,
      promptTokens: this.prompt.length,
      promptHash: hashTokens(this.prompt),
      maxOutputTokens: ask.maxOutputTokens,
      tools: ask.tools,
    }
    const newCallId = () => newId(dialect.callPrefix)
    this.#answer = compose(context.script(request), request, newCallId, context.issuer)
    this.#writer = dialect.stream(this)
  }

  get promptTokens(): number {
    return this.prompt.length
  }

  get output(): Uint32Array {
    return this.#answer.tokens.subarray(0, this.outputTokens)
  }

  get cachedTokens(): number {
    return this.#progress?.cachedTokens ?? 0
  }

  get outputTokens(): number {
    return this.#progress?.produced ?? 0
  }

  get finish(): Finish {
    return this.#progress?.end === 'cacheFull' ? 'length' : this.#answer.finish
  }

  get text(): string {
    return said(this.#answer, this.outputTokens).text
  }

  get calls() {
    return said(this.#answer, this.outputTokens).calls
  }

  start(): void {
    const { response } = this.#exchange
    const { pacer } = this.#context
    const progress = pacer.submit(this.prompt, this.#answer.tokens, (p) => this.#step(p))
    response.once('close', () => {
      if (progress.end === undefined) pacer.cancel(progress.id)
    })
    if (progress.end === undefined && this.ask.stream) this.#beginStream()
  }

  #beginStream(): void {
    const { response } = this.#exchange
    if (response.headersSent) return
    response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
    })
    response.flushHeaders()
  }

  #step(progress: Progress): void {
    this.#progress = progress
    const { response, fate } = this.#exchange
    const halfway = Math.ceil(this.#answer.tokens.length / 2)
    if (fate === 'cut' && progress.produced >= halfway) {
      if (this.ask.stream && !response.destroyed) this.#send(halfway)
      response.socket?.destroySoon()
    } else if (this.ask.stream && progress.end !== 'rejected' && !response.destroyed) {
      this.#send(progress.produced)
    }
    if (progress.end !== undefined) this.#finish(progress)
  }

  /** Writes what the tokens up to `produced` add. */
  #send(produced: number): void {
    const { response } = this.#exchange
    this.#beginStream()
    if (!this.#opened) {
      this.#opened = true
      response.write(this.#writer.open())
    }
    const deltas = merge(this.#answer.deltas.slice(this.#sent, produced))
    this.#sent = produced
    if (deltas.length > 0) response.write(this.#writer.write(deltas))
  }

  #finish(progress: Progress): void {
    const { response, fate, dialect } = this.#exchange
    const { end } = progress
    if (end === 'complete' || end === 'cacheFull') {
      if (fate === 'whole') {
        this.#context.onReply(this)
        if (this.ask.stream) response.end(this.#writer.close())
        else sendJson(response, 200, dialect.json(this))
      }
    } else if (end === 'rejected' && !response.destroyed) {
      sendJson(
        response,
        400,
        dialect.error(400, 'The prompt does not fit.', 'context_length_exceeded', null),
      )
    }
    this.#context.onEnd(this.#record(progress))
  }

  #record(progress: Progress): RequestEnd {
    const { dialect, headers } = this.#exchange
    return {
      id: this.id,
      dialect: dialect.name,
      end: progress.end ?? 'cancelled',
      finish: this.finish,
      promptTokens: this.promptTokens,
      cachedTokens: progress.cachedTokens,
      outputTokens: progress.produced,
      arrivalMs: progress.arrival,
      firstTokenMs: progress.firstToken,
      endMs: progress.ended ?? progress.arrival,
      headers,
    }
  }
}

/** Joins what follows on each other, so that a late step is one larger chunk. */
function merge(deltas: readonly (Delta | undefined)[]): Delta[] {
  const merged: Delta[] = []
  for (const delta of deltas) {
    if (delta === undefined) continue
    const last = merged.at(-1)
    if (last !== undefined && last.kind !== 'call' && last.kind === delta.kind) {
      merged[merged.length - 1] = { ...last, text: last.text + delta.text }
    } else {
      merged.push(delta)
    }
  }
  return merged
}

function newId(prefix: string): string {
  return prefix + randomBytes(12).toString('hex')
}

function refuseTooLong(tokens: number, capacity: number): void {
  if (tokens <= capacity) return
  throw invalid(
    `This model's maximum context length is ${capacity} tokens. However, your request has ${tokens} input tokens.`,
    'input_tokens',
  )
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  const bytes = Buffer.from(JSON.stringify(body))
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': bytes.length })
  response.end(bytes)
}

export { Generation, type GenerationContext, type RequestEnd, sendJson }
