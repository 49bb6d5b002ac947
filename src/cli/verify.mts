/**
 * `warmpath replay --verify`: does a recording decide the same again?
 *
 * Says how many decisions came out as recorded. At the first that does not it stops and shows both
 * receipts side by side; the exit code is then 1.
 */
import type { Receipt } from '../index.js'
import { type Verified, verifyDecisions } from '../workload.js'
import { renderReceipt } from './render.js'
import type { ReplayFlags } from './replay-flags.mjs'
import { visible } from './table.js'

const GAP = '   |   '
/** What a decision depends on; a receipt that is checked by itself does not. */
const OF_DECISIONS = ['compare', 'cache', 'seed'] as const

/** `given`: whether the caller named an option, or it stands for a default. */
async function verify(
  paths: readonly string[],
  { compare, cache, seed }: ReplayFlags,
  given: (option: string) => boolean,
): Promise<void> {
  const policy = given('compare') ? compare[0]?.policy : undefined
  const admission = typeof policy === 'object' ? { admission: policy.core } : {}
  const verified = await verifyDecisions({
    paths,
    ...admission,
    ...(cache !== undefined && { capacityTokens: cache }),
    ...(given('seed') && { seed }),
  })
  process.stdout.write(`${render(verified, OF_DECISIONS.filter(given))}\n`)
  if (verified.difference !== null) process.exitCode = 1
}

/** `idle`: options that the caller named and that only decisions depend on. */
function render(verified: Verified, idle: readonly string[]): string {
  const { decisions, of, difference } = verified
  const notes = notesOn(verified, idle)
  if (difference === null) return [headline(verified), ...notes].join('\n')
  const { request, session, what, recorded, now } = difference
  const where = `decision ${decisions} of ${of}, request ${visible(request)}, session ${visible(session ?? '-')}`
  return [`${where}: ${what} differs`, ...notes, '', sideBySide(recorded, now)].join('\n')
}

/** What is checked where no decision can be made again. */
const TEXT = `prompts came as text, whose blocks are not in a trace: no decision was made again
checked of each receipt: its costs follow from its own terms; its worker is among its candidates, and
the cheapest of them where nothing held the turn and no temperature was set`

/** What was checked, and no more than that. */
function headline({ decisions, withoutCandidates, checked }: Verified): string {
  if (checked === 'decisions') return `${decisions} decisions made again, all as recorded`
  return `${decisions - withoutCandidates} receipts checked by themselves, each follows from its own terms`
}

function notesOn(
  { withoutReceipt, withoutCandidates, checked }: Verified,
  idle: readonly string[],
): string[] {
  const isText = checked === 'receipts'
  const notes: [boolean, string][] = [
    [withoutReceipt > 0, `${withoutReceipt} records without a whole receipt passed over`],
    [withoutCandidates > 0, `${withoutCandidates} receipts without candidates not checked`],
    [isText, TEXT],
    [
      isText && idle.length > 0,
      `${idle.map((name) => `--${name}`).join(', ')}: only decisions that are made again depend on it`,
    ],
  ]
  return notes.flatMap(([applies, note]) => (applies ? [note] : []))
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
  const text = receipt === null ? '-' : renderReceipt(receipt as Receipt)
  return [title, ...text.trimEnd().split('\n').flatMap(wrapped)]
}

/** Long lines in parts, so that both sides fit a wide terminal. */
function wrapped(line: string): string[] {
  if (line === '') return ['']
  return line.match(/.{1,90}(?:\s|$)|.{1,90}/g)?.map((part) => part.trimEnd()) ?? [line]
}

export { verify }
