/**
 * What must be true of a round, whatever the machine: each check looks at what the agents saw (the
 * recorder), what the engines saw (their doubles), and what the gateway says of it (receipts, trace).
 */

/** Rows of a report; `wrong` lists what broke a check, for people. */
export function check(round) {
  const found = [
    ended(round),
    lostStreams(round),
    rightWorkers(round),
    saidWorkers(round),
    parents(round),
    toolResults(round),
    explained(round),
    clean(round),
  ]
  return found.map(({ name, value, unit, goal, wrong }) => ({
    row: { name: `agents.${round.name}.${name}`, value, unit, goal, holds: wrong.length === 0 },
    wrong,
  }))
}

/** Figures without a goal. */
export function figures(round) {
  const turns = turnsOf(round)
  const ends = round.engines.flatMap(({ lines }) => lines.filter(({ kind }) => kind === 'end'))
  const sum = (key) => ends.reduce((total, line) => total + line[key], 0)
  const held = turns.filter(({ receipt }) => round.receipts.get(receipt)?.admission.heldMs > 0)
  const seconds = Math.max(...round.tasks.map((task) => task.seconds))
  const row = (name, value, unit) => ({ name: `agents.${round.name}.${name}`, value, unit })
  const moves = (reason) => movesOf(round).filter((move) => move.reason === reason).length
  return [
    row('turns', turns.length, 'turns'),
    row('turns_elsewhere.dead', moves('dead'), 'turns'),
    row('turns_elsewhere.resumed', moves('resumed'), 'turns'),
    row('turns_elsewhere.full', moves('full'), 'turns'),
    row('turns_held', held.length, 'turns'),
    row('cut_by_the_kill', round.killed?.running.length ?? 0, 'answers'),
    row(
      'cached',
      Number((sum('cachedTokens') / sum('promptTokens')).toFixed(3)),
      'of prompt tokens',
    ),
    row('longest_prompt', Math.max(...ends.map((line) => line.promptTokens)), 'tokens'),
    row('longest_task', Math.round(seconds), 's'),
  ]
}

/** Exchanges that are part of a task, in the order in which they began. */
function turnsOf({ exchanges }) {
  return exchanges.filter(({ role }) => role === 'root' || role === 'part')
}

function ended({ tasks }) {
  const wrong = tasks.filter(({ code, end, tag }) => code !== 0 || end !== tag)
  return {
    name: 'tasks_at_their_end',
    value: tasks.length - wrong.length,
    unit: 'tasks',
    goal: `${tasks.length}: the agent exits with 0 and its last command has run`,
    wrong,
  }
}

/** Lost is what ends without its last event and without an error that says so. */
function lostStreams({ exchanges }) {
  const wrong = exchanges.filter(
    ({ left, whole, told, broken }) => !left && (broken || !(whole || told)),
  )
  return {
    name: 'streams_lost',
    value: wrong.length,
    unit: 'answers',
    goal: '0: whole, or ended by an error that says so',
    wrong: wrong.map(({ body, ...rest }) => ({ ...rest, end: body.slice(-200) })),
  }
}

function rightWorkers(round) {
  const wrong = movesOf(round).filter(({ reason }) => reason === undefined)
  return {
    name: 'turns_elsewhere_without_a_reason',
    value: wrong.length,
    unit: 'turns',
    goal: '0: where the session was, unless that is dead, full, or the policy resumed it elsewhere',
    wrong,
  }
}

/** Turns that ran on another worker than the one before them, and why. */
function movesOf(round) {
  return [...sessionsOf(round).values()].flatMap((turns) =>
    turns.flatMap((turn, index) => {
      const before = turns[index - 1]
      if (before === undefined || before.worker === turn.worker) return []
      const from = before.worker
      return [{ from, reason: reasonOf(round, before, turn), ...withoutBody(turn) }]
    }),
  )
}

function sessionsOf(round) {
  const sessions = new Map()
  for (const turn of turnsOf(round)) {
    if (turn.worker === undefined) continue
    sessions.set(turn.session, [...(sessions.get(turn.session) ?? []), turn])
  }
  return sessions
}

/** By the receipt, but for a death, which the gateway need not have known of yet. */
function reasonOf({ killed, receipts }, before, turn) {
  if (killed && before.worker === killed.id && turn.ended >= killed.at) return 'dead'
  const { admission, candidates } = receipts.get(turn.receipt) ?? {}
  if (admission?.verdict === 'held' || admission?.worker === turn.worker) return 'resumed'
  if (candidates?.every(({ worker }) => worker !== before.worker)) return 'full'
  return undefined
}

/** The engine that answered is the one that the gateway named. */
function saidWorkers({ exchanges, engines }) {
  const named = exchanges.filter(({ worker, status }) => worker !== undefined && status === 200)
  const wrong = named.filter(({ id, worker }) => {
    const engine = engines.find((each) => each.id === worker)
    return !engine?.lines.some(({ kind, request }) => kind === 'request' && request === id)
  })
  return {
    name: 'workers_misnamed',
    value: wrong.length,
    unit: `of ${named.length} answers`,
    goal: '0',
    wrong: wrong.map(withoutBody),
  }
}

/** A sub-agent is a session of its own whose parent is the session of its task. */
function parents(round) {
  const named = round.trace.flatMap((record) => record.agent_context ?? [])
  const parentOf = new Map(named.map((each) => [each.session_id, each.parent_session_id]))
  const turns = turnsOf(round).filter(({ session }) => session !== undefined)
  const rootOf = new Map(turns.filter(({ role }) => role === 'root').map((t) => [t.tag, t.session]))
  const children = new Map(
    turns.filter(({ role }) => role === 'part').map((t) => [t.session, t.tag]),
  )
  const wrong = [...children].filter(([session, tag]) => {
    return session === rootOf.get(tag) || parentOf.get(session) !== rootOf.get(tag)
  })
  if (children.size < round.tasks.length) wrong.push(['sub-agents', children.size])
  return {
    name: 'sub_agents_with_their_parent',
    value: children.size - wrong.length,
    unit: 'sessions',
    goal: `${round.tasks.length}: one a task`,
    wrong,
  }
}

/** Every result in a prompt answers a call that the same model made. */
function toolResults({ engines }) {
  const lines = engines.flatMap((engine) => engine.lines)
  const requests = lines.filter(({ kind }) => kind === 'request')
  const modelOf = new Map(requests.map(({ request, model }) => [request, model]))
  const issuer = new Map(
    lines.filter(({ kind }) => kind === 'issued').map((l) => [l.call, modelOf.get(l.request)]),
  )
  const answered = requests.flatMap(({ answers, model }) =>
    answers.map((call) => ({ call, model })),
  )
  const wrong = answered.filter(({ call, model }) => issuer.get(call) !== model)
  if (answered.length === 0) wrong.push('no result was seen')
  return {
    name: 'tool_results_at_another_model',
    value: wrong.length,
    unit: `of ${answered.length} results`,
    goal: '0',
    wrong,
  }
}

/** Each answered turn has a receipt in which the worker that ran it is the one that was chosen. */
function explained(round) {
  // Of a stream that was held, the trailers name the receipt: a client that leaves at the last event
  // has not seen them.
  const turns = turnsOf(round).filter(({ status, whole, left, receipt }) => {
    return status === 200 && whole && !(left && receipt === undefined)
  })
  const wrong = turns.filter(({ receipt, worker, session }) => {
    const kept = round.receipts.get(receipt)
    if (kept === undefined) return true
    const chosen = kept.candidates.find((candidate) => candidate.chosen)
    return kept.worker !== worker || kept.session !== session || chosen?.worker !== worker
  })
  return {
    name: 'turns_with_a_receipt_that_explains',
    value: turns.length - wrong.length,
    unit: 'turns',
    goal: `${turns.length}`,
    wrong: wrong.map(withoutBody),
  }
}

function clean({ exit, killed }) {
  const wrong = []
  if (exit !== 0) wrong.push({ exit })
  if (killed === undefined) wrong.push('no double was killed')
  return {
    name: 'gateway_exit',
    value: exit,
    unit: 'code',
    goal: '0, and a double was killed',
    wrong,
  }
}

function withoutBody({ body: _, ...exchange }) {
  return exchange
}
