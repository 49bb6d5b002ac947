/**
 * `npm run evidence [-- --only SECTION[.PART]] [--json FILE] [--docs]`: computes what the project claims.
 *
 * A section is a file in sections/ that exports one object: what it is called, what must not be
 * concluded, and its parts, each a function that measures some claims. A claim that does not hold stays in the list; what cannot be measured here (a trace or a
 * peer that is not on this machine) is skipped aloud. Rows go to --json; with --docs the claims are kept
 * in docs/evidence/ and docs/evidence.md is written from all that are kept.
 *
 * Exit codes: 0 everything that was measured holds, 1 something does not or could not be computed, 2
 * wrong usage.
 */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build, root, run } from '../../scripts/build.mjs'
import { readArguments, refuseUsage } from '../arguments.mjs'
import { keep, write } from './docs.mjs'

const FOLDER = join(root, 'benches', 'evidence', 'sections')

const HELP = `npm run evidence -- [options]: computes what the project claims

  --only SECTION[.PART]  only this; may be repeated
  --json FILE            write the figures as JSON rows
  --docs                 keep the claims and write docs/evidence.md
  --list                 the sections and their parts`

const values = readArguments(
  {
    only: { type: 'string', multiple: true },
    json: { type: 'string' },
    docs: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
  },
  HELP,
)

const say = (text) => process.stderr.write(`${text}\n`)

async function sections() {
  const files = readdirSync(FOLDER).filter((name) => name.endsWith('.mjs'))
  return Promise.all(
    files.sort().map(async (name) => {
      const { default: section } = await import(pathToFileURL(join(FOLDER, name)).href)
      return { ...section, name: name.replace('.mjs', '') }
    }),
  )
}

/** The names of the parts that are asked for; all of them where none is. */
function wanted({ name, parts }) {
  const all = Object.keys(parts)
  const { only } = values
  if (only === undefined || only.includes(name)) return all
  return all.filter((part) => only.includes(`${name}.${part}`))
}

/** The claims of some parts of a section, each measured after the other. */
async function measure(section, parts) {
  const claims = []
  const context = {
    root,
    say: (text) => say(`${section.name}: ${text}`),
    skip: (what, why) => say(`${section.name}: SKIPPED ${what}: ${why}`),
  }
  for (const part of parts) {
    context.claim = (claim) => {
      claims.push({ part, ...claim })
      const { name, value, unit, holds } = claim.row
      const mark = holds === undefined ? ' ' : holds ? '+' : '!'
      say(`${mark} ${name} = ${value} ${unit}`)
    }
    await section.parts[part](context)
  }
  return claims
}

async function main() {
  const all = await sections()
  if (values.list) {
    for (const { name, title, parts } of all) {
      process.stdout.write(`${name}  ${title}: ${Object.keys(parts).join(', ')}\n`)
    }
    return
  }
  const names = all.flatMap(({ name, parts }) => [
    name,
    ...Object.keys(parts).map((part) => `${name}.${part}`),
  ])
  const unknown = values.only?.find((name) => !names.includes(name))
  if (unknown !== undefined) refuseUsage(`no section is called ${unknown}; see --list`)
  build()
  const rows = []
  for (const section of all) {
    const parts = wanted(section)
    if (parts.length === 0) continue
    say(section.title)
    const claims = await measure(section, parts)
    rows.push(...claims.map(({ row }) => row))
    if (values.docs) keep(section, claims)
  }
  if (values.json !== undefined) {
    mkdirSync(dirname(values.json), { recursive: true })
    writeFileSync(values.json, `${JSON.stringify({ rows }, null, 2)}\n`)
  }
  if (values.docs) {
    write()
    run('Formatting the page', 'npx', [
      'biome',
      'format',
      '--write',
      'docs/evidence.md',
      'docs/evidence',
    ])
  }
  const missed = rows.filter(({ holds }) => holds === false)
  process.stdout.write(`${rows.length} rows, ${missed.length} goals missed\n`)
  for (const { name, value, goal } of missed)
    process.stdout.write(`missed ${name}: ${value}, goal ${goal}\n`)
  if (missed.length > 0) process.exitCode = 1
}

await main()
