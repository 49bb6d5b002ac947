/**
 * Agent sessions for a small engine: a system prompt and tools that all share, a task of one's own, then
 * calls and results by a script. Each turn sends all of it so far, as agents do. Deterministic by seed.
 */
const WORDS = (
  'file line path read write test value class def return import error index list name parse token ' +
  'cache block route worker turn session prompt result call tool search open close text byte length ' +
  'größe café データ naïve <tag> & "quoted" {brace} snake_case CamelCase 0x1f 3.14 -42 ok'
).split(' ')

export class Dice {
  #state

  constructor(seed) {
    this.#state = seed >>> 0 || 1
  }

  /** Below `limit`. */
  roll(limit) {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((this.#state / 2 ** 32) * limit)
  }

  words(count) {
    return Array.from({ length: count }, () => WORDS[this.roll(WORDS.length)]).join(' ')
  }
}

/** Keys in an order that no sorting would give. `salt` is in the first: most templates begin with tools. */
const tools = (salt) => [
  {
    type: 'function',
    function: {
      // Early enough to be in the first block.
      name: `${salt}_search`,
      description: 'Looks for a text in <all> files & says where',
      parameters: {
        type: 'object',
        required: ['query'],
        properties: { query: { type: 'string' }, limit: { type: 'integer', default: 10 } },
      },
    },
  },
  {
    type: 'function',
    function: {
      parameters: { properties: { path: { type: 'string' } }, type: 'object' },
      name: 'read_file',
      description: 'Liest eine Datei',
    },
  },
]

export class Session {
  #dice
  #messages
  #calls = 0
  #tools

  /** `salt` keeps the sessions of one run apart from all others. */
  constructor(salt, number, seed) {
    this.id = `${salt}-${number}`
    this.#tools = tools(salt)
    this.#dice = new Dice(seed * 7_919 + number * 104_729)
    const common = new Dice(seed).words(60)
    this.#messages = [
      { role: 'system', content: `${salt}: you are an agent. ${common}` },
      { role: 'user', content: `Task ${number}. ${this.#dice.words(30)}` },
    ]
  }

  /** The body of the next turn. */
  body({ stream, model }) {
    const body = {
      model,
      messages: this.#messages,
      tools: this.#tools,
      max_tokens: 4,
      temperature: 0,
    }
    return stream ? { ...body, stream: true, stream_options: { include_usage: true } } : body
  }

  /** What the model is taken to have said, and what its tools gave. */
  goOn() {
    const calls = Array.from({ length: 1 + this.#dice.roll(2) }, () => this.#call())
    const content = this.#dice.roll(2) === 0 ? null : this.#dice.words(8)
    this.#messages.push({ role: 'assistant', content, tool_calls: calls })
    for (const { id } of calls) {
      const found = this.#dice.words(10 + this.#dice.roll(30))
      this.#messages.push({ role: 'tool', tool_call_id: id, content: found })
    }
  }

  #call() {
    this.#calls += 1
    const search = this.#tools[0].function.name
    const name = this.#dice.roll(2) === 0 ? search : 'read_file'
    const what = { [name === search ? 'query' : 'path']: this.#dice.words(3) }
    const id = `call_${this.id}_${this.#calls}`
    return { id, type: 'function', function: { name, arguments: JSON.stringify(what) } }
  }
}
