/** The page and the tables of a comparison: whole, self-contained, and of one mind. */
import test from 'ava'
import { type Comparison, compare, page, policies, rows, tables } from '../src/replay/index.js'
import { Workload } from '../src/workload.js'

const SILENT = { begun() {}, moved() {}, ended() {} }

const OPTIONS = {
  policies: policies('round-robin,kv,thunderagent'),
  workers: [2, 3],
  asRecorded: false,
  seeds: 2,
  seed: 1,
  engine: 'dynamo-poly',
  cacheTokens: 80_000,
  warmUpMs: 20_000,
  measureMs: 40_000,
} as const

function comparison(more: object = {}): Promise<Comparison> {
  return compare(Workload.generate({}, 1), { ...OPTIONS, ...more }, SILENT)
}

/** By a name that the type checker does not follow: its types want a browser's. */
const LIBRARY: string = 'vega-lite'

interface Chart {
  id: string
  spec: object
}

/** What the page's last script defines. */
function embedded(html: string): { charts: Chart[]; tables: Record<string, object[]> } {
  const script = html.slice(html.lastIndexOf('<script>'))
  const found = /const tables=(.*?);const charts=(\[.*?\]);\n/s.exec(script)
  return { tables: JSON.parse(found?.[1] ?? ''), charts: JSON.parse(found?.[2] ?? '') }
}

test('every chart compiles without a warning, and has data to draw', async (t) => {
  const { compile } = (await import(LIBRARY)) as { compile(spec: object, options: object): unknown }
  for (const more of [
    { pressures: [0.5, 2] },
    { pressures: [1.5], workers: [2] },
    { asRecorded: true },
  ]) {
    const { charts, tables: data } = embedded(page(await comparison(more), 'warmpath replay'))
    t.true(charts.length > 12)
    const warnings: unknown[] = []
    const warn = (...said: unknown[]) => void warnings.push(said)
    for (const { id, spec } of charts) {
      const logger = {
        level: () => logger,
        info: () => logger,
        debug: () => logger,
        error: warn,
        warn,
      }
      compile({ ...spec, datasets: data }, { logger })
      t.deepEqual(warnings, [], id)
    }
    t.true((data.points?.length ?? 0) > 50)
    t.true((data.moments?.length ?? 0) > 50)
  }
})

test('the page asks no network for anything, and says what was run', async (t) => {
  const html = page(await comparison({ pressures: [1] }), 'warmpath replay </script><b>')
  const markup = html.replaceAll(/<script>.*?<\/script>/gs, '')
  t.false(/(src|href)=/.test(markup))
  t.false(/<script [^>]*src/.test(html))
  t.is(html.split('</script>').length - 1, 2)
  t.false(html.includes('<b>\n'))
  t.regex(html, /40 sessions/)
  t.regex(html, /80,000 tokens of cache each/)
  t.regex(html, /bars show the range over them/)
  t.regex(html, /What this does not say/)
  t.true(html.length < 2e6)
})

test('the tables, the page and the rows have the same figures', async (t) => {
  const found = await comparison({ pressures: [1.5], workers: [2] })
  const row = rows(found).find(({ name }) => name === 'kv.w2.p1.5.hit_rate')
  const shown = `${(100 * (row?.value ?? 0)).toFixed(1)} %`
  t.true(tables(found).includes(shown))
  t.true(page(found, '').includes(shown))
  t.regex(
    tables(found),
    /2 workers, pressure 1\.5, \d+ live sessions +round-robin +kv +thunderagent/,
  )
  const bound = rows(found).find(({ name }) => name === 'bound.w2.infinite_cache')
  t.true((bound?.value ?? 0) > 0.5 && (bound?.value ?? 1) < 1)
  t.is(new Set(rows(found).map(({ name }) => name)).size, rows(found).length)
})

test('several seeds give a median and a range, the same in table, page and rows', async (t) => {
  const found = await comparison({ pressures: [1.5], workers: [2], seeds: 3 })
  const row = rows(found).find(({ name }) => name === 'kv.w2.p1.5.hit_rate')
  const rates = found.runs
    .filter(({ label }) => label === 'kv')
    .map(({ report }) => report.work.hit_rate ?? 0)
    .sort((a, b) => a - b)
  t.deepEqual([row?.least, row?.value, row?.most], rates)
  const [least, median, most] = rates.map((rate) => `${(100 * rate).toFixed(1)} %`)
  const shown = `${median} (${least}..${most})`
  t.true(tables(found).includes(shown))
  t.true(page(found, '').includes(shown))
  const alone = await comparison({ pressures: [1.5], workers: [2], seeds: 1 })
  t.false(tables(alone).includes('..'))
  t.false(rows(alone).some((each) => 'least' in each))
})

test('events reach the policies that listen, late and with loss', async (t) => {
  const told = (loss: number, recovery: 'replay' | 'never') =>
    comparison({
      policies: policies('round-robin,kv'),
      pressures: [1],
      workers: [2],
      seeds: 1,
      events: { lagMs: 100, loss, recovery },
    })
  const figures = async (found: Promise<Comparison>) => {
    const all = rows(await found)
    return (figure: string, of = 'kv') =>
      all.find(({ name }) => name === `${of}.w2.p1.${figure}`)?.value
  }
  const [whole, again, never] = await Promise.all([
    figures(told(0, 'replay')),
    figures(told(0.2, 'replay')),
    figures(told(0.2, 'never')),
  ])
  t.deepEqual([whole('events_lost'), whole('event_replays')], [0, 0])
  t.true((again('events_lost') ?? 0) > 0 && (again('event_replays') ?? 0) > 0)
  t.true((never('events_lost') ?? 0) > 0)
  t.is(never('event_replays'), 0)
  t.true((again('cached_unforeseen') ?? 0) > (whole('cached_unforeseen') ?? 1))
  t.is(whole('events_lost', 'round-robin'), null, 'it does not listen')
  t.regex(page(await told(0.2, 'never'), ''), /20\.0 % are lost, for good/)
})
