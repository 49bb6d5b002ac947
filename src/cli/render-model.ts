/**
 * Question: why did this model answer?
 *
 * The part of a receipt about the choice of model, for people: who decided and why, then a row for each
 * model with the terms of its price. Nothing is computed: what the scheduler made again from the record
 * is in the receipt.
 */
import type { ModelChoice, ModelRow, Receipt } from '../index.js'
import { table, text, visible } from './table.js'

const HEAD = [
  ...['  model', 'grade', 'quality', 'warm', 'input', 'cached', 'write', 'output'],
  ...['prompt $', 'answer $', 'shortfall', 'later $', 'total $'],
]

/** For the facts of a receipt. */
function modelFacts(receipt: Receipt): readonly (readonly [string, string])[] {
  const { model } = receipt
  if (model === null) return []
  return [
    ['model', verdict(model)],
    ['again', again(model)],
    ...(model.shadow === null ? [] : [['shadow', shadow(model.shadow)] as const]),
  ]
}

/** The rows and what they are counted in; empty where there was no choice. */
function modelTable({ model }: Receipt): string[] {
  if (model === null) return []
  const notes = model.rows.flatMap(note)
  return [
    table(HEAD, model.rows.map(cells)),
    '',
    'Prices in $ a million tokens; warm in tokens; least total wins among those that are allowed.',
    ...notes,
    ...weighed(model),
    '',
  ]
}

function verdict({ policy, reason, switched, asked, before, boundary }: ModelChoice): string {
  const came =
    before === null ? 'first choice' : switched ? `switch from ${visible(before)}` : 'stay'
  const past = boundary === null ? '' : `, past ended: ${boundary}`
  return `${came}: ${reason} (policy ${policy}, base choice ${visible(asked)}${past})`
}

function again({ again: { target, reason, agrees } }: ModelChoice): string {
  const same = agrees ? 'the same' : 'NOT the same'
  return `computed from this receipt alone: ${visible(target)}, ${reason}: ${same}`
}

function shadow({ policy, target, reason }: NonNullable<ModelChoice['shadow']>): string {
  return `${policy} would have taken ${visible(target)}: ${reason}`
}

function cells({ target, chosen, grade, quality, warmTokens, price, terms }: ModelRow) {
  return [
    `${chosen ? '> ' : '  '}${visible(target)}`,
    grade,
    quality,
    warmTokens,
    ...[price?.input, price?.cached, price?.write, price?.output],
    ...[terms?.prompt, terms?.answer].map(dollars),
    terms?.shortfall,
    dollars(terms?.later),
    terms?.allowed === false ? 'too weak' : dollars(terms?.total),
  ]
}

/** Far less than a cent matters. */
function dollars(amount: number | undefined): string | undefined {
  return amount?.toFixed(6)
}

/** What was not known of a model. */
function note({ target, price }: ModelRow): string[] {
  if (price === null) return [`${visible(target)}: no price is known; taken to be free.`]
  if (price.cache !== 'unknown') return []
  return [`${visible(target)}: what its cache costs is not known; no credit for what is cached.`]
}

function weighed({ weighed: terms }: ModelChoice): string[] {
  if (terms === null) return []
  const named = Object.entries(terms).map(([name, value]) => `${name} ${text(value)}`)
  return [`Weighed: ${named.join(', ')}`]
}

export { modelFacts, modelTable }
