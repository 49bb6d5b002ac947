/**
 * One worker of the options: its name, address, capacity and events.
 *
 * Also used when a worker is added at run time, so paths are given by the caller. Knows nothing of
 * groups and targets.
 */
import {
  dictionary,
  fields,
  list,
  MAX_COUNT,
  name,
  number,
  refuse,
  secretText,
  shown,
} from './check.js'
import { HOP_BY_HOP, OF_ONE_CONNECTION } from './connection.js'
import { type KvEventsEntry, kvEventsEntry } from './events.js'

export interface WorkerEntry {
  readonly name: string
  /** Base address without a trailing slash; may end in a path prefix. */
  readonly url: string
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  readonly capacityTokens?: number
  readonly kvEvents?: KvEventsEntry
}

const WORKER_FIELDS = ['id', 'url', 'capacityTokens', 'headers', 'kvEvents']
const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

export function workerEntry(
  value: unknown,
  path: string,
  known: readonly string[] = WORKER_FIELDS,
): WorkerEntry {
  const given = fields(value, path, known)
  const url = baseUrl(given.url, `${path}.url`)
  return {
    name: given.id === undefined ? url.host : name(given.id, `${path}.id`),
    url: url.href.replace(/\/+$/, ''),
    headers: headerTable(given.headers, `${path}.headers`),
    ...(given.capacityTokens === undefined
      ? {}
      : {
          capacityTokens: number(given.capacityTokens, `${path}.capacityTokens`, {
            min: 1,
            max: MAX_COUNT,
            kind: 'integer',
          }),
        }),
    ...(given.kvEvents === undefined
      ? {}
      : { kvEvents: kvEventsEntry(given.kvEvents, `${path}.kvEvents`) }),
  }
}

/** Fields of a worker that is added to a running scheduler. */
export const ADDED_WORKER_FIELDS = [...WORKER_FIELDS, 'targets']

/** Names of the targets that such a worker serves, if any are given. */
export function addedTargets(value: unknown): string[] | undefined {
  const path = 'worker.targets'
  return value === undefined
    ? undefined
    : list(value, path).map((item, at) => name(item, `${path}[${at}]`))
}

export function headerName(value: unknown, path: string): string {
  if (typeof value !== 'string' || !HEADER_NAME.test(value)) {
    refuse(path, 'must be a header name', shown(value))
  }
  return value.toLowerCase()
}

function ownHeader(key: string, path: string): string {
  const header = headerName(key, path)
  if (HOP_BY_HOP.has(header) || OF_ONE_CONNECTION.has(header)) {
    refuse(`${path}.${key}`, 'is written by whoever opens the connection and cannot be set')
  }
  return header
}

function baseUrl(value: unknown, path: string): URL {
  const url = typeof value === 'string' && URL.canParse(value) ? new URL(value) : undefined
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    refuse(path, 'must be an absolute http:// or https:// address', shown(value))
  }
  if (url.username !== '' || url.password !== '') {
    refuse(path, 'must not carry a user name or password, use `headers`')
  }
  if (url.search !== '' || url.hash !== '') refuse(path, 'must not carry a query or fragment')
  return url
}

function headerTable(value: unknown, path: string): Readonly<Record<string, string>> {
  if (value === undefined) return {}
  const entries = Object.entries(dictionary(value, path)).map(
    ([key, text]) => [ownHeader(key, path), secretText(text, `${path}.${key}`)] as const,
  )
  return Object.fromEntries(entries)
}
