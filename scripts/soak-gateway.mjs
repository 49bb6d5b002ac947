/**
 * `node scripts/soak-gateway.mjs [--streams 5000] [--seconds 120] [--json FILE] [--log FILE]`: so many
 * streams at once through `warmpath serve` for so long. Some clients leave in the middle and others come in their
 * place, some read slower than they are written to, and all leave together at the end. Memory and file
 * descriptors of the gateway are looked at on the way (Linux); afterwards nothing may be left.
 */
import { fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Clients } from './soak/clients.mjs'
import { descriptorLimit, look } from './soak/process.mjs'
import { rowsOf } from './soak/rows.mjs'

/** Most streams outlast the run: so many come together on any machine. */
const TOKENS_PER_SECOND = 1 / 3
const TOKENS = 1_000
/** Looking at thousands of streams each millisecond would take all of the worker's time. */
const TICK_MS = 100
const LOOK_MS = 10_000
/** The gateway has a descriptor for each end of a stream, and some of its own. */
const DESCRIPTORS = (streams) => 2 * streams + 100
/** Idle connections with a worker are kept for 4 s; what is there after this stays. */
const LEFT_MS = 15_000
const FINAL_MS = 2_000

const { streams, seconds, json, log } = read()
const root = join(import.meta.dirname, '..')
const scratch = mkdtempSync(join(tmpdir(), 'warmpath-soak-'))
const children = []
// However this ends, nothing of it goes on.
process.on('exit', () => {
  for (const each of children) each.kill('SIGKILL')
})
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))

function read() {
  const { values } = parseArgs({
    options: {
      streams: { type: 'string', default: '5000' },
      seconds: { type: 'string', default: '120' },
      json: { type: 'string' },
      log: { type: 'string' },
    },
  })
  const [many, long] = [Number(values.streams), Number(values.seconds)]
  if (!(Number.isInteger(many) && many > 0)) refuse('--streams must be a whole number above 0')
  if (!(long > 0)) refuse('--seconds must be a number above 0')
  if (DESCRIPTORS(many) > descriptorLimit()) {
    refuse(`${many} streams need ${DESCRIPTORS(many)} descriptors a process: raise ulimit -n`)
  }
  return { ...values, streams: many, seconds: long }
}

function refuse(why) {
  console.error(why)
  process.exit(1)
}

async function startSource() {
  const args = [TOKENS, TOKENS_PER_SECOND, TICK_MS].map(String)
  const source = fork(join(root, 'benches/gateway/source.mjs'), args)
  children.push(source)
  const [url] = await once(source, 'message')
  return { url, source }
}

/** Streams that the worker has, and those of them whose client takes nothing at the moment. */
async function ask(source) {
  source.send('figures')
  return (await once(source, 'message'))[0]
}

async function startGateway(worker) {
  const config = join(scratch, 'gateway.json')
  writeFileSync(config, JSON.stringify({ scheduler: { workers: [{ id: 'a', url: worker }] } }))
  const heap = ['--expose-gc', '--require', join(import.meta.dirname, 'soak/heap.cjs')]
  const args = [...heap, join(root, 'dist/cli/main.mjs'), 'serve', '-c', config, '-p', '0', '--log']
  const output = log === undefined ? 'ignore' : openSync(log, 'w')
  const child = spawn(process.execPath, args, { stdio: ['ignore', output, 'pipe'] })
  children.push(child)
  const lines = createInterface(child.stderr)
  const [line] = await once(lines, 'line')
  const url = /listens on (\S+)/.exec(line)?.[1]
  if (url === undefined) throw new Error(`warmpath serve did not start: ${line}`)
  return { url, child, lines }
}

/** What the gateway has; `inUseMiB` after a collection, so that it can be compared. */
async function measure({ child, lines }) {
  child.kill('SIGUSR2')
  const [line] = await once(lines, 'line')
  const inUseMiB = Math.round(Number(/^in use (\d+)$/.exec(line)[1]) / 2 ** 20)
  return { inUseMiB, ...look(child.pid) }
}

async function reserved(url) {
  const headers = { connection: 'close' }
  const { reservations, holds, workers } = await (await fetch(`${url}/status`, { headers })).json()
  return reservations + holds + workers[0].inFlight
}

function tell(what) {
  process.stderr.write(`${JSON.stringify(what)}\n`)
}

try {
  const { url: worker, source } = await startSource()
  const gateway = await startGateway(worker)
  const before = await measure(gateway)
  tell({ before })
  const clients = new Clients(gateway.url, streams)
  await clients.come((live) => tell({ live, ...look(gateway.child.pid) }))
  const samples = []
  for (const end = Date.now() + seconds * 1000; Date.now() < end; ) {
    await sleep(Math.min(LOOK_MS, end - Date.now()))
    const { waiting } = await ask(source)
    samples.push({ live: clients.live, waiting, ...(await measure(gateway)) })
    tell(samples.at(-1))
  }
  await clients.leave()
  for (const end = Date.now() + LEFT_MS; Date.now() < end; await sleep(250)) {
    if (look(gateway.child.pid).descriptors <= before.descriptors) break
  }
  // What a finaliser lets go is there until the next collection.
  await measure(gateway)
  await sleep(FINAL_MS)
  const after = await measure(gateway)
  const left = { reserved: await reserved(gateway.url), atWorker: (await ask(source)).streams }
  const rows = rowsOf({ streams, samples, before, after, left, seen: clients.seen })
  console.table(rows)
  console.table(clients.seen.status)
  if (json) writeFileSync(json, `${JSON.stringify({ rows, samples }, null, 2)}\n`)
  if (rows.some(({ holds }) => holds === false)) process.exitCode = 1
} finally {
  rmSync(scratch, { recursive: true })
}
process.exit()
