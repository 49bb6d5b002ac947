/** The requests that the benches send are what they are said to be. */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import test from 'ava'

const BODIES = join(__dirname, '../benches/bodies.mjs')

/** Turns of a session before it is known to go on, and one to be timed. */
const ENOUGH = 4

for (const tokens of [1_000, 10_000, 100_000]) {
  test(`a session of ${tokens} tokens goes on, turn by turn, to that size`, async (t) => {
    const { sessionBodies } = await import(pathToFileURL(BODIES).href)
    const bodies: string[] = sessionBodies(tokens, 8)
    t.true(bodies.length >= ENOUGH)
    t.true(Math.abs((bodies.at(-1)?.length ?? 0) / (4 * tokens) - 1) < 0.2)
    const messages = bodies.map((body) => JSON.parse(body).messages.length)
    t.true(messages.every((count, at) => at === 0 || count === messages[at - 1] + 2))
  })
}
