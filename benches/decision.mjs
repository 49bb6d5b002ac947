/**
 * What a whole decision costs beside parsing the request, as a gateway sees both.
 *
 * Each turn is parsed and then submitted, with the clock read in between, so that both numbers of a
 * ratio come from the same moment of the same machine. Sessions go on turn by turn; every turn is
 * completed, outside of what is timed. A window is some turns of a case, whose medians count, since
 * whatever else runs on the machine lengthens some turns by far; windows of all cases alternate. The
 * ratio of a case is the median over its windows, its times are those of the least window.
 */
import { headersOf, named, sessionBodies } from './bodies.mjs'
import { least, median } from './measure.mjs'

export const SIZES = { '1k': 1_000, '10k': 10_000, '100k': 100_000 }
const TURNS = 8
const PATH = '/v1/messages?beta=true'

export function workers(count) {
  return Array.from({ length: count }, (_, i) => ({
    id: `w${i}`,
    url: `http://127.0.0.1:${9_000 + i}`,
    capacityTokens: 2 ** 40,
  }))
}

/** A scheduler with sessions that go on, one turn a call of `turn`. */
class World {
  #bodies
  #given
  #round = 0
  #turn

  constructor(Scheduler, { size, workerCount, given, first }) {
    this.scheduler = new Scheduler({ workers: workers(workerCount) })
    this.#bodies = sessionBodies(SIZES[size], TURNS)
    this.#given = given
    // The last turn alone is a session's first.
    this.#turn = first ? this.#bodies.length : 0
    this.first = first
  }

  /** Whether the next turn is timed: two turns pass until a session is known to go on. */
  get isTimed() {
    return this.first || this.#turn > 2
  }

  async turn() {
    if (this.first || this.#turn === this.#bodies.length) {
      this.#round += 1
      this.#turn = this.first ? this.#bodies.length - 1 : 0
    }
    const isTimed = this.isTimed
    const session = String(this.#round).padStart(12, '0')
    const text = named(this.#bodies[this.#turn++], session)
    const raw = Buffer.from(text)
    const headers = headersOf(`00000000-0000-4000-8000-${session}`)
    const begun = process.hrtime.bigint()
    const body = JSON.parse(text)
    const parsed = process.hrtime.bigint()
    const request = { path: PATH, headers, body }
    if (this.#given === 'raw') request.raw = raw
    const submitted = process.hrtime.bigint()
    const turn = await this.scheduler.submit(request)
    const decided = process.hrtime.bigint()
    turn.firstToken()
    turn.complete({ promptTokens: turn.promptTokens, completionTokens: 100 }, { finished: false })
    const ended = process.hrtime.bigint()
    return {
      isTimed,
      parse: Number(parsed - begun),
      submit: Number(decided - submitted),
      end: Number(ended - decided),
    }
  }
}

/** One window: the median times of its turns, nanoseconds. */
async function window(world, turns) {
  const seen = { parse: [], submit: [], end: [] }
  while (seen.parse.length < turns) {
    const times = await world.turn()
    if (!times.isTimed) continue
    for (const [name, list] of Object.entries(seen)) list.push(times[name])
  }
  return { parse: median(seen.parse), submit: median(seen.submit), end: median(seen.end) }
}

/**
 * Runs the cases side by side; `progress` hears the number of each round that begins. Of each case the
 * least times, the median ratio of its submit to its parse, and its windows.
 */
export async function compare(Scheduler, cases, rounds, progress = () => {}) {
  const worlds = cases.map((each) => new World(Scheduler, each))
  const windows = cases.map(() => [])
  const turnsOf = ({ size }) => (size === '100k' ? 15 : 50)
  // The first round warms the code up.
  for (let round = 0; round <= rounds; round++) {
    progress(round)
    for (const [at, each] of cases.entries()) {
      const seen = await window(worlds[at], turnsOf(each))
      if (round > 0) windows[at].push(seen)
    }
  }
  for (const { scheduler } of worlds) scheduler.close()
  return cases.map((each, at) => {
    const all = windows[at]
    const fastest = (name) => least(all.map((w) => w[name]))
    const ratio = median(all.map((w) => w.submit / w.parse))
    const [parse, submit, end] = ['parse', 'submit', 'end'].map(fastest)
    return { ...each, parse, submit, end, ratio, windows: all }
  })
}
