/**
 * Question: what does a person want to see of a status and of a receipt?
 *
 * A receipt is read from the top: what was decided, what had to be obeyed (lock, admission), what was
 * believed (overlap and how good the evidence was), and the rows from which the cheapest was taken,
 * with every term of their cost. Nothing is computed but shares and dates; figures that are not there
 * are a dash, never a zero.
 */
import type { Evidence, HoldReason, Receipt, Refusal, Status } from '../index.js'
import { modelFacts, modelTable } from './render-model.js'
import { stayFacts } from './render-stay.js'
import { table, text, visible } from './table.js'

/** Workers as a table, then the figures of the whole. */
function renderStatus(status: Status): string {
  const { sessions, reservations, holds, paused, counters, anomalies } = status
  const workers = status.workers.map((worker) => [
    worker.id,
    worker.leaving ? 'leaving' : worker.health,
    worker.inFlight,
    worker.untracked.requests,
    worker.prefillTokens,
    worker.activeTokens,
    worker.usedTokens,
    worker.leasedTokens,
    worker.capacityTokens ?? undefined,
    worker.predictedCachedTokens,
  ])
  const head = [
    'worker',
    'health',
    'turns',
    'others',
    'prefill',
    'active',
    'used',
    'leased',
    'capacity',
    'cached',
  ]
  const odd = Object.entries(anomalies).filter(([, count]) => count > 0)
  return lines([
    table(head, workers),
    '',
    ...waiting(status),
    ...eventTable(status),
    ...poolTable(status),
    facts([
      ['targets', status.targets.map(visible).join(', ')],
      ['sessions', `${text(sessions)}, ${text(paused)} paused`],
      ['turns', `${text(reservations)} under way, ${text(holds)} of them held`],
      ['so far', Object.entries(counters).map(counted).join(', ')],
      ['prefixes', `${text(status.prefix.blocks)} blocks in ${text(status.prefix.bytes)} bytes`],
      ['anomalies', odd.length === 0 ? 'none' : odd.map(counted).join(', ')],
    ]),
    '',
    'Columns in tokens, but for turns, and others: what it does beside. used: what admission counts, leased: of that, for sessions',
    'between two turns; cached: what is believed.',
  ])
}

/** What is heard of caches, rank by rank, where any worker tells; the worst rank is the worker's word. */
function eventTable({ workers }: Status): string[] {
  const rows = workers.flatMap(({ id, evidence, events }) => {
    // A gateway of another version may not tell.
    if (!events) return []
    const { cachedTokens, blockTokens, ranks } = events
    return ranks.map((rank, at) => [
      at === 0 ? id : '',
      rank.rank,
      at === 0 ? doubted(evidence) : '',
      rank.connected ? 'connected' : visible(rank.lastError ?? 'no connection'),
      rank.sequence,
      rank.gaps,
      rank.pending,
      ...(at === 0 ? [cachedTokens, blockTokens] : ['', '']),
    ])
  })
  if (rows.length === 0) return []
  const head = [
    ...['events', 'rank', 'trust', 'stream', 'sequence', 'gaps', 'pending'],
    ...['cached', 'block'],
  ]
  return [
    table(head, rows),
    '',
    'trust: of a worker that of its worst rank; pending: messages that wait; cached, block: tokens that it says it has, and of a block.',
    '',
  ]
}

function doubted({ trust, doubt }: Evidence): string {
  return doubt === null ? trust : `${trust} (${doubt})`
}

/** Shared stores, where there are any. */
function poolTable({ pools = [] }: Partial<Status>): string[] {
  if (pools.length === 0) return []
  const rows = pools.map(({ id, evidence, stream, ...pool }) => [
    id,
    doubted(evidence),
    pool.wholePages,
    pool.pages,
    stream?.objects,
    pool.refused + pool.foreign,
    stream?.sequence,
    pool.promisedTokens,
    pool.readTokens,
  ])
  const head = [
    ...['pool', 'trust', 'whole', 'pages', 'objects', 'refused', 'sequence'],
    ...['promised', 'read'],
  ]
  return [
    table(head, rows),
    '',
    'Columns in pages, objects (told of, and of no page here), and tokens: promised by decisions, read by engines.',
    '',
  ]
}

/** Who waits for what, the longest first; nothing where nobody does. */
function waiting({ waiting: turns, holds, queue }: Status): string[] {
  if (turns.length === 0) return []
  const rows = turns.map((turn) => [
    visible(turn.session),
    visible(turn.tenant) || '-',
    turn.why,
    turn.place ?? undefined,
    turn.waitedMs / 1000,
    turn.expectedMs === null ? undefined : turn.expectedMs / 1000,
    turn.priority,
    ...(queue.length > 0 ? [visible(turn.class ?? '-')] : []),
  ])
  const head = ['waits', 'tenant', 'for', 'place', 'seconds', 'expected', 'priority']
  if (queue.length > 0) head.push('class')
  const more = holds > turns.length ? [`${text(holds - turns.length)} more wait.`] : []
  return [table(head, rows), ...more, ...classes(queue), '']
}

/** What waits in each class, where there are several. */
function classes(queue: Status['queue']): string[] {
  const told = queue.map(({ class: name, waiting: turns, refused }) => {
    const full = refused > 0 ? ` (${text(refused)} refused)` : ''
    return `${visible(name)} ${text(turns)}${full}`
  })
  return told.length > 0 ? [`By class: ${told.join(', ')}.`] : []
}

/** One decision: what came of it and why, then the candidates as a table. */
function renderReceipt(receipt: Receipt): string {
  const { candidates, eligible, prompt, weights } = receipt
  const rows = candidates.map((row) => [
    `${row.chosen ? '> ' : '  '}${visible(row.worker)}`,
    row.cost,
    row.overlapTokens,
    (row.hostTokens ?? 0) + (row.diskTokens ?? 0),
    row.poolTokens ?? 0,
    row.prefillTokens,
    row.activeTokens,
    row.additionalTokens,
    row.requests,
    pace(row),
  ])
  const left = eligible > rows.length ? `The cheapest ${rows.length} of ${eligible} workers.` : ''
  const named = Object.entries(weights).map(([name, value]) => `${name} ${value ?? '-'}`)
  return lines([
    `Receipt ${receipt.id}: to ${visible(receipt.worker ?? '-')}, target ${visible(receipt.target)}`,
    '',
    facts([
      ['decided', new Date(receipt.at).toISOString()],
      ['session', session(receipt)],
      ['prompt', length(prompt)],
      ['credit', credit(receipt)],
      ['lock', lock(receipt)],
      ...modelFacts(receipt),
      ['admission', admission(receipt)],
      ...stayFacts(receipt),
      ['outcome', outcome(receipt)],
    ]),
    '',
    ...modelTable(receipt),
    table(
      [
        '  worker',
        'cost',
        'overlap',
        'tiers',
        'pool',
        'prefill',
        'active',
        'added',
        'turns',
        'pace',
      ],
      rows,
    ),
    '',
    ...(left === '' ? [] : [left]),
    `Cost in units of ${text(prompt.unitTokens)} tokens, least wins; other columns in tokens, but for turns and pace.`,
    `Weights: ${named.join(', ')}`,
  ])
}

/** How long prompts and answers take there beside the usual worker; receipts of old have none. */
function pace({ prefillPace = 1, decodePace = 1 }: Partial<Receipt['candidates'][number]>): string {
  return prefillPace === 1 && decodePace === 1 ? '1' : `${prefillPace}/${decodePace}`
}

function length({ form, tokens, blocks, exactTokens }: Receipt['prompt']): string {
  const isBegun = form === 'text' && exactTokens > 0
  if (!isBegun) return `${text(tokens)} tokens, ${text(blocks)} blocks`
  // Its length is guessed from its text, and what is known may be more than all of that.
  const guess = `${text(tokens)} tokens by its text, ${text(blocks)} blocks`
  return `${guess}, the first ${text(exactTokens)} by answers${exactTokens > tokens ? ': it is longer' : ''}`
}

function session({ session: name, branch, detour, moved }: Receipt): string {
  const of = branch === null ? '' : `, branch ${branch}`
  const away = detour ? ', away from its own target for now' : ''
  return `${visible(name) || '-'}${of}${moved ? ', moved away from its own target' : away}`
}

function credit({ prompt, predictedCachedTokens, trust }: Receipt): string {
  const share = prompt.tokens > 0 ? predictedCachedTokens / prompt.tokens : 0
  const of = `${text(predictedCachedTokens)} tokens believed cached (${Math.round(share * 100)} %)`
  const { volatile } = prompt
  const end = volatile && `; segment ${volatile.segment} from token ${text(volatile.atToken)} on: `
  return `${of}, evidence: ${trust}${end ? end + visible(volatile.reason) : ''}`
}

const LOCKS: Readonly<Record<Receipt['lock']['decided'], string>> = {
  free: 'none',
  'tool-loop': 'tool results go back to who made the calls',
  'provider-state': 'the request leans on state that one worker keeps',
  both: 'tool results go back to who made the calls, which also keeps state of the request',
}

function lock({ lock: { decided, ...notes } }: Receipt): string {
  const more = Object.entries(notes).filter(
    ([, note]) => note !== 0 && note !== false && note !== null,
  )
  return [
    LOCKS[decided],
    ...more.map(([name, note]) => `${name}: ${visible(JSON.stringify(note))}`),
  ].join('; ')
}

function admission({ admission: verdict, prompt, ...receipt }: Receipt): string {
  const where = verdict.worker === null ? '' : `, on ${visible(verdict.worker)}`
  if (verdict.verdict === 'free') return 'went at once'
  if (verdict.verdict === 'kept') return `went at once${where}, where its session is kept`
  if (verdict.verdict === 'placed') return `went at once${where}, where there is room`
  const place = verdict.queuedAt === null ? '' : ` from place ${text(verdict.queuedAt)}`
  const uncached = prompt.tokens - receipt.predictedCachedTokens
  const reasons = verdict.refusals.map((refusal) => `\n  ${refused(refusal, receipt.at)}`)
  const why = reasons.length === 0 ? '' : `; ${text(uncached)} tokens to compute${reasons.join('')}`
  const cause = verdict.why === null ? '' : ` for ${HOLD_REASONS[verdict.why]}`
  return `held ${text(verdict.heldMs / 1000)} s${place}${cause}, then went${where}${why}`
}

const HOLD_REASONS: Readonly<Record<HoldReason, string>> = {
  owner: 'the owner of its lock',
  'max-running': 'a worker that runs fewer turns than are allowed',
  'max-sessions': 'a worker that keeps fewer sessions than are allowed',
  'tenant-share': 'other tenants, its own being ahead of its share',
  priority: 'turns of a higher priority',
  room: 'room',
  leader: 'the turn that computes the beginning of its prompt',
}

/** Why a worker did not take the turn when it began to wait. */
function refused(refusal: Refusal, wentAt: number): string {
  const worker = visible(refusal.worker)
  if (refusal.why === 'refill') return `${worker}: was computing another cold prompt`
  if (refusal.why === 'max-running') {
    return `${worker}: ran ${text(refusal.turns)} turns of ${text(refusal.most)} allowed`
  }
  if (refusal.why === 'max-sessions') {
    return `${worker}: kept ${text(refusal.sessions)} sessions of ${text(refusal.most)} allowed`
  }
  const room = `${text(refusal.haveTokens)} of ${text(refusal.needTokens)} tokens free`
  if (refusal.why === 'running') return `${worker}: ${room} beside its turns`
  const { nextLeaseEnd } = refusal
  const end =
    nextLeaseEnd === null
      ? ''
      : `, the next ended ${text((nextLeaseEnd - wentAt) / 1000)} s from go`
  return `${worker}: ${room} beside its turns and leases${end}`
}

function outcome({ outcome: ending }: Receipt): string {
  if (ending.state !== 'completed') return ending.state
  const { promptTokens, cachedTokens, completionTokens } = ending
  const [prompt, cached, completion] = [promptTokens, cachedTokens, completionTokens].map((count) =>
    text(count ?? undefined),
  )
  return `completed; reported ${prompt} prompt tokens, ${cached} of them cached, ${completion} generated`
}

function counted([name, count]: [string, number]): string {
  return `${text(count)} ${name}`
}

/** Names on the left, as wide as the widest. */
function facts(pairs: readonly (readonly [string, string])[]): string {
  const width = Math.max(...pairs.map(([name]) => name.length))
  return pairs.map(([name, value]) => `${name.padEnd(width)}  ${value}`).join('\n')
}

function lines(parts: readonly string[]): string {
  return `${parts.join('\n')}\n`
}

export { renderReceipt, renderStatus }
