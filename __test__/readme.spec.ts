/** What the README shows is run as it stands there, against engine doubles. */
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import test, { type ExecutionContext } from 'ava'
import { type EngineDouble, startEngineDouble } from '../src/testing/index.js'

const root = join(__dirname, '..')
const readme = readFileSync(join(root, 'README.md'), 'utf8')

function block(heading: string, language: string): string {
  const section = readme.split(`\n## ${heading}\n`)[1] ?? ''
  return section.split(`\`\`\`${language}\n`)[1]?.split('```')[0] ?? ''
}

/** Lines that say something: neither blank nor closing brackets, and no import. */
function codeLines(source: string): string[] {
  return source.split('\n').filter((line) => /\w/.test(line) && !line.startsWith('import '))
}

/** A folder in which `warmpath` is installed, as a user's project would have it. */
function project(t: ExecutionContext, files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'warmpath-readme-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(root, join(folder, 'node_modules/warmpath'))
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content)
  return folder
}

async function run(args: string[], cwd: string): Promise<string> {
  const child = spawn(process.execPath, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'] })
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)])
  return out + err
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}

function twoDoubles(t: ExecutionContext): Promise<EngineDouble[]> {
  return Promise.all(
    ['a', 'b'].map(async (id) => {
      const double = await startEngineDouble({ id, speed: 200 })
      t.teardown(() => double.close())
      return double
    }),
  )
}

const TWO_TURNS = `
import { handle } from './embed.mjs'
const message = 'a long task '.repeat(500)
const answers = []
for (let turn = 0; turn < 2; turn++) {
  const body = { model: 'm', max_tokens: 8, messages: [{ role: 'user', content: message }] }
  const response = await handle({
    path: '/v1/chat/completions',
    headers: { 'content-type': 'application/json', 'x-session-id': 's' },
    raw: JSON.stringify(body),
  })
  answers.push({ status: response.status, ...(await response.json()).usage })
}
console.log(JSON.stringify(answers))
`

test('the embedding example is about ten lines', (t) => {
  const lines = codeLines(block('Embed it', 'js'))
  t.true(lines.some((line) => line.includes('scheduler.submit(')))
  t.true(lines.length <= 10, lines.join('\n'))
})

test('the embedding example serves turns and keeps a session warm', async (t) => {
  const [one, two] = await twoDoubles(t)
  const source = block('Embed it', 'js')
    .replace('http://engine-1:8000', one?.url ?? '')
    .replace('http://engine-2:8000', two?.url ?? '')
  const folder = project(t, { 'embed.mjs': source, 'two-turns.mjs': TWO_TURNS })
  const [first, second] = JSON.parse(await run(['two-turns.mjs'], folder))
  t.is(first.status, 200)
  t.is(second.status, 200)
  t.is(first.prompt_tokens_details?.cached_tokens ?? 0, 0)
  t.true(second.prompt_tokens_details.cached_tokens > 0.9 * second.prompt_tokens)
})

test('the example gateway passes a stream through and answers errors', async (t) => {
  const doubles = await twoDoubles(t)
  const port = await freePort()
  const gateway = spawn(
    process.execPath,
    [join(root, 'examples/embed.mjs'), ...doubles.map(({ url }) => url)],
    { env: { ...process.env, PORT: String(port) }, stdio: ['ignore', 'pipe', 'inherit'] },
  )
  t.teardown(() => gateway.kill())
  await new Promise((resolve) => gateway.stdout?.once('data', resolve))
  const post = (body: string) =>
    fetch(`http://127.0.0.1:${port}/v1/chat/completions`, { method: 'POST', body })
  const messages = [{ role: 'user', content: 'hello' }]
  const response = await post(JSON.stringify({ model: 'm', stream: true, messages }))
  t.is(response.status, 200)
  t.regex(await response.text(), /data: \[DONE\]\n\n$/)
  t.is((await post('not JSON')).status, 400)
})

test('the commands that the README names exist', async (t) => {
  const manifest: { scripts: Record<string, string> } = JSON.parse(
    readFileSync(join(root, 'package.json'), 'utf8'),
  )
  const documents = [readme, readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8')]
  const named = documents.flatMap((document) => [
    ...document.matchAll(/npm run (?:-s )?([\w:-]+)|npm (start|test)\b/g),
  ])
  t.true(named.length > 3)
  for (const [, script, verb] of named) {
    t.truthy(manifest.scripts[script ?? verb ?? ''], script ?? verb)
  }
  const commands = [...readme.matchAll(/npx warmpath (\w+)/g)].map(([, command]) => command ?? '')
  for (const command of commands) {
    const help = await run([join(root, 'dist/cli/main.mjs'), command, '--help'], root)
    t.regex(help, new RegExp(`Usage: warmpath ${command}`))
  }
})
