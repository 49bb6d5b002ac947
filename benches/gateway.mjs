/**
 * What `warmpath serve` costs a streamed token: `npm run bench:gateway -- [--json FILE] [--smg BIN]`.
 *
 * The same worker streams the same bytes through a plain node:http pipe, through `warmpath serve` and,
 * with `--smg`, through SMG's cache-aware router (`BIN launch`), one after the other, round by round.
 * Counted is the processor time of the process in the middle, over all its threads, a token (Linux); a
 * ratio is the median over the rounds, so that what else runs on the machine is in both its sides. Lateness is the
 * time from an event's being written by the worker to its being read by the client; what a process adds
 * is that minus the lateness without anything in between.
 */
import { fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { count, readArguments } from './arguments.mjs'

const HELP = `npm run bench:gateway -- [options]: what warmpath serve costs a streamed token

  --json FILE    write the figures as JSON rows
  --smg BIN      compare with SMG's router too
  --rounds N     rounds that count (5)
  --streams N    streams at once (64)
  --tokens N     tokens a stream (250)
  --pace MS      time between the tokens of a stream (50)`

const values = readArguments(
  {
    json: { type: 'string' },
    smg: { type: 'string' },
    rounds: { type: 'string', default: '5' },
    streams: { type: 'string', default: '64' },
    tokens: { type: 'string', default: '250' },
    pace: { type: 'string', default: '50' },
  },
  HELP,
)
const [ROUNDS, STREAMS, TOKENS, PACE] = ['rounds', 'streams', 'tokens', 'pace'].map((name) =>
  count(values, name),
)
const PATHS = { chat: '/v1/chat/completions', messages: '/v1/messages', responses: '/v1/responses' }
const CPU_GOAL = 1.3
/** The ways that are compared through every API. */
const COUNTED = { pipe: true, warmpath: true }

const here = import.meta.dirname
const scratch = mkdtempSync(join(tmpdir(), 'warmpath-bench-'))
const children = []
// However this ends, nothing of it goes on.
process.on('exit', () => {
  for (const each of children) each.kill('SIGKILL')
})
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))

async function child(file, ...args) {
  const process_ = fork(join(here, 'gateway', file), args.map(String))
  children.push(process_)
  return process_
}

async function listening(process_) {
  const [url] = await once(process_, 'message')
  return { url, pid: process_.pid }
}

async function startWarmpath(source) {
  const config = join(scratch, 'gateway.json')
  writeFileSync(config, JSON.stringify({ scheduler: { workers: [{ id: 'a', url: source }] } }))
  const main = join(here, '../dist/cli/main.mjs')
  const process_ = spawn(process.execPath, [main, 'serve', '-c', config, '-p', '0'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  children.push(process_)
  for await (const line of createInterface(process_.stderr)) {
    const url = /listens on (\S+)/.exec(line)?.[1]
    if (url) return { url, pid: process_.pid }
  }
  throw new Error('warmpath serve did not start')
}

async function startSmg(bin, source) {
  const [port, metrics] = [await freePort(), await freePort()]
  const args = [
    ...['launch', '--host', '127.0.0.1', '--port', port, '--worker-urls', source],
    ...['--policy', 'cache_aware', '--prometheus-host', '127.0.0.1', '--prometheus-port', metrics],
  ]
  const process_ = spawn(bin, args.map(String), { stdio: 'ignore' })
  children.push(process_)
  const url = `http://127.0.0.1:${port}`
  for (let tries = 0; tries < 100; tries += 1) {
    const answer = await fetch(`${url}/health`).catch(() => undefined)
    if (answer?.ok) return { url, pid: process_.pid }
    await sleep(200)
  }
  throw new Error('SMG did not start')
}

function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })
}

/** Processor time of all threads of a process, in nanoseconds. */
function cpuOf(pid) {
  const tasks = `/proc/${pid}/task`
  return readdirSync(tasks).reduce((sum, task) => {
    return sum + Number(readFileSync(`${tasks}/${task}/schedstat`, 'utf8').split(' ')[0])
  }, 0)
}

/** One load through one way; what it cost counts while all streams are under way. */
function measure(load, { url, pid }, path) {
  const cpu = () => (pid === undefined ? 0 : cpuOf(pid))
  return new Promise((resolve, reject) => {
    let before = 0
    let seen
    const hear = (message) => {
      if (message.kind === 'steady') before = cpu()
      if (message.kind === 'ending') {
        const { events, p50, eventsAPiece } = message
        seen = { p50, eventsAPiece, nsPerToken: (cpu() - before) / events }
      }
      if (message.kind !== 'over') return
      load.off('message', hear)
      if (seen === undefined) reject(new Error(`${url}${path}: ${message.error ?? 'too short'}`))
      else resolve(seen)
    }
    load.on('message', hear)
    load.send({ url, path, streams: STREAMS, tokens: TOKENS })
  })
}

function median(values_) {
  const sorted = [...values_].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)]
}

/** Each of `ways` through each API, round by round; the first round warms everything up. */
async function run(load, ways) {
  const seen = []
  for (let round = 0; round <= ROUNDS; round += 1) {
    for (const [api, path] of Object.entries(PATHS)) {
      const row = { api }
      for (const [name, way] of Object.entries(ways)) {
        // The others are measured where all are compared.
        if (api === 'chat' || name in COUNTED) row[name] = await measure(load, way, path)
      }
      if (round > 0) seen.push(row)
    }
  }
  return seen
}

function rowsOf(seen, ways) {
  const micros = (ns) => Number((ns / 1000).toFixed(1))
  const rows = []
  for (const api of Object.keys(PATHS)) {
    const of = seen.filter((row) => row.api === api)
    const ratio = median(of.map((row) => row.warmpath.nsPerToken / row.pipe.nsPerToken))
    rows.push({
      name: `gateway.cpu_per_token.${api}`,
      value: micros(median(of.map((row) => row.warmpath.nsPerToken))),
      unit: 'us',
      peer: `node:http pipe ${micros(median(of.map((row) => row.pipe.nsPerToken)))} us`,
      ratio: Number(ratio.toFixed(2)),
      goal: `ratio <= ${CPU_GOAL}`,
      holds: ratio <= CPU_GOAL,
    })
  }
  return [...rows, ...Object.keys(ways).flatMap((way) => latenessRows(seen, way, micros))]
}

/**
 * Of the chat API, which all ways speak. A process that falls behind gets several events at once and
 * costs less an event: ratios mean something where both sides got one at a time.
 */
function latenessRows(seen, way, micros) {
  if (way === 'direct') return []
  const of = seen.filter((row) => row.api === 'chat')
  const pieces = {
    name: `gateway.events_a_piece.${way}`,
    value: Number(median(of.map((each) => each[way].eventsAPiece)).toFixed(2)),
    unit: 'events',
  }
  const added = (name, share) => median(of.map((row) => row[name][share] - row.direct[share]))
  const row = {
    name: `gateway.added_latency.p50.${way}`,
    value: micros(added(way, 'p50')),
    unit: `us an event at ${STREAMS} streams`,
  }
  if (way !== 'warmpath' || of[0].smg === undefined) return [row, pieces]
  const ratio = added('warmpath', 'p50') / added('smg', 'p50')
  const peer = `SMG ${micros(added('smg', 'p50'))} us`
  const compared = { peer, ratio: Number(ratio.toFixed(2)), goal: 'ratio <= 1', holds: ratio <= 1 }
  return [{ ...row, ...compared }, pieces]
}

try {
  const source = await listening(await child('source.mjs', TOKENS, PACE))
  const ways = {
    direct: { url: source.url },
    pipe: await listening(await child('pipe.mjs', source.url)),
    warmpath: await startWarmpath(source.url),
    ...(values.smg && { smg: await startSmg(values.smg, source.url) }),
  }
  const rows = rowsOf(await run(await child('load.mjs'), ways), ways)
  console.table(rows)
  if (values.json) writeFileSync(values.json, `${JSON.stringify({ rows }, null, 2)}\n`)
} finally {
  rmSync(scratch, { recursive: true })
}
process.exit()
