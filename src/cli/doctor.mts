/**
 * `warmpath doctor`: do the engines and the configuration agree?
 *
 * Listens to the workers and shared stores of a configuration file as a gateway would, for a few seconds, asks each of
 * them for its health and its metrics, and says what should be changed; of recorded requests it says what
 * keeps them from sharing a cache. It sends no turn, but for a prompt of its own where `--probe` asks for
 * that, and changes nothing. It ends with 1 when there is something to change.
 */
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { Command, InvalidArgumentError } from 'commander'
import { causeOf, type EngineMetrics, readMetrics } from '../engines/index.js'
import { loadConfig } from '../gateway/index.js'
import { Scheduler, type SchedulerOptions, WarmpathError, type WorkerStatus } from '../index.js'
import { diagnose, diagnosePool, renderDiagnosis, renderPools } from './diagnosis.js'
import { type Probed, probe } from './probe.js'
import { findSharing, type Recorded, renderSharing } from './sharing.js'

interface DoctorOptions {
  config: string
  wait: number
  requests?: string
  probe?: true
  json?: true
}

const LIMIT_MS = 5_000
/** No engine's metrics are longer. */
const MAX_TEXT = 8 << 20
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
      'send each engine a prompt: does it tell of the blocks that it computes?',
    )
    .option('--json', 'the findings as JSON')
    .action(doctor)
}

function readSeconds(text: string): number {
  const seconds = Number(text)
  if (text !== '' && seconds >= 0 && seconds <= 600) return seconds
  throw new InvalidArgumentError('It must be a number of seconds from 0 to 600.')
}

async function doctor({
  config: file,
  wait,
  requests,
  probe: probes,
  json,
}: DoctorOptions): Promise<void> {
  const sharing = requests === undefined ? undefined : findSharing(await readRequests(requests))
  const { scheduler: options } = await loadConfig(file, process.env)
  if (options instanceof Scheduler) throw new WarmpathError('WARMPATH_CONFIG', 'needs options')
  using scheduler = new Scheduler(options)
  const blockTokens = options.cache?.blockTokens ?? DEFAULT_BLOCK_TOKENS
  const urls = addresses(options)
  await sleep(wait * 1000)
  scheduler.poll()
  const probed = probes ? await probeAll(scheduler, options, wait) : undefined
  const { workers, pools } = scheduler.status()
  const own = workers.filter(({ id }) => urls.has(id))
  const rows = await Promise.all(
    own.map(async (worker) => {
      const prompt = probed?.get(worker.id)
      const found = { ...(await examine(worker, urls)), blockTokens }
      return diagnose(prompt === undefined ? found : { ...found, probed: prompt })
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

/** Id -> base address of the engines; hosted targets have no worker of their own in the file. */
function addresses({ workers = [] }: SchedulerOptions): Map<string, string> {
  return new Map(
    workers.map(({ id, url }) => [id ?? new URL(url).host, url.replace(/\/+(v1\/*)?$/, '')]),
  )
}

/** Every engine that tells of its cache is sent a prompt, one after the other. */
async function probeAll(
  scheduler: Scheduler,
  options: SchedulerOptions,
  wait: number,
): Promise<Map<string, Probed>> {
  const found = new Map<string, Probed>()
  for (const { id, url, headers = {}, kvEvents } of options.workers ?? []) {
    if (kvEvents === undefined) continue
    const worker = id ?? new URL(url).host
    const base = url.replace(/\/+(v1\/*)?$/, '')
    const targets = Object.entries(options.targets ?? {})
    const [own] = targets.filter(([, { workers }]) => workers?.includes(worker) ?? true)
    const model = own === undefined ? await modelOf(base, headers) : (own[1].model ?? own[0])
    const from = own?.[1].tokens ?? options.tokens?.from
    const plan = {
      ...{ scheduler, worker, url: base, headers, model, target: own?.[0] ?? model },
      blockTokens: options.cache?.blockTokens ?? DEFAULT_BLOCK_TOKENS,
      asksRenderer: from === 'engine',
      waitMs: wait * 1000,
    }
    found.set(worker, await probe(plan))
  }
  return found
}

/** The first model that an engine serves. */
async function modelOf(base: string, headers: Record<string, string>): Promise<string> {
  const { ok = '{}' } = await ask(`${base}/v1/models`, headers)
  const { data } = JSON.parse(ok) as { data?: { id?: string }[] }
  return data?.[0]?.id ?? 'default'
}

interface Answers {
  readonly worker: WorkerStatus
  readonly health: string
  readonly metrics?: EngineMetrics
}

async function examine(worker: WorkerStatus, urls: ReadonlyMap<string, string>): Promise<Answers> {
  const base = urls.get(worker.id) ?? ''
  const [health, text] = await Promise.all([ask(`${base}/health`), ask(`${base}/metrics`)])
  const metrics = text.ok === undefined ? undefined : readMetrics(text.ok)
  return { worker, health: health.error ?? 'ok', ...(metrics && { metrics }) }
}

async function ask(
  url: string,
  headers: Record<string, string> = {},
): Promise<{ ok?: string; error?: string }> {
  try {
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(LIMIT_MS) })
    const text = await response.text()
    if (!response.ok) return { error: `status ${response.status}` }
    return { ok: text.slice(0, MAX_TEXT) }
  } catch (error) {
    return { error: causeOf(error as Error) }
  }
}

export { doctorCommand }
