/**
 * `warmpath doctor`: do the engines and the configuration agree?
 *
 * Listens to the workers and shared stores of a configuration file as a gateway would, for a few seconds,
 * asks each of them for its health and its metrics, and says what should be changed; of recorded requests
 * it says what keeps them from sharing a cache. It sends no turn, but for a prompt of its own where
 * `--probe` asks for that, and changes nothing. Events that are handed out once, as TensorRT-LLM's, it
 * leaves to the gateway unless `--take-events` is given. It ends with 1 when there is something to change.
 */
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { Command, InvalidArgumentError } from 'commander'
import { baseOf } from '../engines/index.js'
import { loadConfig } from '../gateway/index.js'
import { Scheduler, type SchedulerOptions, WarmpathError, type WorkerOptions } from '../index.js'
import { diagnose, diagnosePool, type Replay, renderDiagnosis, renderPools } from './diagnosis.js'
import { examine, modelOf, type Place } from './examine.js'
import { failedProbe, type Probed, probe } from './probe.js'
import { findSharing, type Recorded, renderSharing } from './sharing.js'

interface DoctorOptions {
  config: string
  wait: number
  requests?: string
  probe?: true
  takeEvents?: true
  json?: true
}

const DEFAULT_BLOCK_TOKENS = 64

function doctorCommand(): Command {
  return new Command('doctor')
    .description('ask the configured workers and listen to their events: does everything agree?')
    .requiredOption('-c, --config <file>', 'configuration file of the gateway (JSON or YAML)')
    .option('-w, --wait <seconds>', 'how long to listen to events', readSeconds, 3)
    .option(
      '-r, --requests <file>',
      'requests, as JSON or a line each: what keeps them from sharing?',
    )
    .option(
      '-p, --probe',
      'send each engine a prompt: does it tell of the blocks that it computes? (waits 10 s for it at most, or as long as --wait)',
    )
    .option(
      '--take-events',
      'ask TensorRT-LLM for its events too: it hands them out once, so a gateway that runs loses them',
    )
    .option('--json', 'the findings as JSON')
    .action(doctor)
}

function readSeconds(text: string): number {
  const seconds = Number(text)
  if (text !== '' && seconds >= 0 && seconds <= 600) return seconds
  throw new InvalidArgumentError('It must be a number of seconds from 0 to 600.')
}

async function doctor(asked: DoctorOptions): Promise<void> {
  const { config: file, wait, requests, probe: probes, takeEvents, json } = asked
  const sharing = requests === undefined ? undefined : findSharing(await readRequests(requests))
  const { scheduler: given, health } = await loadConfig(file, process.env)
  if (given instanceof Scheduler) throw new WarmpathError('WARMPATH_CONFIG', 'needs options')
  Scheduler.check(given)
  const places = placesOf(given)
  const replays = new Map(given.workers?.map((worker) => [idOf(worker), replayOf(worker)]))
  const left = takeEvents ? new Set<string>() : handedOutOnce(given)
  const options = without(given, left)
  using scheduler = new Scheduler(options)
  const blockTokens = options.cache?.blockTokens ?? DEFAULT_BLOCK_TOKENS
  await sleep(wait * 1000)
  scheduler.poll()
  const probed = probes ? await probeAll(scheduler, options, wait) : undefined
  const { workers, pools } = scheduler.status()
  const rows = await Promise.all(
    workers.flatMap((worker) => {
      const place = places.get(worker.id)
      if (place === undefined) return []
      return [
        examine(place, health?.path ?? '/health').then((answers) =>
          diagnose({
            ...answers,
            worker,
            blockTokens,
            probed: probed?.get(worker.id),
            replay: replays.get(worker.id),
            leavesEvents: left.has(worker.id),
          }),
        ),
      ]
    }),
  )
  const stores = pools.map(diagnosePool)
  const found = { workers: rows, pools: stores, ...(sharing && { sharing }) }
  const told =
    renderDiagnosis(rows) +
    renderPools(stores) +
    (sharing === undefined ? '' : `\n${renderSharing(sharing)}`)
  process.stdout.write(json ? `${JSON.stringify(found, null, 2)}\n` : told)
  const isLost = sharing?.findings.some(({ lost }) => lost > 0)
  if (isLost || [...rows, ...stores].some(({ advice }) => advice.length > 0)) process.exitCode = 1
}

/**
 * `{ path, body }` each, or `url` in place of `path`: a JSON array, or an object a line. Throws CONFIG;
 * nothing of what is wrong is shown, since requests hold what people have written.
 */
async function readRequests(file: string): Promise<Recorded[]> {
  let all: unknown[]
  try {
    const text = (await readFile(file, 'utf8')).trim()
    all = text.startsWith('[')
      ? JSON.parse(text)
      : text.split('\n').map((line): unknown => JSON.parse(line))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new WarmpathError('WARMPATH_CONFIG', `cannot read ${file} (${code ?? 'no JSON'})`)
  }
  return all.flatMap((each) => {
    const { path, url, body } = (each ?? {}) as { path?: unknown; url?: unknown; body?: unknown }
    const at = path ?? url
    const isRequest = typeof at === 'string' && typeof body === 'object' && body !== null
    return isRequest ? [{ path: at, body: body as Recorded['body'] }] : []
  })
}

const idOf = ({ id, url }: WorkerOptions) => id ?? new URL(url).host

/** By id, the engines; hosted targets have no worker of their own in the file. */
function placesOf({ workers = [] }: SchedulerOptions): Map<string, Place> {
  return new Map(
    workers.map((worker) => [idOf(worker), { url: worker.url, headers: worker.headers ?? {} }]),
  )
}

/** Those whose events are gone for everybody else when they have been asked for. */
function handedOutOnce({ workers = [] }: SchedulerOptions): Set<string> {
  return new Set(workers.filter((worker) => replayOf(worker) === 'never').map(idOf))
}

function replayOf({ kvEvents }: WorkerOptions): Replay {
  const { endpoint, replay } =
    typeof kvEvents === 'object' ? kvEvents : { endpoint: kvEvents, replay: undefined }
  if (endpoint !== undefined && /^https?:/i.test(endpoint)) return 'never'
  return replay === undefined ? 'lacks' : 'has'
}

/** The same, but for events of these workers; a store is of no use when no worker is left that tells. */
function without(options: SchedulerOptions, left: ReadonlySet<string>): SchedulerOptions {
  if (left.size === 0) return options
  const workers = (options.workers ?? []).map((worker) => {
    const { kvEvents: _, ...rest } = worker
    return left.has(idOf(worker)) ? rest : worker
  })
  const { pools, ...rest } = options
  const tells = workers.some((worker) => 'kvEvents' in worker)
  return tells && pools !== undefined ? { ...rest, workers, pools } : { ...rest, workers }
}

/** Every engine that tells of its cache is sent a prompt, all at once. */
async function probeAll(
  scheduler: Scheduler,
  options: SchedulerOptions,
  wait: number,
): Promise<Map<string, Probed>> {
  const { workers = [], targets: named = {}, tokens, cache } = options
  const telling = workers.filter(({ kvEvents }) => kvEvents !== undefined)
  const found = telling.map(async (entry): Promise<[string, Probed]> => {
    const { url, headers = {} } = entry
    const worker = idOf(entry)
    const [own] = Object.entries(named).filter(
      ([, { workers }]) => workers?.includes(worker) ?? true,
    )
    try {
      const model = own === undefined ? await modelOf({ url, headers }) : (own[1].model ?? own[0])
      const plan = {
        ...{ scheduler, worker, url: baseOf(url), headers, model, target: own?.[0] ?? model },
        blockTokens: cache?.blockTokens ?? DEFAULT_BLOCK_TOKENS,
        asksRenderer: (own?.[1].tokens ?? tokens?.from) === 'engine',
        waitMs: wait * 1000,
      }
      return [worker, await probe(plan)]
    } catch (error) {
      return [worker, failedProbe(error as Error)]
    }
  })
  return new Map(await Promise.all(found))
}

export { doctorCommand }
