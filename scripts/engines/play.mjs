/** Plays sessions, so many turns at once, and writes down what was believed and what the engine said. */
import { CONTEXT_TOKENS } from './vllm.mjs'

/** Room for the next turn's growth and the answer. */
const LONGEST = CONTEXT_TOKENS - 250

/**
 * @param sessions to be played, each turn by turn
 * @param ask (session, turn) => what came of the turn, with `promptTokens`
 */
export async function play(sessions, { turns, parallel, ask }) {
  const records = []
  const waiting = sessions.map((session) => ({ session, turn: 0 }))
  const worker = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const record = await ask(next.session, next.turn)
      records.push(record)
      next.session.goOn()
      next.turn += 1
      if (next.turn < turns && record.promptTokens < LONGEST) waiting.push(next)
    }
  }
  await Promise.all(Array.from({ length: parallel }, worker))
  return records
}

/** Sends one turn and reads its usage, streamed every other time. */
export async function send(url, session, { turn, model }) {
  const stream = turn % 2 === 1
  const from = Date.now()
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-session-id': session.id },
    body: JSON.stringify(session.body({ stream, model })),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${response.status}: ${text.slice(0, 500)}`)
  const usage = stream ? usageOfStream(text) : JSON.parse(text).usage
  return {
    session: session.id,
    turn,
    from,
    to: Date.now(),
    promptTokens: usage.prompt_tokens,
    // vLLM 0.23 has null for zero.
    cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
    // Nobody here has asked for tokens.
    hasTokens: text.includes('token_ids":['),
    headers: response.headers,
  }
}

function usageOfStream(text) {
  const events = text.split('\n').filter((line) => line.startsWith('data: {'))
  const usages = events.map((line) => JSON.parse(line.slice(6)).usage).filter(Boolean)
  return usages.at(-1)
}

/** Through the gateway, with the receipt of each turn. */
export function through(gateway) {
  return async (session, turn) => {
    const { headers, ...told } = await send(gateway.url, session, { turn, model: 'tiny' })
    const receipt = gateway.scheduler.receipt(headers.get('x-warmpath-receipt'))
    return {
      ...told,
      decided: receipt.at,
      worker: receipt.worker,
      origin: receipt.prompt.origin,
      knownTokens: receipt.prompt.tokens,
      exactTokens: receipt.prompt.exactTokens,
      predicted: receipt.predictedCachedTokens,
      trust: receipt.evidence.trust,
      doubt: receipt.evidence.doubt,
    }
  }
}

/** To each engine in turn, whatever it has. */
export function roundRobin(engines, model) {
  let next = 0
  return async (session, turn) => {
    const engine = engines[next++ % engines.length]
    const { headers: _, ...told } = await send(engine.url, session, { turn, model })
    return told
  }
}

/** Share of the prompt tokens that the engines had, by their own word. */
export function hitRate(records) {
  const sum = (of) => records.reduce((all, record) => all + of(record), 0)
  return (
    sum((r) => r.cachedTokens) /
    Math.max(
      1,
      sum((r) => r.promptTokens),
    )
  )
}
