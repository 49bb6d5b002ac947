/**
 * The master of a Mooncake store, as far as a router meets it: libzmq's publisher with its messages, written
 * here byte by byte after the layout of its own publisher, and the questions that it answers over HTTP.
 */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Publisher } from 'zeromq'

type Kind = 'stored' | 'removed'

interface MasterOptions {
  /** Where another one was before. */
  readonly at?: string
  /** False: a build without events. */
  readonly publishes?: boolean
}

class Master implements AsyncDisposable {
  readonly #publisher = new Publisher()
  readonly #http: Server
  readonly #has = new Set<string>()
  readonly #publishes: boolean
  /** Paths that it was asked for. */
  readonly asked: string[] = []
  /** Answers with this status instead. */
  failing: number | undefined
  events = 'tcp://127.0.0.1:9'
  http = ''
  /** Of the last message; the first is 1. */
  sequence = 0

  private constructor(publishes: boolean) {
    this.#publishes = publishes
    this.#http = createServer((request, response) => {
      const url = new URL(request.url ?? '/', 'http://master')
      this.asked.push(url.pathname)
      const body = this.failing === undefined ? this.#answer(url) : undefined
      response.writeHead(body === undefined ? (this.failing ?? 404) : 200)
      response.end(body === undefined ? '' : JSON.stringify(body))
    })
  }

  static async start({ at, publishes = true }: MasterOptions = {}): Promise<Master> {
    const master = new Master(publishes)
    if (publishes) {
      await master.#publisher.bind(at ?? 'tcp://127.0.0.1:*')
      master.events = master.#publisher.lastEndpoint ?? ''
    }
    await new Promise<void>((listening) => master.#http.listen(0, '127.0.0.1', listening))
    master.http = `http://127.0.0.1:${(master.#http.address() as AddressInfo).port}`
    return master
  }

  /** `lost`: as if the subscriber had been too slow for it. */
  async put(keys: readonly string[], lost = false): Promise<void> {
    for (const key of keys) this.#has.add(key)
    await this.#tell('stored', keys, lost)
  }

  async remove(keys: readonly string[], lost = false): Promise<void> {
    for (const key of keys) this.#has.delete(key)
    await this.#tell('removed', keys, lost)
  }

  /** Without a word, as `RemoveAll` or the loss of a machine. */
  lose(keys: readonly string[] = [...this.#has]): void {
    for (const key of keys) this.#has.delete(key)
  }

  async raw(payload: Buffer): Promise<void> {
    this.sequence += 1
    await this.#publisher.send([Buffer.alloc(0), this.#number(), payload])
  }

  async #tell(kind: Kind, keys: readonly string[], lost: boolean): Promise<void> {
    for (let from = 0; from < keys.length; from += 64) {
      const payload = message(kind, keys.slice(from, from + 64))
      this.sequence += 1
      if (!lost) await this.#publisher.send([Buffer.alloc(0), this.#number(), payload])
    }
  }

  #number(): Buffer {
    const bytes = Buffer.alloc(8)
    bytes.writeBigUInt64BE(BigInt(this.sequence))
    return bytes
  }

  #answer({ pathname, search }: URL): object | undefined {
    if (pathname === '/kv_events/status') {
      return { enabled: this.#publishes, published_batches: this.sequence, dropped_events: 0 }
    }
    if (pathname !== '/batch_query_keys') return undefined
    const keys = search.slice('?keys='.length).split(',').map(decodeURIComponent)
    const data = keys.map((key) => {
      const found = this.#has.has(key)
      return [key, { ok: found, error: found ? null : 'OBJECT_NOT_FOUND', values: null }] as const
    })
    return { success: true, data: Object.fromEntries(data) }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#publisher.close()
    this.#http.closeAllConnections()
    await new Promise((closed) => this.#http.close(closed))
  }
}

/** `[milliseconds, [event...], 0]`. */
function message(kind: Kind, keys: readonly string[]): Buffer {
  const time = Buffer.alloc(9)
  time[0] = 0xcf
  time.writeBigUInt64BE(1_789_095_808_500n, 1)
  const head = Buffer.from([0xdc, keys.length >> 8, keys.length & 0xff])
  const events = keys.map((key, at) => event(kind, key, at))
  return Buffer.concat([Buffer.from([0x93]), time, head, ...events, Buffer.from([0])])
}

function event(kind: Kind, key: string, at: number): Buffer {
  const text = (value: string) => {
    const bytes = Buffer.from(value)
    return Buffer.concat([Buffer.from([0xda, bytes.length >> 8, bytes.length & 0xff]), bytes])
  }
  const nil = Buffer.from([0xc0])
  const none = Buffer.from([0x90])
  const pairs: [string, Buffer][] = [
    ['event_id', Buffer.from([at + 1])],
    ['event_type', text(kind)],
    ['type', text(kind === 'stored' ? 'BlockStored' : 'BlockRemoved')],
    ['model_name', nil],
    ['block_size', nil],
    ['tenant_id', text('default')],
    ['backend_id', text('store-1')],
    ['group_id', nil],
    ['medium', text('cpu')],
    ['object_key', text(key)],
    ['seq_hashes', none],
    ['block_hashes', none],
    ...(kind === 'stored' ? ([['token_ids', nil]] as [string, Buffer][]) : []),
  ]
  const parts = pairs.flatMap(([name, value]) => [text(name), value])
  return Buffer.concat([Buffer.from([0x80 | pairs.length]), ...parts])
}

export { Master }
