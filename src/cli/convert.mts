/**
 * `warmpath convert`: traces in, in a format that other tools read.
 */
import { Command, Option } from 'commander'
import { WarmpathError } from '../index.js'
import { type TraceFormat, Workload, type Written, writePerfetto } from '../workload.js'
import { refuseOverwriting } from './outputs.mjs'
import { FORMATS } from './replay-flags.mjs'
import { number } from './values.mjs'

interface ConvertFlags {
  to: 'mooncake' | 'agentic-mooncake' | 'perfetto'
  out: string
  extras: boolean
  block?: number
  lenient?: true
  format?: TraceFormat
}

const NOTES = `
mooncake: arrivals and sessions; what else a turn waits for is approximated, and it says how often.
agentic-mooncake: everything that a workload has. perfetto: our own records as a picture. What is
written is compressed when --out ends in .gz.

Exit codes: 0 done, 1 a trace that cannot be read, 2 wrong usage or a file that cannot be written.`

function convertCommand(): Command {
  const to = new Option('--to <format>', 'what to write')
  return new Command('convert')
    .description('write traces in a format of other tools')
    .argument('<trace...>', 'files or folders')
    .addOption(to.choices(['mooncake', 'agentic-mooncake', 'perfetto']).makeOptionMandatory())
    .requiredOption('--out <file>', 'where it goes')
    .option('--no-extras', 'leave out what only Warmpath reads, for tools that refuse it')
    .option('--block <tokens>', 'block size where the trace has none', number('whole', 1, 65_536))
    .addOption(new Option('--format <name>', 'format of all traces').choices(FORMATS))
    .option('--lenient', 'leave faulty records out and count them')
    .addHelpText('after', NOTES)
    .action(convert)
}

async function convert(paths: string[], flags: ConvertFlags): Promise<void> {
  refuseOverwriting(paths, { '--out': flags.out })
  if (flags.to === 'perfetto') refuseForPicture(flags)
  const { rows, approximated } = await write(paths, flags)
  if (flags.to === 'perfetto') {
    process.stdout.write(
      `${rows} records as a picture in ${flags.out}: open it in ui.perfetto.dev\n`,
    )
    return
  }
  const more = approximated > 0 ? `, the start of ${approximated} of them approximated` : ''
  process.stdout.write(`${rows} records in ${flags.out}${more}\n`)
}

/** What a picture has no use for. */
function refuseForPicture({ extras, block, format, lenient }: ConvertFlags): void {
  const idle: [boolean, string][] = [
    [!extras, '--no-extras'],
    [block !== undefined, '--block'],
    [format !== undefined, '--format'],
    [lenient === true, '--lenient'],
  ]
  const found = idle.find(([isGiven]) => isGiven)
  if (found === undefined) return
  throw new WarmpathError('WARMPATH_CONFIG', `${found[1]} does nothing with --to perfetto`)
}

async function write(paths: string[], flags: ConvertFlags): Promise<Written> {
  const { to, out, extras, block, lenient, format } = flags
  if (to === 'perfetto') return writePerfetto(paths, out)
  const workload = await Workload.read({
    paths,
    lenient: lenient ?? false,
    ...(format !== undefined && { format }),
    ...(block !== undefined && { blockTokens: block }),
  })
  return workload.write(out, to, extras)
}

export { convertCommand }
