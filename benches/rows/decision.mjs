/** A whole decision beside parsing its request, and at many workers beside few. */
import { Scheduler } from '../../dist/index.mjs'
import { compare, SIZES } from '../decision.mjs'
import { median, row } from '../measure.mjs'

const PARSED = 0.33
const RAW = 0.15
const WORKERS = 3
const FEW = 4
const MANY = 1_000
/** Prompts of less have no goal: what does not depend on the prompt is most of their cost. */
const JUDGED = new Set(['10k', '100k'])

/** How a turn's body is given; `first` turns are those of sessions that nobody has seen. */
const KINDS = [
  { name: 'first', given: 'body', first: true, goal: PARSED },
  { name: 'body', given: 'body', first: false, goal: PARSED },
  { name: 'raw', given: 'raw', first: false, goal: RAW },
]

export async function decisionRows({ quick, progress }) {
  const rows = []
  for (const size of Object.keys(SIZES)) {
    const few = KINDS.map((kind) => ({ ...kind, size, workerCount: FEW }))
    const many = { ...KINDS[1], size, workerCount: MANY }
    const rounds = quick ? 2 : 30
    const seen = await compare(Scheduler, [...few, many], rounds, (round) => {
      if (round % 10 === 0) progress(`decision ${size}: round ${round} of ${rounds}`)
    })
    for (const each of seen.slice(0, -1)) rows.push(...rowsOf(each))
    rows.push(workersRow(size, seen[1], seen.at(-1)))
  }
  return rows
}

function rowsOf({ size, name, parse, submit, end, ratio, goal }) {
  const at = `decision.${size}.${name}`
  return [
    row(`${at}.parse`, parse, 'ns'),
    row(`${at}.submit`, submit, 'ns'),
    row(`${at}.end`, end, 'ns'),
    row(`${at}.ratio`, ratio, 'x', JUDGED.has(size) ? goal : undefined),
  ]
}

function workersRow(size, few, many) {
  const ratio = median(many.windows.map((each, at) => each.submit / few.windows[at].submit))
  return row(`decision.${size}.workers-${MANY}-to-${FEW}`, ratio, 'x', WORKERS)
}
