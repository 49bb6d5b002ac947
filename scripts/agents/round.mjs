/**
 * One round: two engine doubles, `warmpath serve`, and one agent four times at once; in the middle
 * one double is killed with answers under way. Gives back everything that anybody saw.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { startRecorder } from './recorder.mjs'
import { END_FILE, rootPrompt, STEPS } from './task.mjs'

const here = dirname(fileURLToPath(import.meta.url))
const MAIN = join(here, '../../dist/cli/main.mjs')
const AT_ONCE = 4
const LIMIT_MS = 600_000
/** Model time for each unit of real time: decoding is slow enough for answers to be cut. */
const SPEED = 2

/** Tokens that a double has room for: two doubles have less than four sessions want. */
const capacityOf = (client) => Math.round(client.window * 1.75)

export async function runRound(name, client, folder, bin) {
  mkdirSync(folder, { recursive: true })
  const closing = []
  try {
    const engines = await Promise.all(['a', 'b'].map((id) => startEngine(id, client, closing)))
    const gateway = await startGateway(client, engines, folder, closing)
    const recorder = await startRecorder(gateway.url)
    closing.push(() => recorder.close())
    const killed = killInTheMiddle(recorder.exchanges, engines)
    const tasks = await Promise.all(
      Array.from({ length: AT_ONCE }, (_, n) =>
        runAgent(name, client, folder, bin, n, recorder.url),
      ),
    )
    killed.cancel()
    const receipts = await receiptsOf(gateway.url, recorder.exchanges)
    const exit = await gateway.stop()
    const trace = readLines(join(folder, 'trace.jsonl')).map((record) => record.event)
    const { exchanges } = recorder
    return { name, tasks, exchanges, engines, receipts, trace, exit, killed: killed.done }
  } finally {
    for (const close of closing.reverse()) close()
  }
}

async function startEngine(id, client, closing) {
  const options = JSON.stringify({ id, capacityTokens: capacityOf(client), speed: SPEED })
  const child = spawn(process.execPath, [join(here, 'engine.mjs'), options], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  closing.push(() => child.kill('SIGKILL'))
  const engine = { id, child, lines: [], running: new Set() }
  await new Promise((listening) => {
    createInterface(child.stdout).on('line', (text) => {
      const line = JSON.parse(text)
      if (line.kind === 'listening') listening(Object.assign(engine, { url: line.url }))
      if (line.kind === 'request') engine.running.add(line.request)
      if (line.kind === 'end') engine.running.delete(line.request)
      engine.lines.push(line)
    })
  })
  return engine
}

async function startGateway(client, engines, folder, closing) {
  const config = join(folder, 'gateway.json')
  writeFileSync(config, JSON.stringify(gatewayConfig(client, engines), null, 2))
  const args = ['serve', '--config', config, '--port', '0', '--trace', join(folder, 'trace.jsonl')]
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ['ignore', 'ignore', 'pipe'] })
  closing.push(() => child.kill('SIGKILL'))
  const exited = once(child, 'exit')
  const url = await new Promise((listening, failed) => {
    createInterface(child.stderr).on('line', (line) => {
      process.stderr.write(`  ${line}\n`)
      const found = /listens on (\S+)/.exec(line)?.[1]
      if (found) listening(found)
    })
    child.once('exit', (code) => failed(new Error(`the gateway ended with ${code}`)))
  })
  const stop = async () => {
    child.kill('SIGTERM')
    return (await exited)[0]
  }
  return { url, stop }
}

function gatewayConfig(client, engines) {
  const workers = engines.map(({ id, url }) => ({
    id,
    url,
    capacityTokens: capacityOf(client),
  }))
  const served = engines.map(({ id }) => id)
  return {
    scheduler: {
      workers,
      targets: {
        large: { model: 'double-large', workers: served },
        small: { model: 'double-small', workers: served },
      },
      aliases: { [client.model]: ['large'], 'side-model': ['small'] },
      admission: { policy: 'thunderagent', intervalMs: 1_000, holdLimitSeconds: 300 },
    },
    // Short, so that held clients see keep-alives.
    hold: { keepAliveAfterMs: 2_000, keepAliveEveryMs: 2_000 },
  }
}

/** Kills a double that has answers under way once half of all steps are done. */
function killInTheMiddle(exchanges, engines) {
  const half = (AT_ONCE * (STEPS.before + STEPS.after + STEPS.within + 3)) / 2
  const killed = { done: undefined, cancel: () => clearInterval(timer) }
  const timer = setInterval(() => {
    const over = exchanges.filter(({ role, whole }) => role !== 'beside' && whole).length
    const [busiest] = [...engines].sort((one, other) => other.running.size - one.running.size)
    if (over < half || busiest.running.size === 0) return
    busiest.child.kill('SIGKILL')
    killed.done = { id: busiest.id, at: Date.now(), running: [...busiest.running] }
    killed.cancel()
  }, 20)
  return killed
}

async function runAgent(name, client, folder, bin, number, url) {
  const tag = `${name.replace('-', '')}${number}`
  const home = join(folder, `home-${number}`)
  const work = join(folder, `work-${number}`)
  for (const each of [home, work]) mkdirSync(each, { recursive: true })
  const { bin: command, args, env } = client.prepare(home, url, work)
  await sleep(number * 300)
  const begun = Date.now()
  const child = spawn(join(bin, command), args(rootPrompt(tag)), {
    cwd: work,
    env: { PATH: process.env.PATH, LANG: 'C.UTF-8', HOME: home, ...env(url) },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const output = { out: '', err: '' }
  child.stdout.on('data', (piece) => {
    output.out += piece
  })
  child.stderr.on('data', (piece) => {
    output.err += piece
  })
  const limit = setTimeout(() => child.kill('SIGKILL'), LIMIT_MS)
  const [code] = await once(child, 'close')
  clearTimeout(limit)
  writeFileSync(join(folder, `agent-${number}.log`), `${output.out}\n---\n${output.err}`)
  return { tag, code, seconds: (Date.now() - begun) / 1000, end: endOf(work) }
}

function endOf(work) {
  try {
    return readFileSync(join(work, END_FILE), 'utf8').trim()
  } catch {
    return undefined
  }
}

async function receiptsOf(url, exchanges) {
  const receipts = new Map()
  for (const { receipt } of exchanges) {
    if (receipt === undefined) continue
    const answer = await fetch(`${url}/receipts/${receipt}`)
    if (answer.ok) receipts.set(receipt, await answer.json())
  }
  return receipts
}

function readLines(file) {
  const text = readFileSync(file, 'utf8').trim()
  return text === '' ? [] : text.split('\n').map((line) => JSON.parse(line))
}
