/** How the run against real engines judges a turn: what it may excuse, and what not. */
import test from 'ava'

interface Heard {
  made: number
  at: number
  kinds: Record<string, number>
}

const turn = {
  origin: 'engine',
  trust: 'exact',
  predicted: 320,
  cachedTokens: 320,
  decided: 1_000,
  to: 1_200,
}

/** What a relay would say of these messages. */
async function judged(more: Partial<typeof turn>, ...heard: Heard[]): Promise<string> {
  const path = '../scripts/engines/'
  const { judge } = await import(`${path}agreement.mjs`)
  const { Relay } = await import(`${path}relay.mjs`)
  const said = Relay.prototype.said.bind({ heard })
  return judge({ ...turn, ...more }, { said })
}

const message = (kind: string, made: number, at: number): Heard => {
  const kinds = { BlockStored: 0, BlockRemoved: 0, AllBlocksCleared: 0, [kind]: 1 }
  return { made, at, kinds }
}

test('a difference is excused only by what the engine did and nobody here could know', async (t) => {
  t.is(await judged({}), 'right')
  t.is(await judged({ origin: 'late' }), 'no tokens')
  t.is(await judged({ trust: 'degraded' }), 'not exact')
  const less = { cachedTokens: 64 }
  t.is(await judged(less), 'over-promise')
  t.is(await judged(less, message('BlockRemoved', 900, 1_100)), 'removed meanwhile')
  t.is(await judged(less, message('BlockRemoved', 900, 940)), 'over-promise', 'it was known')
  t.is(await judged(less, message('BlockRemoved', 1_300, 1_310)), 'over-promise', 'it came later')
  t.is(await judged(less, message('BlockStored', 900, 1_100)), 'over-promise', 'of another kind')
  const more = { cachedTokens: 640 }
  const stores = [1_050, 1_100, 1_150].map((at) => message('BlockStored', at, at))
  t.is(await judged({ cachedTokens: 352 }), 'last block')
  t.is(await judged(more, ...stores.slice(1)), 'under-promise', 'these are its own')
  t.is(await judged(more, ...stores), 'stored meanwhile')
})
