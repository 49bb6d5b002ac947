/**
 * The engine double: an inference server that behaves like one without a model or a GPU.
 *
 * It serves three wire dialects over HTTP on loopback. What it takes how long, what is cached and
 * what is not, comes from the engine model, paced by real time; what it says is drawn from the
 * prompt or scripted. It can be told to fail. It knows nothing of the router that calls it and
 * shares no code with it, so that it can check it.
 */
import { once } from 'node:events'
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { performance } from 'node:perf_hooks'

import type { EngineModelOptions, EngineModelStatus } from '../simulation.js'
import { defaultScript, type Script } from './answer.js'
import { readJson } from './body.js'
import { chat } from './chat.js'
import { Generation, type RequestEnd, sendJson } from './generation.js'
import { IssuerRegistry } from './issuer.js'
import type { Json } from './json.js'
import { messages, readMessages } from './messages.js'
import { DoubleMetrics } from './metrics.js'
import { Pacer } from './pacer.js'
import { renderPrompt } from './prompt.js'
import { responses } from './responses.js'
import { Sample, type SampleSummary } from './sample.js'
import { ResponseStore } from './store.js'
import { type Dialect, openaiError, Refusal, type Reply } from './wire.js'

interface EngineDoubleOptions {
  /** Names it in its status. Default: its address. */
  id?: string
  /** Port on 127.0.0.1; 0, the default, takes a free one. */
  port?: number
  /** The only model it serves. Default: any name is served and repeated. */
  model?: string
  /** Model time for each unit of real time, above 0. Default 1. */
  speed?: number
  /** Real time (performance.now()) at which its model time is 0. Default: when it starts. */
  epoch?: number
  /** The engine to model. */
  engine?: EngineModelOptions
  /** Whose tool call ids it accepts. Default: only its own. */
  issuer?: IssuerRegistry
  /** What it answers. Default: see `defaultScript`. */
  script?: Script
  /** Largest request body, bytes. Default 64 MiB. */
  bodyBytes?: number
  /** Which requests fail, and how; asked once a request, beside what `fail` has ordered. */
  faults?: (headers: IncomingHttpHeaders) => Fault | undefined
  /** Told of every request that reached the engine, when it ends there. */
  onRequestEnd?: (end: RequestEnd) => void
}

/** A way to fail: an answer of that status, no answer, or an answer that breaks off in the middle. */
type Fault = '401' | '429' | '503' | 'stall' | 'cut'

/** What an answer that says no is given, by its status. */
const SAID_NO: Partial<Record<Fault, { message: string; code: string }>> = {
  '401': { message: 'The credential is not valid.', code: 'invalid_api_key' },
  '429': { message: 'Too many requests.', code: 'rate_limit_exceeded' },
  '503': { message: 'The engine is not available.', code: 'service_unavailable' },
}

/** More about a way to fail. */
interface FaultOptions {
  /** The header `retry-after` of the answers that say no, as sent. */
  retryAfter?: string
}

interface EngineDoubleStatus {
  id: string
  url: string
  model: string | undefined
  /** Generation requests received; those refused with an error of the client's. */
  requests: number
  refused: number
  /** Of these, requests with a tool result or a response id that was not issued here. */
  foreign: number
  /** Requests that failed as told. */
  faults: Record<Fault, number>
  engine: EngineModelStatus
  /** How late clients saw an event, model ms. */
  lagMs: SampleSummary
  /** Model time from arrival to the first token, ms. */
  ttftMs: SampleSummary
  nowMs: number
}

const DEFAULT_BODY_BYTES = 64 * 1024 * 1024
const DEFAULT_MODEL = 'double'

/** A running double. */
class EngineDouble {
  readonly issuer: IssuerRegistry
  readonly #options: EngineDoubleOptions
  readonly #pacer: Pacer
  readonly #server: Server
  readonly #store = new ResponseStore()
  readonly #metrics = new DoubleMetrics()
  readonly #ttft = new Sample()
  readonly #counts = { requests: 0, refused: 0, foreign: 0 }
  readonly #faulted: Record<Fault, number> = {
    '401': 0,
    '429': 0,
    '503': 0,
    stall: 0,
    cut: 0,
  }
  readonly #capacityTokens: number
  #fault: { mode: Fault; left: number; retryAfter: string | undefined } | undefined
  #url = ''

  constructor(options: EngineDoubleOptions) {
    const { speed = 1, epoch = performance.now(), engine = {}, issuer } = options
    if (!(Number.isFinite(speed) && speed > 0)) {
      throw new RangeError(`speed must be a finite number above 0, not ${speed}`)
    }
    this.#options = options
    this.issuer = issuer ?? new IssuerRegistry()
    this.#pacer = new Pacer({ engine, speed, epoch })
    const { blockSize, numGpuBlocks } = this.#pacer.status()
    this.#capacityTokens = blockSize * numGpuBlocks
    this.#server = createServer((request, response) => this.#serve(request, response))
  }

  /** Where it listens, without a slash at the end. */
  get url(): string {
    return this.#url
  }

  async listen(): Promise<void> {
    this.#server.listen(this.#options.port ?? 0, '127.0.0.1')
    await once(this.#server, 'listening')
    this.#url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Lets the next `count` generation requests fail; without a mode, none. */
  fail(mode: Fault | undefined, count = 1, { retryAfter }: FaultOptions = {}): void {
    this.#fault = mode === undefined ? undefined : { mode, left: count, retryAfter }
  }

  status(): EngineDoubleStatus {
    return {
      id: this.#options.id ?? this.#url,
      url: this.#url,
      model: this.#options.model,
      ...this.#counts,
      faults: { ...this.#faulted },
      engine: this.#pacer.status(),
      lagMs: this.#pacer.lag(),
      ttftMs: this.#ttft.summary(),
      nowMs: this.#pacer.now(),
    }
  }

  /** Breaks every connection and leaves nothing that keeps the process alive. */
  async close(): Promise<void> {
    this.#pacer.close()
    if (!this.#server.listening) return
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.#server.closeAllConnections()
    await closed
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const { pathname } = new URL(request.url ?? '/', 'http://double')
    const dialect =
      DIALECTS[pathname] ?? (pathname.startsWith('/v1/messages') ? messages : undefined)
    const shape = dialect?.error ?? openaiError
    this.#route(request, response, pathname).catch((error: unknown) => {
      if (response.destroyed || response.headersSent) return
      if (error instanceof Refusal) {
        this.#counts.refused += 1
        if (FOREIGN.has(error.code)) this.#counts.foreign += 1
        sendJson(
          response,
          error.status,
          shape(error.status, error.message, error.code, error.param),
        )
        return
      }
      const message = error instanceof Error ? error.message : String(error)
      sendJson(response, 500, shape(500, message, 'internal_error', null))
    })
  }

  async #route(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    const dialect = DIALECTS[path]
    if (request.method === 'POST' && dialect !== undefined) {
      return this.#generate(request, response, dialect)
    }
    if (request.method === 'POST' && path === '/v1/messages/count_tokens') {
      const ask = readMessages(await this.#body(request))
      return sendJson(response, 200, { input_tokens: renderPrompt(ask.messages).length })
    }
    if (request.method === 'GET' || request.method === 'HEAD') return this.#look(response, path)
    throw new Refusal(404, 'Not Found', 'not_found')
  }

  /** What can be read from it. */
  #look(response: ServerResponse, path: string): void {
    if (path === '/health') {
      response.writeHead(200).end()
    } else if (path === '/metrics') {
      const text = this.#metrics.render(this.#model, this.#pacer.status())
      response
        .writeHead(200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' })
        .end(text)
    } else if (path === '/v1/models') {
      sendJson(response, 200, { object: 'list', data: [this.#modelCard()] })
    } else if (path.startsWith('/v1/responses/')) {
      const id = decodeURIComponent(path.slice('/v1/responses/'.length))
      const stored = this.#store.response(id)
      if (stored === undefined) {
        throw new Refusal(404, `Response with id '${id}' not found.`, 'not_found', 'response_id')
      }
      sendJson(response, 200, stored)
    } else {
      throw new Refusal(404, 'Not Found', 'not_found')
    }
  }

  async #generate(
    request: IncomingMessage,
    response: ServerResponse,
    dialect: Dialect,
  ): Promise<void> {
    this.#counts.requests += 1
    const retryAfter = this.#fault?.retryAfter
    const fault = this.#takeFault(request.headers)
    if (fault === 'stall') return
    const body = await this.#body(request)
    const no = fault === undefined ? undefined : SAID_NO[fault]
    if (no !== undefined) {
      if (retryAfter !== undefined) response.setHeader('retry-after', retryAfter)
      const error = dialect.error(Number(fault), no.message, no.code, null)
      return sendJson(response, Number(fault), error)
    }
    const ask = dialect.read(body, (id) => this.#store.items(id))
    this.#refuseForeign(ask.model, ask.answered)
    const context = {
      pacer: this.#pacer,
      issuer: this.issuer,
      script: this.#options.script ?? defaultScript,
      model: this.#model,
      capacityTokens: this.#capacityTokens,
      onEnd: (end: RequestEnd) => this.#ended(end),
      onReply: (reply: Reply) => {
        if (dialect === responses) this.#store.add(reply.id, body, responses.json(reply))
      },
    }
    const fate = fault === 'cut' ? 'cut' : 'whole'
    new Generation(context, { dialect, ask, headers: request.headers, response, fate }).start()
  }

  #takeFault(headers: IncomingHttpHeaders): Fault | undefined {
    const mode = this.#options.faults?.(headers)
    const fault = mode === undefined ? this.#fault : { mode, left: Number.POSITIVE_INFINITY }
    if (fault === undefined) return undefined
    fault.left -= 1
    if (fault.left <= 0) this.#fault = undefined
    this.#faulted[fault.mode] += 1
    return fault.mode
  }

  #refuseForeign(model: string | undefined, answered: readonly string[]): void {
    const own = this.#options.model
    if (own !== undefined && model !== undefined && model !== own) {
      throw new Refusal(404, `The model \`${model}\` does not exist.`, 'model_not_found', 'model')
    }
    const foreign = answered.find((id) => !this.issuer.has(id))
    if (foreign !== undefined) {
      const message = `No tool call found for the result with call id ${foreign}.`
      throw new Refusal(400, message, 'unknown_tool_call', 'tool_call_id')
    }
  }

  #ended(end: RequestEnd): void {
    const seconds = (ms: number) => (ms - end.arrivalMs) / 1000
    const { firstTokenMs } = end
    const first = firstTokenMs === undefined ? undefined : seconds(firstTokenMs)
    if (first !== undefined) this.#ttft.add(first * 1000)
    const done = end.end === 'complete' || end.end === 'cacheFull'
    const outcome = done ? (end.finish === 'length' ? 'length' : 'stop') : 'abort'
    this.#metrics.ended(outcome, seconds(end.endMs), first)
    this.#options.onRequestEnd?.(end)
  }

  #body(request: IncomingMessage): Promise<Json> {
    return readJson(request, this.#options.bodyBytes ?? DEFAULT_BODY_BYTES)
  }

  get #model(): string {
    return this.#options.model ?? DEFAULT_MODEL
  }

  #modelCard(): Json {
    return {
      id: this.#model,
      object: 'model',
      created: 0,
      owned_by: 'warmpath',
      root: this.#model,
      parent: null,
      max_model_len: this.#capacityTokens,
    }
  }
}

/** Codes of what another one has issued. */
const FOREIGN: ReadonlySet<string> = new Set(['unknown_tool_call', 'previous_response_not_found'])

const DIALECTS: Record<string, Dialect> = {
  '/v1/chat/completions': chat,
  '/v1/responses': responses,
  '/v1/messages': messages,
}

/** Starts a double; it listens when the promise is fulfilled. */
async function startEngineDouble(options: EngineDoubleOptions = {}): Promise<EngineDouble> {
  const double = new EngineDouble(options)
  await double.listen()
  return double
}

export {
  EngineDouble,
  type EngineDoubleOptions,
  type EngineDoubleStatus,
  type Fault,
  type FaultOptions,
  startEngineDouble,
}
