/** The same sessions in the simulator and over HTTP through engine doubles. */
import { built, within } from '../shared.mjs'

const OPTIONS = { sessions: 24, seed: 1, speed: 50 }
/** A difference of policies that is smaller says nothing about their order. */
const NEAR = 0.01

export async function consistencyClaims({ claim, say }) {
  const { consistency, sameOrder } = built('evidence/consistency.js')
  say('driving engine doubles over HTTP')
  const pairs = await consistency(OPTIONS)
  for (const { policy, simulated, served } of pairs) {
    claim({
      text: `hit rate of ${policy} over HTTP through engine doubles, beside the simulator's ${(100 * simulated).toFixed(1)} %`,
      seed: OPTIONS.seed,
      row: {
        name: `simulator.consistency.${policy}.hit`,
        value: served,
        unit: 'share',
        peer: 'the simulator',
        ratio: served / simulated,
        goal: 'within 1 point',
        holds: Math.abs(served - simulated) <= 0.01,
      },
    })
  }
  claim({
    text: 'policies in the same order of hit rate both ways',
    seed: OPTIONS.seed,
    row: within({
      name: 'simulator.consistency.order',
      value: sameOrder(pairs, NEAR) ? 1 : 0,
      unit: 'of 1',
      goal: 'the same order',
      least: 1,
    }),
  })
}
