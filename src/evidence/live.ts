/**
 * Do sessions change their model over HTTP, and never where that breaks them?
 *
 * Scripted sessions in three wire APIs through the gateway, over three models and prices behind one name.
 * Each engine double serves only its own model and takes only tool results and response ids that it has
 * issued itself; a few of their answers are 503s. Some sessions are tasks: keys come out of tools, one
 * after the other and over several questions, and what is handed in at the end is made of all of them, so
 * that a history which got lost or mixed up on the way to another model shows in the score.
 */
import { createHash } from 'node:crypto'
import { SplitMix64 } from '../demo/random.js'
import { startGateway } from '../gateway/index.js'
import {
  defaultScript,
  type EngineDouble,
  type Script,
  startEngineDouble,
} from '../testing/index.js'
import { type Call, type Json, type Said, WIRES, type Wire } from './wires.js'

interface LiveOptions {
  /** Sessions of `turns` turns each. */
  readonly sessions: number
  readonly turns: number
  readonly tasks: number
  /** Sessions under way at a time. */
  readonly live: number
  readonly seed: number
}

/** Counts. */
interface LiveFigures {
  requests: number
  /** Turns that went to another model than the one before, with nothing that binds them. */
  switches: number
  /** Requests that a double refused because of an id that another one has issued. */
  foreign: number
  /** Results that went to another model than the one that called, as clients see it. */
  unsafe: number
  /** Turns that did not end with 200. */
  failed: number
  /** 503s that the doubles answered with. */
  faults: number
  /** Turns whose answer names target, reason, stay or switch, and receipt. */
  told: number
  /** Turns that leant on a tool call or a stored response. */
  bound: number
  tasks: number
  /** Tasks whose end was right. */
  right: number
}

const GRADES = ['small', 'middle', 'large'] as const
const MODELS = {
  small: { price: { input: 0.2, cached: 0.02, write: 0.2, output: 0.8 } },
  middle: { price: { input: 2, cached: 0.2, write: 2, output: 8 } },
  large: { price: { input: 10, cached: 1, write: 12.5, output: 50 } },
}
/** Dollars a point of quality: of the size of what the models cost here, so that what is asked for counts. */
const LAMBDA = 0.04
/** Share of the requests that are answered with a 503. */
const FAULTS = 0.02
/** Share of turns that call a tool, and of turns that lean on a stored response. */
const CALLS = 0.35
const STORED = 0.3
const LEGS = 3
const STEPS = 3
const FIRST_KEY = 'key-00000000'
const TELLING = ['target', 'reason', 'continuity', 'receipt']

async function live(options: LiveOptions): Promise<LiveFigures> {
  const faulty = new SplitMix64(options.seed)
  const doubles = await Promise.all(
    GRADES.map((grade) =>
      startEngineDouble({
        id: grade,
        model: `model-${grade}`,
        speed: 500,
        script,
        faults: () => (faulty.uniform() < FAULTS ? '503' : undefined),
      }),
    ),
  )
  const gateway = await startGateway({ port: 0, scheduler: schedulerOver(doubles) })
  try {
    const figures = nothing()
    const url = gateway.url
    const jobs = [
      ...Array.from({ length: options.sessions }, (_, n) => () => {
        return wander(new Client(url, `s${n}`, n, figures, options.seed), options.turns)
      }),
      ...Array.from({ length: options.tasks }, (_, n) => () => {
        return task(new Client(url, `task${n}`, n, figures, options.seed + 1), figures)
      }),
    ]
    await inParallel(jobs, options.live)
    for (const double of doubles) {
      const { foreign, faults } = double.status()
      figures.foreign += foreign
      figures.faults += faults['503']
    }
    return figures
  } finally {
    await gateway.close()
    await Promise.all(doubles.map((double) => double.close()))
  }
}

function nothing(): LiveFigures {
  const counts = { requests: 0, switches: 0, foreign: 0, unsafe: 0, failed: 0 }
  return { ...counts, faults: 0, told: 0, bound: 0, tasks: 0, right: 0 }
}

function schedulerOver(doubles: readonly EngineDouble[]) {
  return {
    workers: doubles.map(({ url }, n) => ({ id: GRADES[n] ?? '', url })),
    targets: Object.fromEntries(
      GRADES.map((grade) => [
        grade,
        { model: `model-${grade}`, workers: [grade], grade, ...MODELS[grade] },
      ]),
    ),
    aliases: { auto: [...GRADES] },
    forward: { headers: ['x-double-tool', 'x-double-output-tokens', 'x-task'] },
    continuity: { policy: 'lookahead' as const, lambda: LAMBDA },
  }
}

async function inParallel(jobs: readonly (() => Promise<void>)[], width: number): Promise<void> {
  const left = [...jobs]
  const work = async () => {
    for (let job = left.shift(); job !== undefined; job = left.shift()) await job()
  }
  await Promise.all(Array.from({ length: width }, work))
}

/** One session of one client. */
class Client {
  readonly wire: Wire
  readonly random: SplitMix64
  readonly #figures: LiveFigures
  readonly #url: string
  readonly #session: string
  /** The whole history. */
  readonly #items: unknown[] = []
  /** What has been added since the last answer. */
  #fresh: unknown[] = []
  #last: { said: Said; target: string } | undefined

  constructor(url: string, session: string, n: number, figures: LiveFigures, seed: number) {
    this.#url = url
    this.#session = session
    this.#figures = figures
    this.wire = WIRES[n % WIRES.length] as Wire
    this.random = new SplitMix64(seed * 1_000_003 + n)
  }

  /** The calls that the last answer has left open. */
  get open(): readonly Call[] {
    return this.#last?.said.calls ?? []
  }

  ask(question: string): void {
    const { wire } = this
    this.#fresh.push(...(this.#last === undefined ? wire.open(question) : wire.question(question)))
  }

  results(result: (call: Call) => string): void {
    this.#fresh.push(...this.wire.results(this.open, result))
  }

  /** Sends what has been added; undefined when it failed. */
  async send(headers: Record<string, string>, mayStore: boolean): Promise<Said | undefined> {
    const { wire, random } = this
    const figures = this.#figures
    const last = this.#last
    const answers = this.open.length > 0
    const stored = mayStore && last !== undefined && wire.name === 'responses'
    const leans = stored && random.uniform() < STORED
    const history = leans ? this.#fresh : [...this.#items, ...this.#fresh]
    const streams = wire.name === 'responses' && random.uniform() < 0.5
    const response = await fetch(this.#url + wire.path, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-session-id': this.#session,
        'x-warmpath-base': GRADES[Math.floor(random.uniform() * GRADES.length)] ?? 'small',
        ...headers,
      },
      body: JSON.stringify({
        model: 'auto',
        ...wire.body(history),
        ...(leans && { previous_response_id: last.said.id }),
        ...(streams && { stream: true }),
      }),
    })
    const text = await response.text()
    const told = (name: string) => response.headers.get(`x-warmpath-${name}`)
    const target = told('target') ?? ''
    figures.requests += 1
    figures.told += Number(TELLING.every((name) => told(name) !== null))
    const isBound = answers || leans
    figures.bound += Number(isBound)
    if (last !== undefined && target !== last.target) {
      figures.unsafe += Number(isBound)
      figures.switches += Number(!isBound)
    }
    if (response.status !== 200) {
      figures.failed += 1
      return undefined
    }
    const said = wire.read(streams ? completed(text) : JSON.parse(text))
    this.#items.push(...this.#fresh, ...wire.said(said))
    this.#fresh = []
    this.#last = { said, target }
    return said
  }
}

/** The response of a stream's last event. */
function completed(stream: string): unknown {
  const line = stream.split('\n').findLast((each) => each.startsWith('data: {'))
  return (JSON.parse(line?.slice('data: '.length) ?? '{}') as Json).response
}

/** A conversation that calls a tool now and then. */
async function wander(client: Client, turns: number): Promise<void> {
  client.ask(`Tell me about rivers. ${'They flow. '.repeat(100)}`)
  for (let turn = 0; turn < turns; turn += 1) {
    const calls = client.random.uniform() < CALLS
    const tool = calls ? { 'x-double-tool': `next ${JSON.stringify({ key: FIRST_KEY })}` } : {}
    const said = await client.send({ 'x-double-output-tokens': '24', ...tool }, true)
    if (said === undefined) return
    if (said.calls.length > 0) client.results(() => 'a.txt')
    else client.ask('And then?')
  }
}

/** Keys out of tools, over several questions; what is handed in at the end is made of all of them. */
async function task(client: Client, figures: LiveFigures): Promise<void> {
  figures.tasks += 1
  const keys = [FIRST_KEY]
  const fresh = () => {
    const key = `key-${Math.floor(client.random.uniform() * 2 ** 32)
      .toString(16)
      .padStart(8, '0')}`
    keys.push(key)
    return key
  }
  for (let leg = 1; leg <= LEGS; leg += 1) {
    client.ask(`Leg ${leg} of ${LEGS}. ${leg === 1 ? `Start with ${FIRST_KEY}.` : 'Go on.'}`)
    for (;;) {
      const said = await client.send({ 'x-task': '1' }, false)
      if (said === undefined) return
      const [call] = said.calls
      if (call === undefined) break
      const { key } = JSON.parse(call.arguments) as { key?: string }
      if (call.name === 'submit') {
        figures.right += Number(leg === LEGS && key === digestOf(keys))
        return
      }
      // Whoever answers must know the newest key.
      if (key !== keys.at(-1)) return
      client.results(fresh)
    }
  }
}

function digestOf(keys: readonly string[]): string {
  return createHash('sha256').update(keys.join(' ')).digest('hex')
}

/** What the doubles answer: for a task the next call, read off the history that they are sent. */
const script: Script = (request) => {
  if (request.headers['x-task'] === undefined) return defaultScript(request)
  const history = JSON.stringify(request.body.messages ?? request.body.input)
  const keys = [...new Set(history.match(/key-[0-9a-f]{8}/g))]
  const legs = history.split(/Leg \d of \d/).length - 1
  const found = keys.length - 1
  const call = (name: string, key: string | undefined) => {
    return { textTokens: 4, toolCalls: [{ name, arguments: { key } }] }
  }
  if (found < legs * STEPS) return call('next', keys.at(-1))
  return legs < LEGS ? { textTokens: 8 } : call('submit', digestOf(keys))
}

export { type LiveFigures, type LiveOptions, live }
