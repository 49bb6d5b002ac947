/** The harness behind the figures on live switching, in small: sessions over HTTP that change their model. */
import test from 'ava'
import { live } from '../src/evidence/live.js'

test('sessions change their model over HTTP, and nothing that binds them is lost', async (t) => {
  const found = await live({ sessions: 12, turns: 10, tasks: 6, live: 6, seed: 3 })
  t.like(found, { foreign: 0, unsafe: 0, failed: 0, tasks: 6, right: 6 })
  t.is(found.told, found.requests)
  t.true(found.requests >= 120 + 6 * 12, String(found.requests))
  t.true(found.switches > found.requests / 20, `${found.switches} of ${found.requests}`)
  t.true(found.bound > 0 && found.faults > 0)
})
