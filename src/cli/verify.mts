/**
 * `warmpath replay --verify`: does a recording decide the same again?
 *
 * Says how many decisions came out as recorded, and of the others why they were not made again. At the
 * first that differs it stops and shows both receipts side by side; the exit code is then 1, and also when
 * nothing could be checked at all.
 */
import type { Receipt } from '../index.js'
import { type NotAgain, type Verified, verifyDecisions } from '../workload.js'
import { renderReceipt } from './render.js'
import type { ReplayFlags } from './replay-flags.mjs'
import { text, visible } from './table.js'

const GAP = '   |   '

async function verify(paths: readonly string[], { lenient }: ReplayFlags): Promise<void> {
  const verified = await verifyDecisions(paths, lenient)
  process.stdout.write(`${render(verified)}\n`)
  if (verified.difference !== null || checked(verified) === 0) process.exitCode = 1
}

function checked({ decisions, alone, withoutCandidates }: Verified): number {
  return decisions + sum(alone) - withoutCandidates
}

function render(verified: Verified): string {
  const { decisions, alone, of, difference } = verified
  const notes = notesOn(verified)
  if (difference === null) return [headline(verified), ...notes].join('\n')
  const { request, session, what, recorded, now } = difference
  const at = decisions + sum(alone)
  const where = `decision ${at} of ${of}, request ${visible(request)}, session ${visible(session ?? '-')}`
  const sides = sideBySide(recorded, beside(recorded, now))
  return [`${where}: ${what} differs`, ...notes, '', sides].join('\n')
}

/** What was decided again, and no more than that. */
function headline(verified: Verified): string {
  const { decisions, of, schedulers } = verified
  const runs = schedulers > 1 ? `, of ${schedulers} schedulers one after the other` : ''
  if (decisions > 0)
    return `same decisions: ${decisions} of ${of} made again, all as recorded${runs}`
  if (checked(verified) === 0) return `nothing could be checked: 0 of ${of} decisions`
  return `no decision was made again: ${of} receipts`
}

const WHY: Readonly<Record<NotAgain, string>> = {
  'no-steps': 'their records do not say what the scheduler was told',
  'other-form': 'they were recorded by a version that writes down what it was told in another way',
  missing: 'records before them are missing',
  engines: 'they follow from what engines told of their caches, which is not recorded',
  snapshot: 'they follow from a snapshot, which is not recorded',
  recalled: 'a thread that records nothing had a part in them',
}

function notesOn(verified: Verified): string[] {
  const { alone, gaps, withoutReceipt, withoutCandidates, passedOver, unreadable } = verified
  const missing = gaps.map(({ after, steps }) => {
    const where = after === null ? 'at the start' : `after request ${visible(after)}`
    return `${steps} calls to the scheduler are missing ${where}, with the records that held them: what follows cannot be made again`
  })
  const kinds = Object.entries(alone).map(([why, count]) => {
    return `${text(count)} not made again, each receipt checked by itself: ${WHY[why as NotAgain]}`
  })
  const notes: [number, string][] = [
    [sum(alone), CHECK],
    [withoutCandidates, `receipts without candidates, not checked: ${withoutCandidates}`],
    [unreadable, `lines left out that cannot be read: ${unreadable}`],
    [withoutReceipt, `records without a whole receipt: ${withoutReceipt}`],
    [passedOver, `files passed over that are no trace of ours: ${passedOver}`],
  ]
  const rest = notes.flatMap(([applies, note]) => (applies > 0 ? [note] : []))
  return [...missing, ...kinds, ...rest]
}

/** What is checked of a receipt by itself. */
const CHECK = `a receipt by itself: its costs follow from its own terms; its worker is among its candidates, and the
cheapest of them where nothing held the turn and no temperature was set`

function sum(counts: Verified['alone']): number {
  return Object.values(counts).reduce((all, count) => all + count, 0)
}

/** What is decided now, with what was no decision as it was: its session's name, and how it ended. */
function beside(recorded: unknown, now: unknown): unknown {
  if (now === null) return null
  const { session, outcome, id, at } = recorded as Receipt
  return { ...(now as Receipt), session, outcome, id, at }
}

/** Two receipts, line by line, lines that differ marked. */
function sideBySide(recorded: unknown, now: unknown): string {
  const [left, right] = [lines(recorded, 'as recorded'), lines(now, 'as decided now')]
  const width = Math.max(...left.map((line) => line.length))
  const rows = Array.from({ length: Math.max(left.length, right.length) }, (_, index) => {
    const [before, after] = [left[index] ?? '', right[index] ?? '']
    const mark = index > 0 && before !== after ? '!' : ' '
    return `${mark} ${before.padEnd(width)}${GAP}${after}`.trimEnd()
  })
  return rows.join('\n')
}

function lines(receipt: unknown, title: string): string[] {
  const shown = receipt === null ? '-' : rendered(receipt)
  return [title, ...shown.trimEnd().split('\n').flatMap(wrapped)]
}

/** One that is not whole, as its JSON: somebody has changed it, or another version wrote it. */
function rendered(receipt: unknown): string {
  try {
    return renderReceipt(receipt as Receipt)
  } catch {
    return JSON.stringify(receipt, undefined, 2)
  }
}

/** Long lines in parts, so that both sides fit a wide terminal. */
function wrapped(line: string): string[] {
  if (line === '') return ['']
  return line.match(/.{1,90}(?:\s|$)|.{1,90}/g)?.map((part) => part.trimEnd()) ?? [line]
}

export { verify }
