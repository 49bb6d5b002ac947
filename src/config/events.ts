/**
 * Where a worker's engine publishes what its cache holds.
 *
 * A text is the publisher's endpoint; an object says more. Addresses are ZeroMQ's, over TCP only; one
 * whose host is `*` is listened at instead, for engines that connect by themselves. Each data-parallel
 * rank has the next port.
 */
import { dictionary, fields, number, refuse, shown } from './check.js'

export interface KvEventsEntry {
  readonly endpoint: string
  readonly replay?: string
  readonly topic?: string
  readonly ranks?: number
}

/** A port for each has to be listened to. */
const MAX_RANKS = 64
const ENDPOINT = /^tcp:\/\/(\[[0-9a-fA-F:]+\]|[^\s:/@[\]]+):(\d{1,5})$/
const MAX_PORT = 0xffff
/** Hosts of addresses that are listened at. */
const ANY_HOST = new Set(['*', '0.0.0.0', '[::]'])

/** Whether the engine is asked for its events over HTTP. */
export function isPulled({ endpoint }: KvEventsEntry): boolean {
  return /^https?:/.test(endpoint)
}

/** Throws CONFIG with the path of the field, also where fields contradict one another. */
export function kvEventsEntry(value: unknown, path: string): KvEventsEntry {
  if (typeof value === 'string') return { endpoint: address(value, path) }
  dictionary(value, path)
  const given = fields(value, path, ['endpoint', 'replay', 'topic', 'ranks'])
  const ranks =
    given.ranks === undefined
      ? 1
      : number(given.ranks, `${path}.ranks`, { min: 1, max: MAX_RANKS, kind: 'integer' })
  const published = address(given.endpoint, `${path}.endpoint`, ranks)
  if (isPulled({ endpoint: published })) {
    for (const field of ['replay', 'topic', 'ranks']) {
      if (given[field] !== undefined) refuse(`${path}.${field}`, 'needs a tcp:// endpoint')
    }
    return { endpoint: published }
  }
  return {
    endpoint: published,
    ...(given.replay === undefined
      ? {}
      : { replay: replay(given.replay, `${path}.replay`, { published, ranks }) }),
    ...(given.topic === undefined ? {} : { topic: topic(given.topic, `${path}.topic`) }),
    ...(given.ranks === undefined ? {} : { ranks }),
  }
}

/** Whether the engine connects to us. */
export function isListenedAt({ endpoint }: KvEventsEntry): boolean {
  return !isPulled({ endpoint }) && ANY_HOST.has(portsOf(endpoint, 1).host)
}

/** Whether this process would have to listen at one port for both; only one of them would be heard. */
export function isListenedAtByBoth(one: KvEventsEntry, other: KvEventsEntry): boolean {
  const [a, b] = [portsOf(one.endpoint, one.ranks ?? 1), portsOf(other.endpoint, other.ranks ?? 1)]
  return ANY_HOST.has(a.host) && ANY_HOST.has(b.host) && overlap(a, b)
}

/** A publisher's endpoint, or where an engine hands its events out. */
function address(value: unknown, path: string, ranks = 1): string {
  if (typeof value !== 'string' || !/^https?:/.test(value)) return endpoint(value, path, ranks)
  const url = URL.canParse(value) ? new URL(value) : undefined
  if (url === undefined || url.username !== '' || url.password !== '' || url.hash !== '') {
    refuse(path, 'must be an http:// address without a user name, or tcp://host:port', shown(value))
  }
  return value
}

/** A publisher's endpoint, over TCP. */
export function publisher(value: unknown, path: string): string {
  return endpoint(value, path, 1)
}

function endpoint(value: unknown, path: string, ranks: number): string {
  const port = Number(typeof value === 'string' ? (ENDPOINT.exec(value)?.[2] ?? 0) : 0)
  if (typeof value !== 'string' || port < 1 || port > MAX_PORT) {
    refuse(path, 'must be tcp://host:port', shown(value))
  }
  if (port + ranks - 1 > MAX_PORT) refuse(path, 'has no port left for each rank', shown(value))
  return value
}

interface Published {
  readonly published: string
  readonly ranks: number
}

function replay(value: unknown, path: string, { published, ranks }: Published): string {
  const address = endpoint(value, path, ranks)
  const [asked, heard] = [portsOf(address, ranks), portsOf(published, ranks)]
  if (ANY_HOST.has(asked.host)) {
    refuse(path, 'must name a host: it is the engine that is asked', shown(address))
  }
  if (asked.host === heard.host && overlap(asked, heard)) {
    refuse(path, 'must have other ports than the ranks of `endpoint`', shown(address))
  }
  return address
}

/** The ports of all ranks, the last one included. */
interface Ports {
  readonly host: string
  readonly first: number
  readonly last: number
}

function portsOf(address: string, ranks: number): Ports {
  const [, host = '', port] = ENDPOINT.exec(address) ?? []
  return { host: host.toLowerCase(), first: Number(port), last: Number(port) + ranks - 1 }
}

function overlap(one: Ports, other: Ports): boolean {
  return one.first <= other.last && other.first <= one.last
}

function topic(value: unknown, path: string): string {
  if (typeof value !== 'string' || value.length > 256) {
    refuse(path, 'must be a string of at most 256 characters', shown(value))
  }
  return value
}
