/**
 * What a body costs that is sent on with another name for its model: spliced into the bytes that came,
 * and written anew from what they were parsed to, beside parsing them.
 */
import { Scheduler } from '../../dist/index.mjs'
import { headersOf, named, sessionBodies } from '../bodies.mjs'
import { workers } from '../decision.mjs'
import { least, median, row } from '../measure.mjs'

/** Tokens of prompts whose JSON has about so many bytes. */
const SIZES = { '200kB': 50_000, '1MB': 250_000 }
const PATH = '/v1/messages'
const SESSION = '00000000-0000-4000-8000-000000000000'

export async function forwardRows({ quick }) {
  const rows = []
  for (const [size, tokens] of Object.entries(SIZES)) {
    const text = named(sessionBodies(tokens, 1)[0], SESSION)
    const seen = await measured(text, quick ? 3 : 60)
    const of = (name) => seen.map((each) => each[name])
    rows.push(
      row(`forward.${size}.bytes`, text.length, 'B'),
      row(`forward.${size}.parse`, least(of('parse')), 'ns'),
      row(`forward.${size}.anew`, least(of('anew')), 'ns'),
      row(`forward.${size}.spliced`, least(of('spliced')), 'ns'),
      row(
        `forward.${size}.spliced-to-anew`,
        median(seen.map((each) => each.spliced / each.anew)),
        'x',
      ),
    )
  }
  return rows
}

async function measured(text, rounds) {
  const raw = Buffer.from(text)
  const { model } = JSON.parse(text)
  const targets = { [model]: { model: `org/${model}` } }
  const scheduler = new Scheduler({ workers: workers(1), targets })
  const seen = []
  // The first rounds warm the code up.
  for (let round = -3; round < rounds; round += 1) {
    const begun = process.hrtime.bigint()
    const body = JSON.parse(text)
    const parse = Number(process.hrtime.bigint() - begun)
    const anew = await init(scheduler, { body })
    const spliced = await init(scheduler, { body, raw })
    if (round >= 0) seen.push({ parse, anew, spliced })
  }
  scheduler.close()
  return seen
}

/** Nanoseconds until it is known what is sent. */
async function init(scheduler, given) {
  const turn = await scheduler.submit({ path: PATH, headers: headersOf(SESSION), ...given })
  const begun = process.hrtime.bigint()
  const { body } = turn.init
  const took = Number(process.hrtime.bigint() - begun)
  if (body.length === 0) throw new Error('nothing is sent')
  turn.complete()
  return took
}
