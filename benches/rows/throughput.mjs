/**
 * Whole turns a second, by `benchmark`: the mean of what it samples, which on a busy machine is more
 * than the least. Beside a turn what a gateway may do in its place: nothing (the floor of a native
 * call), parsing alone, and a sticky router by hand, which is a Map from session to worker.
 */
import { createRequire } from 'node:module'
import { Scheduler } from '../../dist/index.mjs'
import { headersOf, named, sessionBodies } from '../bodies.mjs'
import { SIZES, workers } from '../decision.mjs'
import { row } from '../measure.mjs'

const require = createRequire(import.meta.url)
const Benchmark = require('benchmark')

/** What gateways write by hand: the first turn of a session goes to the next worker in turn. */
class StickyMap {
  #workers = workers(4)
  #bySession = new Map()
  #next = 0

  route(headers) {
    const session = headers['x-claude-code-session-id']
    let worker = this.#bySession.get(session)
    if (worker === undefined) {
      worker = this.#workers[this.#next++ % this.#workers.length]
      this.#bySession.set(session, worker)
    }
    return worker.url
  }
}

export async function throughputRows({ floor, quick }) {
  const { noop } = require(floor)
  const sticky = new StickyMap()
  const headers = headersOf('session-1')
  const rows = [await measured('floor-noop', () => noop(), quick)]
  rows.push(await measured('sticky-map', () => sticky.route(headers), quick))
  for (const [size, tokens] of Object.entries(SIZES)) {
    const text = named(sessionBodies(tokens, 1)[0], 'session-1')
    rows.push(await measured(`parse-${size}`, () => JSON.parse(text), quick))
    rows.push(await measuredTurns(size, text, headers, quick))
  }
  return rows
}

/** Submit to completion of the same turn again and again, its body parsed once. */
async function measuredTurns(size, text, headers, quick) {
  const scheduler = new Scheduler({ workers: workers(4) })
  const request = { path: '/v1/messages', headers, body: JSON.parse(text) }
  const turn = (deferred) =>
    scheduler.submit(request).then((reserved) => {
      reserved.complete()
      deferred.resolve()
    })
  const result = await measured(`turn-${size}`, turn, quick, true)
  scheduler.close()
  return result
}

/** Runs one benchmark; its rate. */
function measured(name, fn, quick, defer = false) {
  return new Promise((resolve, reject) => {
    const options = { fn, defer, async: true, maxTime: quick ? 0.05 : 2 }
    const bench = new Benchmark(name, options)
    bench.on('error', () => reject(bench.error))
    bench.on('complete', () => resolve(row(`throughput.${name}`, bench.hz, 'a second')))
    bench.run()
  })
}
