/** A real vLLM on this machine's CPU, as a process that can be started, asked, reset and killed. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { openSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

export const BLOCK_TOKENS = 32
export const MODEL = 'tiny'
/** Its longest prompt with the answer. */
export const CONTEXT_TOKENS = 2048

/** Versions that are known to run, with the torch that they want. */
export const TORCH = { '0.32.0': '2.13.0', '0.23.0': '2.11.0' }

const START_MS = 15 * 60_000
const HOST = '127.0.0.1'

export function install(folder, version) {
  const script = join(import.meta.dirname, 'install.sh')
  const { status } = spawnSync('bash', [script, folder, version, TORCH[version]], {
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  if (status !== 0) throw new Error(`vLLM ${version} cannot be installed`)
}

/** `count` ports that nobody had when it was asked. */
export async function freePorts(count) {
  const servers = Array.from({ length: count }, () => createServer().listen(0, HOST))
  await Promise.all(servers.map((server) => once(server, 'listening')))
  const ports = servers.map((server) => server.address().port)
  await Promise.all(servers.map((server) => new Promise((done) => server.close(done))))
  return ports
}

export class Vllm {
  #process

  constructor({ folder, version, blocks, ports: [port, events, replay] }) {
    Object.assign(this, { folder, version, blocks })
    this.url = `http://${HOST}:${port}`
    this.ports = { port, events, replay }
    this.kvEvents = `tcp://${HOST}:${events}`
    this.replay = `tcp://${HOST}:${replay}`
    this.log = join(folder, `vllm-${port}.log`)
  }

  /** Resolves with the seconds that it took. */
  async start() {
    const began = Date.now()
    const { port, events, replay } = this.ports
    const kvEvents = {
      enable_kv_cache_events: true,
      publisher: 'zmq',
      // With a host it would connect instead of listening.
      endpoint: `tcp://*:${events}`,
      replay_endpoint: `tcp://*:${replay}`,
    }
    const log = openSync(this.log, 'w')
    this.#process = spawn(
      join(this.folder, `venv-${this.version}`, 'bin', 'python'),
      [
        ...['-m', 'vllm.entrypoints.openai.api_server'],
        ...['--model', './tiny-model', '--served-model-name', MODEL],
        ...['--host', HOST, '--port', String(port), '--load-format', 'dummy'],
        ...['--dtype', 'bfloat16', '--enforce-eager', '--seed', '0', '--max-num-seqs', '8'],
        ...['--max-model-len', String(CONTEXT_TOKENS), '--block-size', String(BLOCK_TOKENS)],
        ...['--num-gpu-blocks-override', String(this.blocks), '--enable-prefix-caching'],
        ...['--enable-prompt-tokens-details', '--enable-auto-tool-choice'],
        ...['--tool-call-parser', 'hermes', '--kv-events-config', JSON.stringify(kvEvents)],
      ],
      {
        cwd: this.folder,
        env: environment(this.version),
        stdio: ['ignore', log, log],
        detached: true,
      },
    )
    const { exitCode } = await this.#up()
    if (exitCode !== undefined) {
      throw new Error(`vLLM ${this.version} ended with ${exitCode}: see ${this.log}`)
    }
    return (Date.now() - began) / 1000
  }

  async #up() {
    const end = Date.now() + START_MS
    while (Date.now() < end) {
      if (this.#process.exitCode !== null) return { exitCode: this.#process.exitCode }
      try {
        if ((await fetch(`${this.url}/health`, { signal: AbortSignal.timeout(2_000) })).ok)
          return {}
      } catch {
        // Not yet.
      }
      await sleep(500)
    }
    throw new Error(`vLLM ${this.version} is not up after ${START_MS / 1000} s: see ${this.log}`)
  }

  async resetCache() {
    const response = await fetch(`${this.url}/reset_prefix_cache`, { method: 'POST' })
    if (!response.ok) throw new Error(`reset: ${response.status}`)
    await response.arrayBuffer()
  }

  /** At once, with the processes that it has started. */
  kill() {
    const { pid, exitCode } = this.#process ?? {}
    if (pid === undefined || exitCode !== null) return
    try {
      process.kill(-pid, 'SIGKILL')
    } catch {
      // It has ended by itself.
    }
  }

  async ended() {
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      await once(this.#process, 'exit')
    }
  }
}

function environment(version) {
  return {
    ...process.env,
    VLLM_CPU_KVCACHE_SPACE: '1',
    VLLM_CPU_OMP_THREADS_BIND: 'nobind',
    OMP_NUM_THREADS: '1',
    VLLM_HOST_IP: HOST,
    HF_HUB_OFFLINE: '1',
    TRANSFORMERS_OFFLINE: '1',
    VLLM_NO_USAGE_STATS: '1',
    DO_NOT_TRACK: '1',
    // Opens /reset_prefix_cache.
    VLLM_SERVER_DEV_MODE: '1',
    ...(version === '0.23.0' && { TORCHDYNAMO_DISABLE: '1' }),
  }
}

/** The load of the machine, for a report that has times in it. */
export function load() {
  try {
    return readFileSync('/proc/loadavg', 'utf8').split(' ').slice(0, 3).join(' ')
  } catch {
    return 'unknown'
  }
}
