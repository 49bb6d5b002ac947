/**
 * What outlives a restart: the scheduler's state as bytes, out and in.
 *
 * Out in slices of one native call each, between which the event loop has its turn; in at once, before
 * the first turn. What is in the bytes, and whether they are whole, is the core's business.
 */
import { setImmediate } from 'node:timers/promises'

import { refuseArgument } from '../argument.js'
import type { Link } from '../link.js'
import { native } from '../native.js'

/** How a snapshot is read. */
export interface RestoreOptions {
  /**
   * What to make of cached blocks that an engine's own events vouched for: forget them, since events
   * were missed meanwhile (`drop`, the default), believe them as predictions that age
   * (`as-predicted`), or let them stand because every event since will be replayed (`keep`).
   */
  readonly exact?: keyof typeof EXACT
}

/** What came of a snapshot. */
export interface Restored {
  /** Distinct blocks in the prefix index. */
  readonly blocks: number
  readonly sessions: number
  /** Ids of tool calls and provider state whose owner is known. */
  readonly owners: number
  /** What was in it and is not here: its worker is gone, it is too old, or there is no room. */
  readonly dropped: {
    /** Caches of workers that are not there any more, and of those below. */
    readonly places: number
    /**
     * Workers that are there, but with another `cache.blockTokens`: what was known of their caches is
     * left out.
     */
    readonly resized: number
    /** Blocks, each as often as a worker held it. */
    readonly blocks: number
    readonly sessions: number
    readonly owners: number
  }
}

const EXACT = { drop: 0, 'as-predicted': 1, keep: 2 } as const

/** Bytes of a slice; writing them takes well under a millisecond. */
const SLICE_BYTES = 256 * 1024

/** Begins when the first chunk is asked for; the state is that at the last chunk. */
export async function* writeSnapshot(link: Link): AsyncGenerator<Uint8Array, void, undefined> {
  const snapshot = link.read((handle) => native.beginSnapshot(handle))
  try {
    for (;;) {
      const chunk = new Uint8Array(SLICE_BYTES)
      const length = link.read((handle, now) => native.writeSnapshot(handle, snapshot, now, chunk))
      if (length === 0) return
      yield chunk.subarray(0, length)
      await setImmediate()
    }
  } finally {
    link.read((handle) => native.endSnapshot(handle, snapshot))
  }
}

/** Throws INVALID_ARGUMENT for what is no option, and for what an option cannot be. */
export function checkRestoreOptions(options: unknown): Required<RestoreOptions> {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    refuseArgument('options', 'an object')
  }
  const { exact = 'drop', ...others } = options as RestoreOptions
  const [odd] = Object.keys(others)
  if (odd !== undefined) refuseArgument(`options.${odd}`, 'left out: the only option is exact')
  if (!Object.hasOwn(EXACT, exact)) refuseArgument('options.exact', Object.keys(EXACT).join(', '))
  return { exact }
}

export function readSnapshot(
  link: Link,
  bytes: Uint8Array,
  options: Required<RestoreOptions>,
): Restored {
  const exact = EXACT[options.exact]
  let report = ''
  link.call((handle, now, out) => {
    report = native.restoreSnapshot(handle, now, bytes, exact, out)
  })
  return JSON.parse(report)
}
