/**
 * A decision about a prompt of tokens, beside one XXH3 pass over them and the floor of a native call.
 *
 * The pass is timed by a program of `benches/rooms`, between the rounds of the decision.
 */
import { execFileSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { Scheduler } from '../../dist/index.mjs'
import { workers } from '../decision.mjs'
import { least, leastCall, median, row } from '../measure.mjs'

const TOKENS = 10_000
const PASSES = 4
const NOOPS = 20
const TURNS = 200

export async function tokenRows({ floor, quick }) {
  const { noop } = createRequire(import.meta.url)(floor)
  const pass = passTimer()
  const scheduler = new Scheduler({ workers: workers(4) })
  const rounds = Array.from({ length: quick ? 2 : 12 })
  const seen = []
  for (const _ of rounds) {
    seen.push({ submit: await window(scheduler), noop: leastCall(noop, 50), pass: pass() })
  }
  scheduler.close()
  const of = (name) => least(seen.map((each) => each[name]))
  const ratio = median(seen.map((s) => s.submit / (PASSES * s.pass + NOOPS * s.noop)))
  return [
    row('tokens.10k.submit', of('submit'), 'ns'),
    row('tokens.10k.xxh3-pass', of('pass'), 'ns'),
    row('floor.noop', of('noop'), 'ns'),
    row(`tokens.10k.to-${PASSES}-passes-and-${NOOPS}-noops`, ratio, 'x', 1),
  ]
}

/** The median time of a submit, nanoseconds; sessions of a few turns each. */
async function window(scheduler) {
  const times = []
  for (let at = 0; at < TURNS; at++) {
    const turn = at % 5
    if (turn === 0) window.session = (window.session ?? 0) + 1
    const tokens = Uint32Array.from({ length: TOKENS + 64 * turn }, (_, n) => n + window.session)
    const request = {
      path: '/v1/chat/completions',
      session: `s${window.session}`,
      tokens,
      model: 'm',
    }
    const begun = process.hrtime.bigint()
    const reserved = await scheduler.submit(request)
    times.push(Number(process.hrtime.bigint() - begun))
    reserved.firstToken()
    reserved.complete({ promptTokens: tokens.length, completionTokens: 20 })
  }
  return median(times)
}

function passTimer() {
  const manifest = join(import.meta.dirname, '..', 'rooms', 'Cargo.toml')
  const build = ['build', '-q', '--release', '--manifest-path', manifest, '--bin', 'pass']
  const out = execFileSync('cargo', [...build, '--message-format', 'json'], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const artifacts = out
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))
  const { executable } = artifacts.find((a) => a.target?.name === 'pass' && a.executable)
  return () => Number(execFileSync(executable, [String(4 * TOKENS)], { encoding: 'utf8' }))
}
