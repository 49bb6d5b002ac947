/** Garbage collection on demand, for what must happen when somebody is forgotten. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
/** Collects it now. */
export const gc = runInNewContext('gc') as () => void

/** Collects garbage until `done`, at most `times` times with a pause of 20 ms before each. */
export async function collected(done: () => boolean, times = 100): Promise<boolean> {
  for (let at = 0; at < times; at += 1) {
    // Who looks at a WeakRef keeps what it refers to until the job has ended.
    await new Promise((resolve) => setTimeout(resolve, 20))
    gc()
    if (done()) return true
  }
  return false
}
