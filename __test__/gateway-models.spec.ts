/**
 * One name, three models: sessions change their model where that is safe and worth it, and nowhere else.
 *
 * Each engine double takes only its own model and only tool results that it asked for itself, so a
 * switch in the middle of a loop would be answered with an error.
 */
import test, { type ExecutionContext } from 'ava'
import type { Receipt, SchedulerOptions } from '../src/index.js'
import { at, CLIENTS, type Client, type Json, parseSse } from './engine-double-client.js'
import { openGateway, startDouble } from './gateway-support.js'
import { send } from './support/http-client.js'

const GRADES = ['small', 'middle', 'large'] as const
type Name = (typeof GRADES)[number]

/** Dollars a million tokens, and tokens. */
const MODELS = {
  small: { price: { input: 0.2, cached: 0.02, write: 0.2, output: 0.8 }, contextTokens: 8_000 },
  middle: { price: { input: 2, cached: 0.2, write: 2, output: 8 }, contextTokens: 16_000 },
  large: { price: { input: 10, cached: 1, write: 12.5, output: 50 }, contextTokens: 64_000 },
}

async function fleet(t: ExecutionContext, continuity: SchedulerOptions['continuity'] = {}) {
  const doubles = await Promise.all(
    GRADES.map((id) => startDouble(t, { id, model: `model-${id}`, speed: 200 })),
  )
  const gateway = await openGateway(t, {
    scheduler: {
      workers: doubles.map(({ url }, n) => ({ id: `w-${GRADES[n]}`, url })),
      targets: Object.fromEntries(
        GRADES.map((grade) => [
          grade,
          { model: `model-${grade}`, workers: [`w-${grade}`], grade, ...MODELS[grade] },
        ]),
      ),
      aliases: { auto: [...GRADES] },
      forward: { headers: ['x-double-tool', 'x-double-output-tokens'] },
      continuity,
    },
  })
  return { gateway, doubles }
}

interface Step {
  /** The model that a classifier in front would take. */
  readonly base: Name
  /** Whether the answer calls a tool. */
  readonly calls?: boolean
}

/** Two loops of tools at the large model; what comes between and after is easy. */
const TASK: readonly Step[] = [
  { base: 'small' },
  { base: 'large', calls: true },
  { base: 'small', calls: true },
  { base: 'middle' },
  { base: 'small' },
  { base: 'large', calls: true },
  { base: 'small' },
  { base: 'small' },
]

/** One answer and its receipt, as far as they are about the model. */
interface Served {
  readonly target: string
  readonly continuity: string
  readonly reason: string
  readonly receipt: Receipt
}

/** Plays the task; gives what answered each of its turns. */
async function play(t: ExecutionContext, url: string, client: Client, stream: boolean) {
  const served: Served[] = []
  const session = `${client.name}-${stream}`
  let body: Json = client.first(`Tell me about rivers. ${'They flow. '.repeat(300)}`, {
    model: 'auto',
    stream,
  })
  for (const { base, calls } of TASK) {
    const answer = await send(url + client.path, {
      headers: {
        'x-session-id': session,
        'x-warmpath-base': base,
        'x-double-output-tokens': '40',
        ...(calls && { 'x-double-tool': 'ls {"path":"."}' }),
      },
      body,
    })
    t.is(answer.status, 200, answer.body)
    const header = (name: string) => String(answer.headers[`x-warmpath-${name}`])
    const receipt = JSON.parse((await send(`${url}/receipts/${header('receipt')}`)).body)
    const [target, continuity, reason] = ['target', 'continuity', 'reason'].map(header)
    served.push({ target, continuity, reason, receipt } as Served)
    const spoken = stream
      ? client.heard(parseSse(answer.body))
      : client.spoken(JSON.parse(answer.body))
    t.is(spoken.calls.length, calls ? 1 : 0)
    body = client.next(body, spoken, 'And then?')
  }
  return served
}

for (const client of CLIENTS) {
  for (const stream of [false, true]) {
    test(`${client.name}, ${stream ? 'streamed' : 'JSON'}: switches between loops, never inside`, async (t) => {
      // Nobody has named the policy: with prices and grades it is `lookahead`.
      const { gateway, doubles } = await fleet(t, { lambda: 0.1 })
      const served = await play(t, gateway.url, client, stream)
      for (const [turn, { target, continuity }] of served.entries()) {
        const before = served[turn - 1]?.target ?? target
        t.is(continuity, target === before ? 'stay' : 'switch')
        if (TASK[turn - 1]?.calls) t.is(target, before)
      }
      t.true(served.filter(({ continuity }) => continuity === 'switch').length >= 3)
      // What is hard is answered by the large model, what is easy at last by a cheaper one.
      t.deepEqual([served[1]?.target, served[2]?.target, served[3]?.target], Array(3).fill('large'))
      t.not(served.at(-1)?.target, 'large')
      for (const [turn, { reason, receipt }] of served.entries()) {
        const isInLoop = TASK[turn - 1]?.calls === true
        t.is(reason, isInLoop ? 'tool-loop' : 'cheapest')
        t.is(receipt.lock.decided, isInLoop ? 'tool-loop' : 'free')
        t.is(receipt.model === null, isInLoop)
        t.true(receipt.model?.again.agrees ?? true)
      }
      t.is(doubles.map((double) => double.status().refused).join(), '0,0,0')
    })
  }
}

test('every term of a choice is in the receipt and adds up', async (t) => {
  const { gateway } = await fleet(t, { policy: 'lookahead', lambda: 0.1, fee: 0.001 })
  const [client] = CLIENTS
  const served = await play(t, gateway.url, client as Client, false)
  const model = served[4]?.receipt.model
  t.like(model, { policy: 'lookahead', asked: 'small', before: 'large', switched: true })
  t.is(at(model, 'weighed', 'lambda'), 0.1)
  t.is(at(model, 'weighed', 'fee'), 0.001)
  for (const { price, terms, warmTokens } of model?.rows ?? []) {
    if (price === null || terms === null) return t.fail('a term is missing')
    const cold = (model?.promptTokens ?? 0) - warmTokens
    t.is(terms.coldTokens, cold)
    near(t, terms.prompt, (warmTokens * price.cached + cold * price.write) / 1e6)
    near(t, terms.total, terms.prompt + terms.answer + 0.1 * terms.shortfall + terms.later)
  }
  t.is(model?.rows.length, 3)
})

function near(t: ExecutionContext, found: number, wanted: number): void {
  t.true(Math.abs(found - wanted) < 1e-9, `${found} is not ${wanted}`)
}

test('a history that outgrows a model goes to one that can read it', async (t) => {
  const { gateway } = await fleet(t, { policy: 'constant', grade: 'small' })
  const said = 'A long story. '.repeat(3_000)
  const ask = (content: string) =>
    send(`${gateway.url}/v1/chat/completions`, {
      headers: { 'x-session-id': 'long' },
      body: { model: 'auto', messages: [{ role: 'user', content }] },
    })
  t.is((await ask('Short.')).headers['x-warmpath-target'], 'small')
  const long = await ask(`Short.${said}`)
  t.is(long.status, 200)
  t.is(long.headers['x-warmpath-target'], 'middle')
})

test('a base choice that the name does not mean is refused', async (t) => {
  const { gateway } = await fleet(t)
  const answer = await send(`${gateway.url}/v1/messages`, {
    headers: { 'x-warmpath-base': 'nobody' },
    body: { model: 'auto', max_tokens: 5, messages: [{ role: 'user', content: 'Hi' }] },
  })
  t.is(answer.status, 400)
  t.regex(answer.body, /base must be small, middle, large/)
})
