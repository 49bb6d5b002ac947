/**
 * The stores that groups of engines share: where they publish, which pages count and how those are cut.
 *
 * A page is named as the engines' events name the block that it holds, so a store without such events
 * could never earn anything and is refused. Knows a group by one of its targets. Throws CONFIG with the path
 * of the field, also where fields contradict one another.
 */
import { fields, join, list, name, number, oneOf, refuse, shown } from './check.js'
import { isListenedAt, publisher } from './events.js'

export interface PoolEntry {
  readonly name: string
  readonly group: number
  readonly events: string
  /** Base address of the store's master, without a trailing slash; absent: it is not asked. */
  readonly http?: string
  readonly space?: string
  readonly tenant?: string
  readonly pages: number
  readonly layout: PoolLayout
}

export interface PoolLayout {
  readonly tensorParallel: number
  readonly copies: number
  readonly pipelineParallel: number
  readonly prefillContextParallel: number
  readonly decodeContextParallel: number
  readonly cacheGroups: number
  /** Objects of a rank's keys and values. */
  readonly halves: number
}

/** What a pool needs to know of the rest of the options. */
export interface PoolSurroundings {
  /** Targets and the group of each. */
  readonly targets: readonly { readonly name: string; readonly group: number }[]
  /** Groups with a worker that has `kvEvents`. */
  readonly told: ReadonlySet<number>
}

const POOL_FIELDS = ['id', 'target', 'events', 'http', 'space', 'tenant', 'pages', 'layout']
const RANKS = [
  'tensorParallel',
  'copies',
  'pipelineParallel',
  'prefillContextParallel',
  'decodeContextParallel',
  'cacheGroups',
] as const
const KEYS_AND_VALUES = ['together', 'apart'] as const
/** Of one page. */
const MAX_OBJECTS = 1024
const PAGES = { min: 1, max: 16_777_216, kind: 'integer' } as const
const DEFAULT_PAGES = 262_144

export function poolEntries(value: unknown, around: PoolSurroundings): PoolEntry[] {
  const pools: PoolEntry[] = []
  for (const [at, item] of list(value ?? [], 'pools').entries()) {
    const path = `pools[${at}]`
    const pool = poolEntry(item, path, around)
    if (pools.some((other) => other.name === pool.name)) {
      refuse(`${path}.id`, 'ids must be unique', shown(pool.name))
    }
    const other = pools.find(({ group }) => group === pool.group)
    if (other !== undefined) {
      refuse(`${path}.target`, 'workers share one pool', `they have ${shown(other.name)}`)
    }
    pools.push(pool)
  }
  return pools
}

function poolEntry(value: unknown, path: string, around: PoolSurroundings): PoolEntry {
  const given = fields(value, path, POOL_FIELDS)
  const events = publisher(given.events, `${path}.events`)
  if (isListenedAt({ endpoint: events })) {
    refuse(`${path}.events`, 'must name a host: masters are connected to', shown(events))
  }
  const layout = layoutOf(given.layout, `${path}.layout`)
  return {
    name: name(given.id, `${path}.id`),
    group: groupOf(given.target, `${path}.target`, around),
    events,
    ...(given.http === undefined ? {} : { http: httpOf(given.http, `${path}.http`) }),
    ...(given.space === undefined ? {} : { space: spaceOf(given.space, `${path}.space`) }),
    ...(given.tenant === undefined ? {} : { tenant: name(given.tenant, `${path}.tenant`) }),
    pages: number(given.pages ?? DEFAULT_PAGES, `${path}.pages`, PAGES),
    layout,
  }
}

function layoutOf(value: unknown, path: string): PoolLayout {
  const given = fields(value ?? {}, path, [...RANKS, 'keysAndValues'])
  const range = { min: 1, max: MAX_OBJECTS, kind: 'integer' } as const
  const size = (field: (typeof RANKS)[number]) =>
    number(given[field] ?? 1, join(path, field), range)
  const keysAndValues = oneOf(
    given.keysAndValues ?? 'together',
    `${path}.keysAndValues`,
    KEYS_AND_VALUES,
  )
  const layout: PoolLayout = {
    tensorParallel: size('tensorParallel'),
    copies: size('copies'),
    pipelineParallel: size('pipelineParallel'),
    prefillContextParallel: size('prefillContextParallel'),
    decodeContextParallel: size('decodeContextParallel'),
    cacheGroups: size('cacheGroups'),
    halves: keysAndValues === 'apart' ? 2 : 1,
  }
  if (layout.tensorParallel % layout.copies !== 0) {
    refuse(`${path}.copies`, 'must divide tensorParallel', shown(layout.copies))
  }
  const { copies, ...sizes } = layout
  const objects = Object.values(sizes).reduce((all, size) => all * size, 1) / copies
  if (objects > MAX_OBJECTS) {
    refuse(path, `must come to at most ${MAX_OBJECTS} objects a page`, shown(objects))
  }
  return layout
}

function groupOf(value: unknown, path: string, { targets, told }: PoolSurroundings): number {
  const all = [...new Set(targets.map(({ group }) => group))]
  if (value === undefined && all.length !== 1) {
    refuse(path, 'must name a target whose workers share it, since there are several')
  }
  const named = value === undefined ? undefined : name(value, path)
  const found = named === undefined ? all[0] : targets.find((each) => each.name === named)?.group
  if (found === undefined) {
    const known = targets.map((target) => target.name).join(', ')
    refuse(path, `must be one of ${known}`, shown(value))
  }
  if (!told.has(found)) {
    refuse(path, 'needs workers with kvEvents, which say what the pages hold')
  }
  return found
}

function httpOf(value: unknown, path: string): string {
  const url = typeof value === 'string' && URL.canParse(value) ? new URL(value) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    refuse(path, 'must be an absolute http:// or https:// address', shown(value))
  }
  if (url.username !== '' || url.password !== '') {
    refuse(path, 'must not carry a user name or password')
  }
  if (url.search !== '' || url.hash !== '') refuse(path, 'must not carry a query or fragment')
  return url.href.replace(/\/+$/, '')
}

/** Keys of some writers have nothing in front of the page. */
function spaceOf(value: unknown, path: string): string {
  return value === '' ? '' : name(value, path)
}
