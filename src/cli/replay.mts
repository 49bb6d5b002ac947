/**
 * `warmpath replay`: what would other policies have done to this traffic?
 *
 * Reads traces, lets their sessions run through modelled fleets under each policy, or sends them to
 * real endpoints, and says what came of it: tables on standard output, a page with charts, rows of JSON
 * when asked for. Progress goes to standard error.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Command } from 'commander'
import { WarmpathError } from '../index.js'
import {
  type Comparison,
  compare,
  compareEndpoints,
  Progress,
  page,
  rows,
  tables,
} from '../replay/index.js'
import { Workload, type WorkloadSummary } from '../workload.js'
import { refuseOverwriting } from './outputs.mjs'
import {
  addFlags,
  endpointOptions,
  fleetOptions,
  type ReplayFlags,
  refuseCache,
  refuseIdle,
} from './replay-flags.mjs'
import { visible } from './table.js'
import { verify } from './verify.mjs'

const NOTES = `
Traces are files and folders: our own recordings, Mooncake and agentic Mooncake rows, recorded coding
sessions, OpenTelemetry spans, and what Claude Code (~/.claude/projects) and Codex (~/.codex/sessions)
keep; gzip or not. Content is hashed while it is read and not kept.

Policies: round-robin, least-loaded; kv (the cheapest worker by cache and load with the weights of the
published router, nothing held; also called none) and warmpath (the same with a scheduler's default
weights); the admission policies thunderagent and lease. Options behind a colon: NAME:OPTION=VALUE, such
as lease:theta=0.35 or kv:prefillScale=4. Those of ours take gates too, and the order in which turns wait
for them: warmpath:maxRunning=8:queue=wspt.

With --pressure a constant number of sessions of the trace is kept alive, so that their contexts fill
the caches so many times. With --as-recorded every turn comes once, when the trace says. Without either
traces of sessions are run at 0.5, 1, 1.5 and 2, and traces of single requests as recorded.

With --events predicted kv, thunderagent and lease believe that a prompt is cached where they sent it;
with --events exact the modelled engines tell what they store and remove, --event-delay later, and a
share of --event-loss of these messages is lost: a gap voids what was known of the engine, until it has
told again what was lost (--event-recovery replay) or for good (never).

With --endpoint the turns go over HTTP to POST /v1/chat/completions, with text made up so that what
shared a prefix shares it again. With --verify nothing is compared: recorded decisions are made again.

Exit codes: 0 done, 1 a trace that cannot be read or a run that failed, 2 wrong usage.`

function replayCommand(): Command {
  const command = new Command('replay')
    .description('run recorded traffic through modelled fleets, or real ones, and compare policies')
    .argument('<trace...>', 'files or folders')
  return addFlags(command).addHelpText('after', NOTES).action(replay)
}

async function replay(traces: string[], flags: ReplayFlags, command: Command): Promise<void> {
  const given = (name: string) => isGiven(command, name)
  refuseIdle(flags, given)
  if (flags.verify) return verify(traces, flags)
  refuseOverwriting(traces, { '--html': flags.html, '--json': flags.json })
  const progress = new Progress(process.stderr)
  const stop = new AbortController()
  const onSignal = () => stop.abort()
  process.once('SIGINT', onSignal)
  try {
    const workload = await read(traces, flags, progress)
    const { endpoint } = flags
    if (endpoint === undefined) refuseCache(flags, workload.summary().blockTokens)
    const comparison =
      endpoint === undefined
        ? await compare(workload, fleetOptions(flags), progress, stop.signal)
        : await compareEndpoints(workload, endpointOptions(flags, endpoint), progress, stop.signal)
    progress.stop()
    await show(comparison, flags)
    if (endpoint !== undefined) judge(comparison)
  } finally {
    progress.stop()
    process.off('SIGINT', onSignal)
  }
}

/** A run over HTTP in which no turn succeeded is a run that failed. */
function judge({ runs }: Comparison): void {
  const dead = runs.filter(({ report }) => report.turns.completed === 0)
  if (dead.length === 0) return
  const labels = dead.map(({ label }) => label).join(', ')
  process.stderr.write(`warmpath: no turn succeeded at ${labels}\n`)
  process.exitCode = 1
}

/** Whether the caller named the option. */
function isGiven(command: Command, name: string): boolean {
  return command.getOptionValueSource(name) === 'cli'
}

async function read(
  paths: string[],
  { lenient, format, block }: ReplayFlags,
  progress: Progress,
): Promise<Workload> {
  progress.announce(`reading ${paths.join(', ')}`)
  const workload = await Workload.read({
    paths,
    lenient: lenient ?? false,
    ...(format !== undefined && { format }),
    ...(block !== undefined && { blockTokens: block }),
  })
  progress.announce(describe(workload.summary()))
  return workload
}

function describe({ turns, sessions, orphans, ...summary }: WorkloadSummary): string {
  const [foreign] = summary.ignored
  const notes: [string | undefined, string][] = [
    [counted(summary.skipped), 'records left out: '],
    [counted(summary.unlinked), 'left out of records that are kept: '],
    [orphans > 0 ? String(orphans) : undefined, 'sessions whose parent is not in the trace: '],
    [
      foreign && `${summary.ignored.length}, the first ${visible(foreign.path)} (${foreign.why})`,
      'files passed over: ',
    ],
  ]
  const found = notes.flatMap(([what, of]) => (what === undefined ? [] : [of + what]))
  return [`${turns} turns of ${sessions} sessions`, ...found].join('; ')
}

function counted(kinds: Readonly<Record<string, number>>): string | undefined {
  const all = Object.entries(kinds).map(([kind, count]) => `${count} ${kind}`)
  return all.length === 0 ? undefined : all.join(', ')
}

async function show(comparison: Comparison, flags: ReplayFlags): Promise<void> {
  const parts = [describe(comparison.summary), tables(comparison), ...failed(comparison)]
  process.stdout.write(`${parts.join('\n\n')}\n\n`)
  await write(flags.html, page(comparison, `warmpath ${process.argv.slice(2).join(' ')}`))
  process.stdout.write(`page: ${flags.html}\n`)
  if (flags.json === undefined) return
  await write(flags.json, `${JSON.stringify({ rows: rows(comparison) }, null, 2)}\n`)
  process.stdout.write(`rows: ${flags.json}\n`)
}

/** What went wrong over HTTP, a line an endpoint. */
function failed({ failures }: Comparison): string[] {
  const lines = [...(failures ?? [])].map(([label, found]) => {
    const kinds = found.map(([what, count]) => `${count} ${what}`)
    return `${label}: ${kinds.length === 0 ? 'no turn failed' : `failed: ${kinds.join(', ')}`}`
  })
  return lines.length === 0 ? [] : [lines.join('\n')]
}

async function write(file: string, content: string): Promise<void> {
  try {
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, content)
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'an error'
    throw new WarmpathError('WARMPATH_CONFIG', `cannot write ${file} (${code})`)
  }
}

export { replayCommand }
