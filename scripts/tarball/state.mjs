/**
 * Run inside a folder where the tarballs are installed: is there one copy of all state, whichever way
 * the package was loaded? A scheduler that ESM opened must be the one that CommonJS finds.
 */
import { createRequire } from 'node:module'
import * as esm from 'warmpath'

const cjs = createRequire(import.meta.url)('warmpath')
const options = { workers: [{ id: 'a', url: 'http://127.0.0.1:1' }] }
const opened = esm.Scheduler.shared('one', options)
const turn = await opened.submit({
  path: '/v1/chat/completions',
  body: { model: 'm', messages: [{ role: 'user', content: 'hello' }] },
})
const found = cjs.Scheduler.shared('one', options)
const answer = {
  scheduler: esm.Scheduler === cjs.Scheduler,
  error: esm.WarmpathError === cjs.WarmpathError,
  shared: opened === found,
  reservations: found.status().reservations,
  names: Object.keys(esm).filter((name) => name !== 'default' && !(name in cjs)),
}
turn.fail()
opened.close()
process.stdout.write(JSON.stringify(answer))
