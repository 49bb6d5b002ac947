/**
 * `npm run test:engines -- [--json FILE] [--folder DIR] [--versions A,B] [--blocks N] [--docs FILE]`: real
 * vLLM engines on this machine's CPU behind `warmpath serve`, by hand, in less than half an hour.
 *
 * Two engines with a tiny model of random weights; generated agent sessions of at most 2,048 tokens go
 * through the gateway, and what each receipt believed is compared with the cached tokens that the engine
 * reports. Then caches are reset, messages lost and an engine killed on purpose; then the same sessions by
 * events, by the router's own predictions and in turn. Writes docs/engines.md. Installs the engines into DIR
 * (2.5 GiB a version; default: in the system's temporary folder). Exits with 1 when something does not hold.
 */
import { writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { build, root } from './build.mjs'
import { tally, tallyKnown } from './engines/agreement.mjs'
import { exact, kill, lose, reset } from './engines/faults.mjs'
import { hitRate, play, roundRobin, through } from './engines/play.mjs'
import { Relay } from './engines/relay.mjs'
import { page, rowsOf } from './engines/report.mjs'
import { Session } from './engines/sessions.mjs'
import { BLOCK_TOKENS, freePorts, install, load, MODEL, TORCH, Vllm } from './engines/vllm.mjs'

const { values } = parseArgs({
  options: {
    json: { type: 'string' },
    docs: { type: 'string', default: join(root, 'docs', 'engines.md') },
    folder: { type: 'string', default: join(tmpdir(), 'warmpath-engines') },
    versions: { type: 'string', default: '0.32.0,0.23.0' },
    blocks: { type: 'string', default: '320' },
  },
})
const versions = values.versions.split(',')
const unknown = versions.find((version) => TORCH[version] === undefined)
if (versions.length !== 2 || unknown !== undefined) {
  console.error(`--versions must be two of ${Object.keys(TORCH).join(', ')}`)
  process.exit(1)
}

build()
const { Scheduler } = await import('../dist/index.mjs')
const { startGateway } = await import('../dist/gateway/index.js')
const { probe } = await import('../dist/cli/probe.js')
for (const version of new Set(versions)) install(values.folder, version)

const ports = await freePorts(6)
const engines = versions.map((version, at) => {
  const own = ports.slice(3 * at, 3 * at + 3)
  return new Vllm({ folder: values.folder, version, blocks: Number(values.blocks), ports: own })
})
// However this ends, no engine goes on.
process.on('exit', () => {
  for (const engine of engines) engine.kill()
})
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))

/** Of each policy, with sessions of their own. */
const ROUNDS = 3
const ids = ['a', 'b']
const byId = new Map(engines.map((engine, at) => [ids[at], engine]))
const began = Date.now()
const say = (what) => {
  const seconds = Math.round((Date.now() - began) / 1000)
  process.stderr.write(`${seconds} s (load ${load()}): ${what}\n`)
}

say(`starting vLLM ${versions.join(' and ')}`)
const startSeconds = await Promise.all(engines.map((engine) => engine.start()))
say('both are up')

// One engine is heard through a wire that can lose messages; both are written down.
const relays = new Map()
for (const id of ids) relays.set(id, await Relay.start(byId.get(id).kvEvents))

function scheduler({ events, tokens }) {
  return new Scheduler({
    cache: { blockTokens: BLOCK_TOKENS },
    workers: ids.map((id) => ({
      id,
      url: byId.get(id).url,
      ...(events && {
        kvEvents: {
          endpoint: id === 'a' ? relays.get('a').endpoint : byId.get(id).kvEvents,
          replay: byId.get(id).replay,
        },
      }),
    })),
    targets: { [MODEL]: { workers: ids } },
    metrics: { intervalMs: 1_000 },
    ...(tokens && { tokens: { from: tokens, timeoutMs: 20_000 } }),
  })
}

async function gatewayOf(how) {
  const own = scheduler(how)
  const gateway = await startGateway({ port: 0, scheduler: own, health: { intervalMs: 500 } })
  const end = async () => {
    await gateway.close()
    own.close()
  }
  return { url: gateway.url, scheduler: own, end }
}

async function emptied() {
  for (const engine of byId.values()) await engine.resetCache()
}

/** Both are believed exactly, however recently they were emptied: they tell of that with their next step. */
async function known(own, round) {
  for (const id of ids) own.resetCache(id)
  for (const [at, engine] of engines.entries()) {
    const ask = roundRobin([engine], MODEL)
    await play(sessions(`wake-${round}-${at}`, 1, 3), { turns: 1, parallel: 1, ask })
  }
  await Promise.all(ids.map((id) => exact(own, id)))
}

const sessions = (salt, count, seed) =>
  Array.from({ length: count }, (_, number) => new Session(salt, number, seed))

const found = { versions, blocks: Number(values.blocks), startSeconds, load: [load()] }

// By events: one turn at a time, then several.
const gateway = await gatewayOf({ events: true, tokens: 'engine' })
await Promise.all(ids.map((id) => exact(gateway.scheduler, id)))
const ask = through(gateway)
const world = { engines, byId, relays, relayed: 'a', scheduler: gateway.scheduler, ask }
found.probes = []
for (const [id, engine] of byId) {
  const what = { scheduler: gateway.scheduler, worker: id, url: engine.url, headers: {} }
  const how = { model: MODEL, target: MODEL, blockTokens: BLOCK_TOKENS }
  found.probes.push(await probe({ ...what, ...how, asksRenderer: true, waitMs: 10_000 }))
}
say(`probes: ${JSON.stringify(found.probes)}`)
// With nothing in common, so that they spread over both.
const apart = Array.from({ length: 10 }, (_, n) => new Session(`alone-${n}`, n, 11 + n))
const alone = await play(apart, { turns: 8, parallel: 1, ask })
found.alone = tally(alone, relays)
say(
  `one at a time: ${JSON.stringify(found.alone)}, lags ${[...relays.values()].map(({ lags }) => lags)}`,
)
const together = []
for (let round = 0; round < 4; round += 1) {
  const own = sessions(`together-${round}`, 6, 12 + round)
  together.push(...(await play(own, { turns: 8, parallel: 4, ask })))
}
found.together = tally(together, relays)
say(`four at a time: ${JSON.stringify(found.together)}`)
found.wrong = [...alone, ...together].filter(({ verdict }) => verdict !== 'right')
found.capacities = gateway.scheduler.status().workers.map((worker) => worker.capacityTokens)
found.reset = await reset(world)
say(`reset: ${JSON.stringify({ ...found.reset, records: undefined })}`)
found.lost = await lose(world)
say(`lost messages: ${JSON.stringify(found.lost)}`)
found.killed = await kill(world, (engine) => engine.start())
say(`killed: ${JSON.stringify(found.killed)}`)
found.load.push(load())
await gateway.end()

// The same sessions by what each policy knows; every policy with caches that are empty.
const policies = {
  exact: () => gatewayOf({ events: true, tokens: 'engine' }),
  answers: () => gatewayOf({ events: true, tokens: 'answers' }),
  predicted: () => gatewayOf({ events: false, tokens: undefined }),
}
const plans = { turns: 7, parallel: 3 }
const played = { exact: [], answers: [], predicted: [], 'round robin': [] }
const pressed = []
for (let round = 0; round < ROUNDS; round += 1) {
  for (const [name, records] of Object.entries(played)) {
    await emptied()
    const own = await policies[name]?.()
    if (name === 'exact' || name === 'answers') await known(own.scheduler, `${name}-${round}`)
    const how = own === undefined ? roundRobin(engines, MODEL) : through(own)
    const these = sessions(`${name.replace(' ', '-')}-${round}`, 12, 21 + round)
    const told = await play(these, { ...plans, ask: how })
    records.push(...told)
    if (name === 'exact') pressed.push(...told)
    say(`${name}, round ${round}: ${hitRate(told)}`)
    await own?.end()
  }
}
found.pressed = tally(pressed, relays)
found.answers = tallyKnown(played.answers, relays)
say(`by earlier answers: ${JSON.stringify(found.answers)}`)
found.policies = Object.fromEntries(
  Object.entries(played).map(([name, records]) => {
    return [name, { hitRate: hitRate(records), turns: records.length }]
  }),
)
found.load.push(load())
found.minutes = (Date.now() - began) / 60_000
found.lags = [...relays.values()].map(({ lags }) => lags)
for (const relay of relays.values()) relay.close()
for (const engine of engines) engine.kill()

const rows = rowsOf(found)
for (const { name, value, unit, goal, holds } of rows) {
  const verdict = holds === undefined ? '' : holds ? 'holds' : 'DOES NOT HOLD'
  process.stdout.write(`| ${name} | ${value} ${unit} | ${goal ?? ''} | ${verdict} |\n`)
}
for (const record of found.wrong) process.stderr.write(`${JSON.stringify(record)}\n`)
if (values.json) writeFileSync(values.json, `${JSON.stringify({ rows }, null, 2)}\n`)
writeFileSync(values.docs, page(found))
process.exit(rows.some(({ holds }) => holds === false) ? 1 : 0)
