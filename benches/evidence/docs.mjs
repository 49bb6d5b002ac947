/**
 * Claims, kept as results and written as docs/evidence.md.
 *
 * One file of results a section, so that a page can be written when only one was measured again. The
 * page has nothing that is not in them.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../scripts/build.mjs'

const RESULTS = join(root, 'docs', 'evidence')
const PAGE = join(root, 'docs', 'evidence.md')

/** Keeps what parts of a section have found, in place of what they had found before. */
export function keep({ name, title, about, limits, parts }, claims) {
  mkdirSync(RESULTS, { recursive: true })
  const path = join(RESULTS, `${name}.json`)
  const before = existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')).claims : []
  const measured = new Set(claims.map(({ part }) => part))
  const kept = [...before.filter(({ part }) => !measured.has(part)), ...claims]
  const order = Object.keys(parts)
  kept.sort((a, b) => order.indexOf(a.part) - order.indexOf(b.part))
  writeFileSync(path, `${JSON.stringify({ title, about, limits, claims: kept }, null, 2)}\n`)
}

/** Writes the page from all results that are kept. */
export function write() {
  const files = readdirSync(RESULTS).filter((name) => name.endsWith('.json'))
  const parts = files.sort().map((file) => {
    const result = JSON.parse(readFileSync(join(RESULTS, file), 'utf8'))
    return section(file.replace('.json', ''), result)
  })
  writeFileSync(PAGE, [HEAD, ...parts].join('\n'))
}

const HEAD = `# Evidence

What this project claims, with the command that computes it. Written by \`npm run evidence -- --docs\` from the results in [evidence/](evidence); a goal that was missed stays here. Ratios are to the peer named beside them, measured in the same run unless the row says that the peer was recorded.
`

function section(name, { title, about, limits, claims }) {
  return [
    `## ${title}`,
    '',
    `\`npm run evidence -- --only ${name}\`. ${about}`,
    '',
    '| claim | figure | goal | holds | seed | peer |',
    '| --- | --- | --- | --- | --- | --- |',
    ...claims.map(line),
    '',
    ...claims.flatMap(({ row, command }) =>
      command === undefined ? [] : [`- \`${row.name}\`: \`${command}\``],
    ),
    '',
    'Where it does not hold:',
    '',
    ...limits.map((text) => `- ${text}`),
    '',
  ].join('\n')
}

function line({ row, text, seed }) {
  const { name, value, unit, goal, holds, peer, ratio } = row
  const beside =
    peer === undefined ? '' : `${peer}${ratio === undefined ? '' : `, ratio ${figure(ratio)}`}`
  const verdict = holds === undefined ? '' : holds ? 'yes' : '**no**'
  const cells = [
    `${text} (\`${name}\`)`,
    `${figure(value)} ${unit}`,
    goal ?? '',
    verdict,
    seed ?? '',
    beside,
  ]
  return `| ${cells.map((cell) => String(cell).replaceAll('|', '\\|')).join(' | ')} |`
}

function figure(value) {
  if (value === null || value === undefined) return '-'
  if (Number.isInteger(value)) return value.toLocaleString('en-US')
  return String(Number(value.toPrecision(4)))
}
