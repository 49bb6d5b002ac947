/**
 * `warmpath demo`: what does session-aware routing change, on this machine, in a minute?
 *
 * Runs the comparison of ../demo and says what came of it: a table on standard output, a picture,
 * rows of JSON when asked for. Progress goes to standard error. Nothing leaves the machine: engines,
 * routers and agents talk over the loopback address.
 *
 * Exit codes: 0 every session completed on every router and nothing was left reserved, 1 not.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Command, InvalidArgumentError } from 'commander'
import { compare, describe, paceWarning, planDemo, rows, sound, svg, table } from '../demo/index.js'

interface DemoFlags {
  sessions: number
  pressure: number
  seed: number
  speed: number
  json?: string
  svg: string
}

const DEFAULTS = { sessions: 64, pressure: 1.7, seed: 1, speed: 10 }

const NOTES = `
Four engine doubles (a published timing model behind HTTP) serve the same seeded sessions three
times: through round robin, through least-loaded, through Warmpath. Agents speak the wire forms of
Claude Code, OpenCode and Codex; their tools, waits and contexts are drawn from the seed. The caches
are sized so that all contexts together are --pressure times too large for them. Contexts are about a
tenth of what coding agents carry, so a prefill takes ten times as long as the model says, which
keeps what a lost context costs in proportion to the rest of a turn; a decode takes what it says.
Warmpath runs its defaults with ThunderAgent admission: it holds turns back while caches are full.

Times are model time, which passes --speed times as fast as the wall's; the time that the programs
themselves take counts too, at that rate. A star marks the best figure of a line, whoever has it.

Exit codes: 0 every session completed and nothing is left reserved, 1 not, 2 wrong usage.`

/** A reader of one number from the command line. */
function number(kind: 'whole' | 'any', least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    const shaped = /^\d+(\.\d+)?$/.test(text) && (kind === 'any' || Number.isInteger(value))
    if (shaped && value >= least && value <= most) return value
    const what = kind === 'whole' ? 'a whole number' : 'a number'
    throw new InvalidArgumentError(`It must be ${what} from ${least} to ${most}.`)
  }
}

/** @param threadFlags flags of node for the demo's threads; default: those of this process */
function demoCommand(threadFlags?: string[]): Command {
  return new Command('demo')
    .description('compare round robin, least-loaded and Warmpath on this machine')
    .option(
      '--sessions <n>',
      'agents at the same time',
      number('whole', 1, 1024),
      DEFAULTS.sessions,
    )
    .option(
      '--pressure <x>',
      'working set over the caches of all engines',
      number('any', 0.1, 20),
      DEFAULTS.pressure,
    )
    .option('--seed <n>', 'which workload', number('whole', 0, 2 ** 32 - 1), DEFAULTS.seed)
    .option(
      '--speed <x>',
      'model seconds in a second; lower it where the machine is slow',
      number('any', 0.1, 1000),
      DEFAULTS.speed,
    )
    .option('--json <file>', 'write the figures as JSON rows')
    .option('--svg <file>', 'where the picture goes', 'demo-results/demo.svg')
    .addHelpText('after', NOTES)
    .action((flags: DemoFlags) => demo(flags, threadFlags))
}

async function demo(flags: DemoFlags, threadFlags?: string[]): Promise<void> {
  const threads = threadFlags === undefined ? {} : { execArgv: threadFlags }
  const options = { ...flags, ...threads, screen: process.stderr }
  const plan = planDemo(options)
  const caption = describe(plan)
  process.stderr.write(`${caption}\n`)
  const runs = await compare(plan, options)
  process.stdout.write(`\n${caption}; times are model time\n\n${table(runs)}\n\n`)
  const warning = paceWarning(runs)
  if (warning !== undefined) process.stdout.write(`${warning}\n`)
  const doubt = warning === undefined ? '' : '; this machine did not keep pace'
  await write(flags.svg, svg(runs, `${caption}; model time${doubt}`))
  process.stdout.write(`picture: ${flags.svg}\n`)
  if (flags.json !== undefined) {
    await write(flags.json, `${JSON.stringify({ rows: rows(runs) }, null, 2)}\n`)
    process.stdout.write(`rows: ${flags.json}\n`)
  }
  if (!runs.every(sound)) process.exitCode = 1
}

async function write(file: string, content: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true })
  await writeFile(file, content)
}

export { demoCommand }
