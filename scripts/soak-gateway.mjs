/**
 * `node scripts/soak-gateway.mjs [--streams 5000] [--seconds 120] [--json FILE]`: so many streams at
 * once through `warmpath serve` for so long, some of whose clients leave in the middle, and all others
 * together at the end. Memory and file descriptors of the gateway are looked at on the way (Linux);
 * afterwards nothing may be left.
 */
import { fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'

const { values } = parseArgs({
  options: {
    streams: { type: 'string', default: '5000' },
    seconds: { type: 'string', default: '120' },
    json: { type: 'string' },
  },
})
const STREAMS = Number(values.streams)
const SECONDS = Number(values.seconds)
/** Some streams end after half a minute, most outlast the run: so many come together on any machine. */
const TOKENS_PER_SECOND = 1 / 3
const LONG = 1_000
const SHORT_SECONDS = 30
/** One client in ten leaves early, and another one comes in its place. */
const LEAVE_EVERY = 10
const LOOK_MS = 10_000
/** While they become more, so many wait for an answer to begin. */
const PENDING = 200
/** The share of all streams that counts as full load: those that end are replaced. */
const FULL = 0.95
/** Memory may go up and down by this share of its first reading at full load. */
const STEADY = 1.25

const root = join(import.meta.dirname, '..')
const scratch = mkdtempSync(join(tmpdir(), 'warmpath-soak-'))
const children = []
// However this ends, nothing of it goes on.
process.on('exit', () => {
  for (const each of children) each.kill('SIGKILL')
})
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))
const seen = { left: 0, broken: 0, status: {} }
const open = new Set()
const left = new WeakSet()
const agent = new Agent({ keepAlive: true, maxFreeSockets: Number.POSITIVE_INFINITY })
/** Streams that were asked for, and those of them whose answer has begun. */
let asked = 0
let live = 0
let next = 0
let stopping = false

async function startSource() {
  const args = [LONG, TOKENS_PER_SECOND].map(String)
  const child = fork(join(root, 'benches/gateway/source.mjs'), args)
  children.push(child)
  return (await once(child, 'message'))[0]
}

async function startGateway(source) {
  const config = join(scratch, 'gateway.json')
  writeFileSync(config, JSON.stringify({ scheduler: { workers: [{ id: 'a', url: source }] } }))
  const args = [join(root, 'dist/cli/main.mjs'), 'serve', '-c', config, '-p', '0']
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  children.push(child)
  for await (const line of createInterface(child.stderr)) {
    const url = /listens on (\S+)/.exec(line)?.[1]
    if (url) return { url, pid: child.pid, child }
  }
  throw new Error('warmpath serve did not start')
}

/** Keeps one place busy until the end. */
async function keepBusy(url) {
  while (!stopping) await stream(url, next++)
}

function stream(url, number) {
  const body = JSON.stringify({
    model: 'm',
    stream: true,
    messages: [{ role: 'user', content: `${number % STREAMS} ${'a long context '.repeat(40)}` }],
  })
  const session = `session-${number % STREAMS}`
  const headers = { 'content-type': 'application/json', 'x-session-id': session }
  return new Promise((over) => {
    let begun = 0
    const ended = (how) => {
      open.delete(req)
      asked -= 1
      live -= begun
      seen[how] += 1
      over()
    }
    asked += 1
    const req = request(`${url}/v1/chat/completions`, { method: 'POST', agent, headers })
    open.add(req)
    const early = Math.random() * SHORT_SECONDS * 1000
    if (number % LEAVE_EVERY === 0) setTimeout(() => leave(req), early)
    req.once('response', (res) => {
      begun = 1
      live += 1
      seen.status[res.statusCode] = (seen.status[res.statusCode] ?? 0) + 1
      res.resume()
      res.once('close', () => ended(left.has(req) ? 'left' : 'broken'))
      res.on('error', () => {})
    })
    req.once('error', () => req.res === undefined && ended(left.has(req) ? 'left' : 'broken'))
    req.end(body)
  })
}

function leave(req) {
  left.add(req)
  req.destroy()
}

function look(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const rssMiB = Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)[1]) / 1024)
  return { rssMiB, descriptors: readdirSync(`/proc/${pid}/fd`).length }
}

async function reserved(url) {
  const { reservations, holds, workers } = await (await fetch(`${url}/status`)).json()
  return reservations + holds + workers[0].inFlight
}

function rowsOf(samples, before, after, reservations) {
  const atLoad = samples.filter((sample) => sample.live >= STREAMS * FULL)
  const first = atLoad[0]?.rssMiB ?? Number.NaN
  const last = atLoad.at(-1)?.rssMiB ?? Number.NaN
  const row = (name, value, unit, goal, holds) => ({
    name: `soak.gateway.${name}`,
    value,
    unit,
    goal,
    holds,
  })
  return [
    row('streams_at_once', Math.max(...samples.map((sample) => sample.live)), 'streams'),
    row('streams', seen.left + seen.broken, 'streams, all left by their clients'),
    row('streams_broken', seen.broken, 'streams', '0', seen.broken === 0),
    row('memory_before', before.rssMiB, 'MiB'),
    row('memory_at_load_first', first, 'MiB'),
    row('memory_at_load_last', last, 'MiB', `<= ${STEADY} x the first`, last <= STEADY * first),
    row('memory_after', after.rssMiB, 'MiB'),
    row('left_reserved', reservations, 'turns', '0', reservations === 0),
    row('descriptors_before', before.descriptors, 'descriptors'),
    row(
      'descriptors_after',
      after.descriptors,
      'descriptors',
      '<= before + 10',
      after.descriptors <= before.descriptors + 10,
    ),
  ]
}

try {
  const gateway = await startGateway(await startSource())
  const before = look(gateway.pid)
  const places = []
  for (let n = 0; n < STREAMS; n += 1) {
    places.push(keepBusy(gateway.url))
    while (asked - live > PENDING) await sleep(20)
  }
  const samples = []
  for (const end = Date.now() + SECONDS * 1000; Date.now() < end; ) {
    await sleep(LOOK_MS)
    samples.push({ live, ...look(gateway.pid) })
    process.stderr.write(`${JSON.stringify(samples.at(-1))}\n`)
  }
  stopping = true
  for (const req of open) leave(req)
  await Promise.all(places)
  agent.destroy()
  // Connections with the worker are kept for 4 s.
  await sleep(8_000)
  const rows = rowsOf(samples, before, look(gateway.pid), await reserved(gateway.url))
  console.table(rows)
  console.table(seen.status)
  if (values.json) writeFileSync(values.json, `${JSON.stringify({ rows }, null, 2)}\n`)
  if (rows.some(({ holds }) => holds === false)) process.exitCode = 1
} finally {
  rmSync(scratch, { recursive: true })
}
process.exit()
