/** What the guides show can be done as it stands there. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import test from 'ava'
import { checkConfig, loadConfig } from '../src/gateway/index.js'
import { chat, fleet } from './support/requests.js'

const folder = join(__dirname, '../docs/guides')
const guides = readdirSync(folder).map(
  (name) => [name, readFileSync(join(folder, name), 'utf8')] as const,
)

function blocks(text: string, language: string): string[] {
  return [...text.matchAll(new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 'gs'))].map(
    ([, block]) => block ?? '',
  )
}

test('the guides are those that the README names', (t) => {
  const readme = readFileSync(join(__dirname, '../README.md'), 'utf8')
  const named = [...readme.matchAll(/docs\/guides\/([\w-]+\.md)/g)].map(([, name]) => name ?? '')
  t.deepEqual([...new Set(named)].sort(), guides.map(([name]) => name).sort())
})

for (const [name, text] of guides) {
  test(`${name}: configurations are right, programs parse, links lead somewhere`, async (t) => {
    const scratch = mkdtempSync(join(tmpdir(), 'warmpath-guide-'))
    t.teardown(() => rmSync(scratch, { recursive: true }))
    const keys = {
      ANTHROPIC_API_KEY: 'k',
      OPENAI_API_KEY: 'k',
      LLM_KEY: 'k',
      KEY_1: 'k',
      KEY_2: 'k',
    }
    for (const [index, yaml] of blocks(text, 'yaml').entries()) {
      const file = join(scratch, `${index}.yaml`)
      writeFileSync(file, yaml)
      t.regex(checkConfig(await loadConfig(file, keys)), /^\d+ workers, \d+ targets$/)
    }
    for (const [index, program] of blocks(text, 'js').entries()) {
      const file = join(scratch, `${index}.mjs`)
      writeFileSync(file, program)
      t.notThrows(() => execFileSync(process.execPath, ['--check', file]))
    }
    t.true(text.startsWith('# '))
    for (const [, link = ''] of text.matchAll(/\]\((?!https?:)([^)#]+)/g)) {
      t.true(existsSync(join(dirname(join(folder, name)), link)), link)
    }
  })
}

test('receipts.md: each field is one of a receipt', async (t) => {
  using f = fleet()
  const turn = await f.scheduler.submit(chat('s'))
  turn.complete({ promptTokens: 5, cachedTokens: 0, completionTokens: 1 })
  const receipt = turn.receipt()
  const known = JSON.stringify({ ...receipt, candidates: receipt?.candidates[0] })
  const text = guides.find(([name]) => name === 'receipts.md')?.[1] ?? ''
  const rows = [...text.matchAll(/^\| (`[^|]*`) +\|/gm)].flatMap(
    ([, cell = '']) => cell.match(/[\w.]+/g) ?? [],
  )
  t.true(rows.length > 10)
  for (const field of rows.flatMap((name) => name.split('.'))) {
    t.true(known.includes(`"${field}":`), field)
  }
})

test('admission.md: the dial is chosen by commands that run, whose tables have the lines shown', async (t) => {
  const text = guides.find(([name]) => name === 'admission.md')?.[1] ?? ''
  const shell = blocks(text, 'sh').find((block) => block.includes('warmpath replay')) ?? ''
  const [serve = '', replay = ''] = [...shell.matchAll(/^npx warmpath ((?:.*\\\n)*.*)$/gm)].map(
    ([, command = '']) => command.replace(/ #.*/, '').replaceAll('\\\n', ''),
  )
  const scratch = mkdtempSync(join(tmpdir(), 'warmpath-guide-'))
  t.teardown(() => rmSync(scratch, { recursive: true }))
  const yaml = blocks(text, 'yaml').find((block) => block.includes('theta:')) ?? ''
  writeFileSync(join(scratch, 'gateway.yaml'), yaml)
  const run = (command: string, ...more: string[]) => {
    const tsx = pathToFileURL(require.resolve('tsx')).href
    const args = command.trim().split(/\s+/)
    const all = [`--import=${tsx}`, join(__dirname, '../src/cli/main.mts'), ...args, ...more]
    return execFileSync(process.execPath, all, { cwd: scratch, encoding: 'utf8', stdio: 'pipe' })
  }
  t.regex(run(serve, '--check'), /1 workers/)
  const sessions = join(__dirname, '../examples/sessions.jsonl.gz')
  const short = ['--warm-up', '0', '--measure', '1']
  const output = run(replay.replace('trace.jsonl.gz', sessions), ...short)
  const shown = blocks(text, 'text').find((block) => block.includes('TTFT with hold')) ?? ''
  const lines = shown.split('\n').filter((line) => line !== '')
  t.is(lines.length, 15)
  for (const line of lines) {
    const [label = '', ...cells] = line.replace(/, \d+ live sessions/, '').split(/ {2,}/)
    t.true(output.includes(label), label)
    if (label.includes('pressure')) for (const cell of cells) t.true(output.includes(cell), cell)
  }
})
