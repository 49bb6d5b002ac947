/** The simulator and engine doubles over HTTP say the same of the same sessions. */
import test from 'ava'
import { consistency, sameOrder } from '../src/evidence/consistency.js'

test('hit rates within a point, policies in the same order', async (t) => {
  t.timeout(120_000)
  const pairs = await consistency({ sessions: 24, seed: 1, speed: 50 })
  for (const { policy, simulated, served, failed } of pairs) {
    t.is(failed, 0, policy)
    t.true(Math.abs(simulated - served) <= 0.01, `${policy}: ${simulated} and ${served}`)
  }
  t.true(sameOrder(pairs, 0.01))
})
