/** Garbage collection on demand, for what must happen when somebody is forgotten. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

/** Collects garbage until `done`, at most `times` times with a pause of 20 ms after each. */
export async function collected(done: () => boolean, times = 100): Promise<boolean> {
  for (let at = 0; at < times && !done(); at += 1) {
    gc()
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  return done()
}
