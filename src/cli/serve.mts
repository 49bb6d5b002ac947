/**
 * `warmpath serve`: the gateway as a process.
 *
 * Reads the configuration file, starts the gateway, says where it listens on standard error, and
 * stops on SIGTERM or SIGINT: what is under way is finished first, a second signal ends at once. On
 * SIGHUP it reads the file again. Standard output is the access log's alone, so that it can be piped.
 */
import { access, constants, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Command, InvalidArgumentError } from 'commander'
import {
  checkConfig,
  type Gateway,
  type GatewayConfig,
  loadConfig,
  readText,
  startGateway,
} from '../gateway/index.js'
import { jsonl, Scheduler, WarmpathError } from '../index.js'

interface ServeOptions {
  config: string
  check?: true
  host?: string
  port?: number
  log?: true
  trace?: string
  traceKeyFile?: string
}

/** A trace file that is larger begins a new one. */
const TRACE_BYTES = 256 * 1024 * 1024

const EXAMPLE = `
A configuration file (JSON or YAML); everything but "scheduler" may be left out:
  {
    "port": 8088,
    "scheduler": {
      "workers": [{ "id": "a", "url": "http://10.0.0.1:8000" }, { "id": "b", "url": "http://10.0.0.2:8000" }],
      "targets": {
        "qwen": { "model": "Qwen/Qwen3-32B", "workers": ["a", "b"] },
        "frontier": { "provider": "anthropic", "model": "claude-opus-5", "credential": "env:ANTHROPIC_API_KEY" }
      },
      "aliases": { "auto": ["qwen", "frontier"] }
    }
  }

Editors complete it and check it with "$schema": "./node_modules/warmpath/gateway.schema.json".

Clients use it as their base URL: /v1/chat/completions, /v1/responses, /v1/messages.
Also there: /healthz, /status, /receipts/ID, /v1/models, /v1/models/NAME.
DELETE /sessions/ID says that a session of the caller is over; ID is the x-warmpath-session of its
answers. What it occupied goes to others at once. POST /tools/started and /tools/ended tell of the tool
that a session runs between two turns; the guide on admission has a hook that does so.

A trace file that reaches 256 MiB, or was there before, is moved aside: trace.jsonl becomes
trace.000001.jsonl. With a key nobody can guess what stands behind a hash: make one with
"openssl rand -hex 16" and keep it where the traces are not.

Exit codes: 0 stopped by a signal, 1 failed, 2 wrong usage or configuration.`

/** The command with its options and help; it ends when a signal has stopped the gateway. */
function serveCommand(): Command {
  return new Command('serve')
    .description('run the gateway: OpenAI Chat, OpenAI Responses and Anthropic Messages over HTTP')
    .requiredOption('-c, --config <file>', 'configuration file (JSON or YAML)')
    .option('--check', 'say whether the configuration is right, and end')
    .option('-p, --port <number>', 'port, over the one of the file; 0 takes any free one', readPort)
    .option('-H, --host <address>', 'address to listen on, over the one of the file')
    .option('--log', 'one JSON line for each request on standard output')
    .option('--trace <file>', 'one record a turn, without content; compressed if it ends in .gz')
    .option('--trace-key-file <file>', 'file with the key of block hashes and session names')
    .addHelpText('after', EXAMPLE)
    .action(serve)
}

function readPort(text: string): number {
  const port = Number(text)
  if (/^\d{1,5}$/.test(text) && port <= 65_535) return port
  throw new InvalidArgumentError('It must be a whole number from 0 to 65535.')
}

async function serve(options: ServeOptions): Promise<void> {
  // From the start on: who hears "listens" may signal at once.
  const stop = stopSignal()
  const config = await readOptions(options)
  if (options.log) config.accessLog = logToOutput()
  await addTrace(config, options)
  if (options.check) {
    process.stdout.write(`${options.config} is right: ${checkConfig(config)}\n`)
    return
  }
  const gateway = await startGateway(config)
  let isStopping = false
  const hear = () => {
    if (!isStopping) void reload(options, gateway)
  }
  process.on('SIGHUP', hear)
  process.stderr.write(`warmpath listens on ${gateway.url}\n`)
  await stop
  // Without somebody who hears it the signal would end the process, and what is under way with it.
  isStopping = true
  process.stderr.write('warmpath stops: no new requests, waiting for those under way\n')
  await closeUnlessHurried(gateway)
}

/** What the file says, and over it where the command line says to listen. */
async function readOptions({ config: file, host, port }: ServeOptions): Promise<GatewayConfig> {
  const config = await loadConfig(file, process.env)
  if (host !== undefined) config.host = host
  if (port !== undefined) config.port = port
  return config
}

/** A file that is wrong changes nothing: one line says why, and the gateway goes on as it was. */
async function reload(options: ServeOptions, gateway: Gateway): Promise<void> {
  try {
    const changes = gateway.reload(await readOptions(options))
    process.stderr.write(`warmpath has read ${options.config} again: ${changes}\n`)
  } catch (error) {
    const message = WarmpathError.is(error) ? error.message : 'internal error'
    process.stderr.write(`warmpath goes on as it was: ${message}\n`)
  }
}

/** Throws WARMPATH_CONFIG for a key that cannot be read and a trace that cannot be written. */
async function addTrace(config: GatewayConfig, options: ServeOptions): Promise<void> {
  const { trace: path, traceKeyFile } = options
  if (config.scheduler instanceof Scheduler) return
  if (path === undefined) {
    if (traceKeyFile === undefined) return
    throw new WarmpathError('WARMPATH_CONFIG', '--trace-key-file needs --trace')
  }
  const key = traceKeyFile === undefined ? {} : { key: await readText(traceKeyFile) }
  await checkWritable(path)
  const sink = jsonl({ path, rotate: { bytes: TRACE_BYTES } })
  config.scheduler = { ...config.scheduler, trace: { ...config.scheduler.trace, sink, ...key } }
}

/** Files are moved aside and begun, so it is their folder that has to be written. Opens nothing. */
async function checkWritable(path: string): Promise<void> {
  try {
    const found = await stat(path).catch(ignoreMissing)
    if (found?.isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' })
    const isMoved = found?.isFile() ?? true
    await access(isMoved ? dirname(path) : path, constants.W_OK)
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'an error'
    const message = `scheduler.trace.sink: ${path} cannot be written (${code})`
    throw new WarmpathError('WARMPATH_CONFIG', message)
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

/** Stops writing when whoever read the log has gone; serving is worth more than logging. */
function logToOutput(): (line: string) => void {
  let open = true
  process.stdout.on('error', () => {
    open = false
  })
  return (line) => {
    if (open) process.stdout.write(`${line}\n`)
  }
}

function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    process.once('SIGTERM', () => resolve())
    process.once('SIGINT', () => resolve())
  })
}

async function closeUnlessHurried(gateway: Gateway): Promise<void> {
  const hurry = () => process.exit(1)
  process.once('SIGTERM', hurry)
  process.once('SIGINT', hurry)
  await gateway.close()
  process.off('SIGTERM', hurry)
  process.off('SIGINT', hurry)
}

export { serveCommand }
