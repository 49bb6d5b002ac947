/**
 * Question: what becomes of each shared store when one configuration follows another?
 *
 * A store whose events, group, layout or objects are others is another one: what was known of it is void at
 * once. Where it is asked over HTTP may change as it likes.
 */
import { isDeepStrictEqual } from 'node:util'
import type { PoolEntry } from '../config/index.js'

/** A store, and the core's number of its group; undefined for one that is yet to be made. */
export interface Placed {
  readonly pool: PoolEntry
  readonly group: number | undefined
}

export interface PoolPlan {
  readonly come: readonly PoolEntry[]
  readonly replaced: readonly PoolEntry[]
  readonly gone: readonly PoolEntry[]
}

export function planPools(before: readonly Placed[], next: readonly Placed[]): PoolPlan {
  const was = new Map(before.map((placed) => [placed.pool.name, placed]))
  const is = new Set(next.map(({ pool }) => pool.name))
  const isSame = (placed: Placed) =>
    isDeepStrictEqual(known(was.get(placed.pool.name)), known(placed))
  return {
    come: next.flatMap(({ pool }) => (was.has(pool.name) ? [] : [pool])),
    replaced: next.flatMap((placed) => {
      return was.has(placed.pool.name) && !isSame(placed) ? [placed.pool] : []
    }),
    gone: before.flatMap(({ pool }) => (is.has(pool.name) ? [] : [pool])),
  }
}

function known(placed: Placed | undefined): object {
  const { http: _, group: __, ...pool } = placed?.pool ?? { http: undefined, group: 0 }
  return { ...pool, group: placed?.group }
}
