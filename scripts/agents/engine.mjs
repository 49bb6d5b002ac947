/**
 * One engine double as a process, so that it can be killed like one:
 * `engine.mjs '{"id", "capacityTokens", "speed"}'`.
 *
 * It tells what it sees on standard output, one JSON object a line: where it listens, every request
 * with the calls that it answers and those that it issues, and how each ended. Tool results are taken
 * from anybody: whether they came to the right model is checked by who started it.
 */
import { IssuerRegistry, startEngineDouble } from '../../dist/testing/index.mjs'
import { history, roleOf, script } from './task.mjs'

const BLOCK_TOKENS = 64
const { id, capacityTokens, speed } = JSON.parse(process.argv[2])
const tell = (line) => process.stdout.write(`${JSON.stringify(line)}\n`)

/** The request whose answer is being made: calls are issued in the same tick. */
let current

class Witness extends IssuerRegistry {
  add(call) {
    tell({ kind: 'issued', request: current, call })
  }

  has() {
    return true
  }
}

const double = await startEngineDouble({
  id,
  speed,
  engine: { blockSize: BLOCK_TOKENS, numGpuBlocks: Math.floor(capacityTokens / BLOCK_TOKENS) },
  issuer: new Witness(),
  script: (request) => {
    const { body, dialect, headers } = request
    current = headers['x-request-id']
    const answers = history(dialect, body)
      .filter(({ result }) => result !== undefined)
      .map((call) => call.id)
    tell({ kind: 'request', request: current, model: body.model, ...roleOf(body), answers })
    return script(request)
  },
  onRequestEnd: ({ headers, end, promptTokens, cachedTokens }) => {
    tell({ kind: 'end', request: headers['x-request-id'], end, promptTokens, cachedTokens })
  },
})
tell({ kind: 'listening', url: double.url })
