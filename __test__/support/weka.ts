/** Real coding-agent sessions in the Weka format: one file a session, sub-agents nested in it. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'

interface WekaRequest {
  type: 'n' | 's'
  t: number
  in: number
  out: number
  hash_ids: number[]
  api_time?: number
  stop?: string
}

interface WekaSubagent {
  type: 'subagent'
  t: number
  agent_id: string
  requests: WekaRequest[]
}

interface WekaFile {
  id: string
  block_size: number
  requests: (WekaRequest | WekaSubagent)[]
}

export interface RecordedTurn {
  /** Seconds between the end of the session's previous turn and this one. */
  readonly gap: number
  readonly promptTokens: number
  readonly outputTokens: number
  /** Content of each block, the last one perhaps partial; unique across files. */
  readonly blocks: Uint32Array
  readonly usesTools: boolean
}

export interface RecordedSession {
  readonly name: string
  readonly parent?: string
  /** Seconds after the start of its file. */
  readonly start: number
  readonly turns: RecordedTurn[]
}

export const BLOCK_TOKENS = 64
/** More than any file's largest block id. */
const IDS_PER_FILE = 1_000_000

/** Where the public traces are, if this machine has them. */
export function sessionsFolder(): string | undefined {
  const folder = join(__dirname, '../../../shared/data/claude-code-sessions')
  return existsSync(folder) ? folder : undefined
}

export function readSessions(folder: string): RecordedSession[] {
  const names = readdirSync(folder).filter((name) => name.endsWith('.json.gz'))
  return names.sort().flatMap((name, index) => {
    const text = gunzipSync(readFileSync(join(folder, name))).toString('utf8')
    return sessionsOf(JSON.parse(text) as WekaFile, index)
  })
}

function sessionsOf(file: WekaFile, index: number): RecordedSession[] {
  if (file.block_size !== BLOCK_TOKENS) throw new Error(`${file.id}: blocks of ${file.block_size}`)
  const own = file.requests.filter((each): each is WekaRequest => each.type !== 'subagent')
  const agents = file.requests.filter((each): each is WekaSubagent => each.type === 'subagent')
  return [
    { name: file.id, start: own[0]?.t ?? 0, turns: turnsOf(own, index) },
    ...agents.map((agent, n) => ({
      name: `${file.id}/${agent.agent_id}-${n}`,
      parent: file.id,
      start: agent.t,
      turns: turnsOf(agent.requests, index),
    })),
  ]
}

function turnsOf(requests: WekaRequest[], file: number): RecordedTurn[] {
  return requests.map((request, i) => {
    const previous = requests[i - 1]
    const ended = previous === undefined ? request.t : previous.t + (previous.api_time ?? 0)
    return {
      gap: Math.max(0, request.t - ended),
      promptTokens: request.in,
      outputTokens: Math.max(1, request.out),
      blocks: Uint32Array.from(request.hash_ids, (id) => file * IDS_PER_FILE + id),
      usesTools: request.stop === 'tool_use',
    }
  })
}

/** Whole blocks that two consecutive turns have in common from the start. */
export function commonBlocks(previous: RecordedTurn, next: RecordedTurn): number {
  const whole = (turn: RecordedTurn) => Math.floor(turn.promptTokens / BLOCK_TOKENS)
  const limit = Math.min(whole(previous), whole(next), previous.blocks.length, next.blocks.length)
  for (let i = 0; i < limit; i++) if (previous.blocks[i] !== next.blocks[i]) return i
  return limit
}
