/**
 * Records for whoever subscribes to `warmpath:trace` on node:diagnostics_channel; none is made while
 * nobody does.
 */
import type { TraceSink } from '../config/index.js'
import { published } from '../telemetry/index.js'

export function diagnostics(): TraceSink {
  return {
    wants: () => published.wantsTraces,
    write: (records) => {
      for (const record of records) published.trace(record)
    },
  }
}
