/**
 * What a turn costs when many sessions are alive.
 *
 * The same turns (submit, first token, complete; 10k-token prompts that grow by one block a turn;
 * receipts on; ThunderAgent admission; 8 workers) at 100 and at 100,000 live sessions, through the
 * public surface. The sessions that do not take part keep their blocks in the index and their place
 * in every table. A window is 200 turns, whose median counts; windows of both sizes alternate.
 */
import { Scheduler } from '../../dist/index.mjs'
import { least, median, row } from '../measure.mjs'

const WORKERS = 8
const PROMPT_BLOCKS = 160
const WINDOW = 200
const FEW = 100
const MANY = 100_000
const LIMIT = 1.3

/** A scheduler with `sessions` live sessions, and the ones that take turns. */
async function world(sessions) {
  const scheduler = new Scheduler({
    workers: Array.from({ length: WORKERS }, (_, i) => ({
      id: `w${i}`,
      url: `http://127.0.0.1:${9000 + i}`,
      capacityTokens: 2 ** 40,
    })),
    admission: { policy: 'thunderagent' },
    limits: { sessions: 2 * MANY, blocks: 2 ** 31 },
  })
  const live = []
  for (let i = 0; i < sessions; i++) {
    // Live sessions that take no part are short, so that 100,000 of them fit into memory.
    const blocks = i < FEW ? PROMPT_BLOCKS : 8
    const session = { name: `session-${i}`, salt: BigInt(i + 1) << 32n, blocks }
    await turn(scheduler, session)
    if (i < FEW) live.push(session)
  }
  return { scheduler, live, next: 0 }
}

async function turn(scheduler, session) {
  const { name, salt } = session
  const hashes = BigUint64Array.from({ length: session.blocks }, (_, n) => salt + BigInt(n))
  const request = { path: '/v1/chat/completions', session: name, hashes, model: 'm' }
  const begun = process.hrtime.bigint()
  const reserved = await scheduler.submit(request)
  reserved.firstToken()
  reserved.complete({ promptTokens: session.blocks * 64, completionTokens: 20 })
  return Number(process.hrtime.bigint() - begun)
}

/** The median time of a turn, nanoseconds. */
async function window(bench) {
  const times = []
  for (let i = 0; i < WINDOW; i++) {
    const session = bench.live[bench.next++ % bench.live.length]
    session.blocks = session.blocks < 2 * PROMPT_BLOCKS ? session.blocks + 1 : PROMPT_BLOCKS
    times.push(await turn(bench.scheduler, session))
  }
  return median(times)
}

export async function sessionRows({ quick }) {
  const few = await world(FEW)
  const many = await world(MANY)
  const seen = []
  for (let i = 0; i < (quick ? 2 : 60); i++) {
    seen.push({ few: await window(few), many: await window(many) })
  }
  few.scheduler.close()
  many.scheduler.close()
  return [
    row(`sessions.${FEW}.turn`, least(seen.map((each) => each.few)), 'ns'),
    row(`sessions.${MANY}.turn`, least(seen.map((each) => each.many)), 'ns'),
    row(`sessions.${MANY}-to-${FEW}`, median(seen.map((s) => s.many / s.few)), 'x', LIMIT),
  ]
}
