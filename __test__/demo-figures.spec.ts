import test from 'ava'
import fc from 'fast-check'
import { METRICS, rows, show, sound, winner } from '../src/demo/figures.js'
import { paceWarning } from '../src/demo/pace.js'
import type { RouterName, RunRecord, TurnRecord } from '../src/demo/record.js'
import { jain, mean, quantile, sorted } from '../src/demo/statistics.js'
import { svg } from '../src/demo/svg.js'
import { table } from '../src/demo/table.js'

const values = fc.array(fc.double({ min: 0, max: 1e6, noNaN: true }), { minLength: 1 })

test('a quantile is the smallest value that enough others do not exceed', (t) => {
  fc.assert(
    fc.property(values, fc.double({ min: 0.001, max: 1, noNaN: true }), (list, q) => {
      const naive = [...list]
        .sort((a, b) => a - b)
        .find((value) => list.filter((other) => other <= value).length >= q * list.length)
      t.is(quantile(sorted(list), q), naive)
    }),
  )
  t.is(quantile([], 0.5), undefined)
  t.is(quantile([4, 5, 6], 0), 4)
})

test('mean and Jain index follow their definitions', (t) => {
  t.is(mean([1, 2, 6]), 3)
  t.is(mean([]), undefined)
  t.is(jain([2, 2, 2, 2]), 1)
  t.is(jain([5, 0, 0, 0]), 0.25)
  t.is(jain([0, 0]), undefined)
  fc.assert(
    fc.property(values, (list) => {
      const index = jain(list)
      if (list.every((value) => value === 0)) t.is(index, undefined)
      else if (index !== undefined) t.true(index <= 1 + 1e-9 && index >= 1 / list.length - 1e-9)
    }),
  )
})

function turn(index: number, ttftMs: number, cached: number, heldMs = 0): TurnRecord {
  return {
    session: 's',
    index,
    sentMs: 1000,
    firstContentMs: 1000 + ttftMs,
    endedMs: 2000 + ttftMs,
    heldMs,
    usage: { promptTokens: 1000, cachedTokens: cached, completionTokens: 10 },
  }
}

function run(router: RouterName, cached: number, ttftMs: number): RunRecord {
  return {
    router,
    turns: [turn(0, ttftMs, 0, 500), turn(1, ttftMs / 2, cached)],
    sessions: [
      { id: 's', startedMs: 0, completedMs: 10_000, aloneMs: 5000 },
      { id: 's.sub', parent: 's', startedMs: 0, completedMs: 1000, aloneMs: 900 },
    ],
    elapsedMs: 30_000,
    reservationsLeft: 0,
    engineTokens: { prompt: 2000, cached },
    pace: { speed: 10, lagP99Ms: 1, overheadMs: 100 },
  }
}

const runs = [
  run('round-robin', 100, 4000),
  run('least-loaded', 200, 3000),
  run('warmpath', 800, 3500),
]

test('figures are what the turns and sessions say', (t) => {
  const of = (key: string) => METRICS.find((m) => m.key === key)?.of(runs[2] as RunRecord)
  t.is(of('hit_rate'), 0.4)
  t.is(of('computed_tokens'), 1200)
  t.is(of('turns_per_minute'), 4)
  t.is(of('ttft_p50'), 1.75)
  t.is(of('ttft_p99'), 3.5)
  t.is(of('hold_max'), 0.5)
  t.is(of('session_completion_mean'), 10)
  t.is(of('jain_fairness'), 1)
})

test('rows: stable names, the better baseline as peer, goals computed', (t) => {
  const all = rows(runs)
  t.is(all.length, 3 * (METRICS.length + 5))
  t.is(new Set(all.map((row) => row.name)).size, all.length)
  const named = (name: string) => all.find((row) => row.name === name)
  t.deepEqual(named('warmpath.ttft_p99'), {
    name: 'warmpath.ttft_p99',
    value: 3.5,
    unit: 's',
    peer: 'least-loaded',
    ratio: 3.5 / 3,
  })
  t.is(named('round-robin.hit_rate')?.peer, undefined)
  t.true(named('warmpath.reservations_left')?.holds)
  t.true(named('warmpath.sessions_completed')?.holds)
})

test('rows and exit condition tell of what went wrong', (t) => {
  const bad = run('warmpath', 800, 3500)
  const [whole, child] = bad.sessions as [RunRecord['sessions'][0], RunRecord['sessions'][0]]
  const { completedMs: _, ...cut } = whole
  const broken: RunRecord = {
    ...bad,
    sessions: [cut, child],
    reservationsLeft: 2,
    turns: [...bad.turns, { session: 's', index: 2, sentMs: 1, usage: {}, error: 'status 503' }],
  }
  const holds = rows([broken]).filter((row) => row.holds !== undefined)
  t.deepEqual(
    holds.map((row) => [row.name, row.value, row.holds]),
    [
      ['warmpath.sessions_completed', 0, false],
      ['warmpath.reservations_left', 2, false],
      ['warmpath.errors', 1, false],
      ['warmpath.overhead_mean', 0.1, true],
    ],
  )
  t.true(sound(bad))
  t.false(sound(broken))
  t.is(rows([broken]).find((row) => row.name === 'warmpath.session_completion_p99')?.value, null)
})

test('the winner is whoever has the best figure, and nobody when it is shared', (t) => {
  const metric = (key: string) => METRICS.find((m) => m.key === key) as (typeof METRICS)[0]
  t.is(winner(metric('ttft_p99'), runs), 'least-loaded')
  t.is(winner(metric('hit_rate'), runs), 'warmpath')
  t.is(winner(metric('hold_max'), runs), undefined)
  t.is(winner(metric('hit_rate'), []), undefined)
})

test('the table lines up and stars the best, Warmpath or not', (t) => {
  const lines = table(runs).split('\n')
  t.is(lines.length, 1 + METRICS.length + 3)
  // Every figure ends in the column in which its router's name ends.
  for (const router of ['round-robin', 'least-loaded', 'warmpath']) {
    const end = (lines[0] ?? '').indexOf(router) + router.length
    for (const line of lines) t.regex(line.slice(end - 1, end + 1), /^\S ?$/, line)
  }
  const line = lines.find((one) => one.startsWith('TTFT with hold, p99')) ?? ''
  t.regex(line, /4\.00 s +3\.00 s \* +3\.50 s/)
  t.regex(lines.at(-3) ?? '', /sessions completed +1\/1 +1\/1 +1\/1/)
})

test('values read well in every unit', (t) => {
  t.is(show(0.7134, 'share'), '71.3 %')
  t.is(show(1_234_567, 'tokens'), '1.23 M')
  t.is(show(45_600, 'tokens'), '45.6 k')
  t.is(show(12.34, 's'), '12.3 s')
  t.is(show(undefined, 's'), '-')
})

test('a run that waited for the machine is told of, one that did not is not', (t) => {
  t.is(paceWarning(runs), undefined)
  const slow = { ...(runs[2] as RunRecord), pace: { speed: 10, lagP99Ms: 1, overheadMs: 900 } }
  t.regex(paceWarning([...runs.slice(0, 2), slow]) ?? '', /: warmpath 0\.90 s\..*--speed 5\./)
})

/** Checks nesting, quoting and entities; throws where XML would. */
function wellFormed(document: string): number {
  const open: string[] = []
  let elements = 0
  const text = document.replace(
    /<(\/?)([a-z]+)((?:\s+[\w:-]+="[^"<]*")*)\s*(\/?)>/gi,
    (...found) => {
      const [, closing, name, , single] = found as [string, string, string, string, string]
      if (closing === '/') {
        if (open.pop() !== name) throw new Error(`</${name}> closes another element`)
      } else {
        elements += 1
        if (single !== '/') open.push(name)
      }
      return ''
    },
  )
  if (open.length > 0) throw new Error(`<${open.at(-1)}> is not closed`)
  if (/[<>]|&(?!#\d+;|amp;|lt;|gt;)/.test(text)) throw new Error('stray markup')
  return elements
}

test('the picture is well-formed, has every figure and escapes its caption', (t) => {
  const picture = svg(runs, 'a < b & "c"')
  t.true(wellFormed(picture) > METRICS.length * 10)
  for (const metric of METRICS) {
    t.true(picture.includes(metric.label))
    for (const one of runs) t.true(picture.includes(`>${show(metric.of(one), metric.unit)}<`))
  }
  t.false(picture.includes('NaN'))
  t.true(picture.includes('prefers-color-scheme: dark'))
  t.throws(() => wellFormed('<svg><g></svg>'))
  t.throws(() => wellFormed('<svg>a & b</svg>'))
})

test('the picture of runs without a figure has empty bars, not broken ones', (t) => {
  const nothing: RunRecord = { ...(runs[0] as RunRecord), turns: [], sessions: [], elapsedMs: 0 }
  const picture = svg([nothing], '')
  t.notThrows(() => wellFormed(picture))
  t.false(/NaN|Infinity|undefined/.test(picture))
})
