import test from 'ava'
import { compare, describe, planDemo, rows, sound } from '../src/demo/index.js'
import { sizeCaches } from '../src/demo/run.js'
import { countTurns, largestContextTokens, planWorkload } from '../src/demo/workload.js'

test('caches are the working set over the pressure, but hold any one context', (t) => {
  const many = planWorkload(1, 64)
  const sized = sizeCaches(many, 1.7)
  t.true(Math.abs(sized.pressure - 1.7) < 0.01, String(sized.pressure))
  const few = planWorkload(1, 2)
  const floor = sizeCaches(few, 1.7)
  t.true(floor.blocksEach * floor.blockSize >= 1.5 * largestContextTokens(few))
  t.true(floor.pressure < 1.7)
})

test('five sessions and a sub-agent through all three routers: all complete, nothing is left', async (t) => {
  const lines: string[] = []
  const options = {
    sessions: 5,
    pressure: 1.7,
    seed: 3,
    speed: 60,
    rehearsal: 'none' as const,
    screen: { write: (text: string) => lines.push(text) },
    execArgv: ['--require=tsx/cjs'],
  }
  const plan = planDemo(options)
  const runs = await compare(plan, options)
  t.deepEqual(
    runs.map((run) => run.router),
    ['round-robin', 'least-loaded', 'warmpath'],
  )
  for (const run of runs) {
    t.deepEqual(
      run.turns.flatMap((turn) => turn.error ?? []),
      [],
    )
    t.true(sound(run), run.router)
    t.is(run.turns.length, countTurns(plan.workload))
    const total = (field: 'promptTokens' | 'cachedTokens') =>
      run.turns.reduce((tokens, turn) => tokens + (turn.usage[field] ?? 0), 0)
    const told = { prompt: total('promptTokens'), cached: total('cachedTokens') }
    t.deepEqual(told, run.engineTokens, 'clients were told what the engines counted')
    for (const turn of run.turns) {
      t.true((turn.usage.promptTokens ?? 0) > 1000)
      t.true((turn.firstContentMs ?? 0) > turn.sentMs)
      t.true((turn.endedMs ?? 0) >= (turn.firstContentMs ?? 0))
      t.true(turn.heldMs !== undefined, `${run.router} ${turn.session} ${turn.index}`)
    }
  }
  const prompts = runs.map((run) =>
    run.turns
      .map((turn) => `${turn.session} ${turn.index} ${turn.usage.promptTokens}`)
      .sort()
      .join('\n'),
  )
  t.is(prompts[1], prompts[0], 'every router saw the same prompts')
  t.is(prompts[2], prompts[0], 'every router saw the same prompts')
  for (const row of rows(runs)) t.true(Number.isFinite(row.value), row.name)
  t.true(lines.some((line) => line.startsWith('warmpath')))
  t.regex(describe(plan), /^5 sessions and 1 sub-agents/)
})
