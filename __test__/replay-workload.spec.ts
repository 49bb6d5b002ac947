/** Workloads and runs across the boundary: bytes, progress, abort, refusals. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { type Scenario, Workload } from '../src/workload.js'

const workload = Workload.generate({}, 1)

const scenario: Scenario = {
  label: 'thunderagent',
  policy: { core: { policy: 'thunderagent' } },
  workers: 2,
  engine: 'dynamo-poly',
  cacheTokens: 80_000,
  population: { pressure: 1.5, warmUpMs: 30_000, measureMs: 60_000 },
  seed: 3,
}

test('a run from Node gives the bytes that it gives from Rust', async (t) => {
  const recorded = readFileSync(join(__dirname, 'fixtures/replay/report.json'), 'utf8')
  t.is(await workload.simulate(scenario), recorded.trimEnd())
  t.is(await workload.simulate(scenario), recorded.trimEnd(), 'and again')
})

test('a run tells how far it is, and can be stopped', async (t) => {
  const long = { ...scenario, population: { pressure: 3, warmUpMs: 0, measureMs: 36_000_000 } }
  const stop = new AbortController()
  const seen: number[] = []
  const run = workload.simulate(long, {
    signal: stop.signal,
    onProgress({ arrived, nowMs }) {
      seen.push(nowMs)
      if (arrived > 0) stop.abort()
    },
  })
  await t.throwsAsync(run, { code: 'WARMPATH_ABORTED' })
  t.true((seen.at(-1) ?? 0) > 0)
  const aborted = AbortSignal.abort()
  await t.throwsAsync(workload.simulate(long, { signal: aborted }), { code: 'WARMPATH_ABORTED' })
})

test('what cannot be simulated is refused by name', async (t) => {
  const refused = async (change: Partial<Scenario>, message: RegExp) => {
    const run = workload.simulate({ ...scenario, ...change })
    await t.throwsAsync(run, { code: 'WARMPATH_INVALID_ARGUMENT', message })
  }
  await refused({ workers: 0 }, /workers must be/)
  await refused({ blockTokens: 100 }, /blocks of 100 tokens do not fit/)
  await refused({ policy: { core: { policy: 'magic' } } }, /magic/)
  await refused({ population: { pressure: Number.NaN } }, /scenario/)
  await refused({ patienceMs: -1 }, /time/)
})

for (const format of ['mooncake', 'agentic-mooncake'] as const) {
  test(`${format} rows say their block size, and two files are read together`, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'warmpath-workload-'))
    t.teardown(() => rmSync(folder, { recursive: true }))
    const paths = ['a.jsonl', 'b.jsonl'].map((name) => join(folder, name))
    const [one, other] = [1, 2].map((seed) => Workload.generate({ blockTokens: 64 }, seed))
    await one?.write(paths[0] ?? '', format, true)
    await other?.write(paths[1] ?? '', format, true)
    const alone = await Promise.all(paths.map((path) => Workload.read({ paths: [path] })))
    const both = await Workload.read({ paths })
    t.is(both.summary().blockTokens, 64)
    t.is(both.summary().turns, (alone[0]?.summary().turns ?? 0) + (alone[1]?.summary().turns ?? 0))
    // Blocks of one file are not those of the other, though both count from 0.
    const reused = await Promise.all(
      [...alone, both].map(async (each) => (await each.bounds(1e12)).infinite_tokens),
    )
    t.is(reused[2], (reused[0] ?? 0) + (reused[1] ?? 0))
  })
}

test('a workload goes out as agentic Mooncake and comes back the same', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'warmpath-workload-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'rows.jsonl')
  t.deepEqual(await workload.write(path, 'agentic-mooncake', true), {
    rows: workload.summary().turns,
    approximated: 0,
  })
  const again = await Workload.read({ paths: [path] })
  t.deepEqual(again.turns(), workload.turns())
  t.deepEqual(await again.bounds(80_000), await workload.bounds(80_000))
  const part = await Workload.read({ paths: [path], select: { smallest: 5, firstTurns: 2 } })
  t.is(part.summary().sessions, 5)
  t.true(part.summary().turns <= 10)
  const gone = workload.write(join(folder, 'no', 'rows.jsonl'), 'mooncake', false)
  await t.throwsAsync(gone, { code: 'WARMPATH_CONFIG', message: /no.rows\.jsonl/ })
})
