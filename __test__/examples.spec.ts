/**
 * Each example is run as it stands there, in front of two engine doubles: a stream, a tool loop that
 * stays warm, an error of the client and one of the worker.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { startDouble } from './gateway-support.js'

const root = join(__dirname, '..')

/** Runs an example and gives its address once it says where it listens. */
async function run(t: ExecutionContext, file: string, workers: readonly string[]): Promise<string> {
  const child: ChildProcess = spawn(process.execPath, [file, ...workers], {
    env: { ...process.env, PORT: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const port = await new Promise<string>((listening, failed) => {
    child.stdout?.once('data', (said) => listening(/\d+/.exec(String(said))?.[0] ?? ''))
    child.once('exit', (code) => failed(new Error(`${file} ended with ${code}`)))
  })
  return `http://127.0.0.1:${port}`
}

/** A server around the handler, which others would mount in theirs. */
function serverOfHandler(t: ExecutionContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'warmpath-example-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(join(root, 'node_modules/@hono'), join(folder, 'node_modules/@hono'))
  const source = `
import { serve } from '@hono/node-server'
import { handler } from ${JSON.stringify(join(root, 'examples/fetch-handler.mjs'))}
const fetch = handler(process.argv.slice(2))
serve({ fetch, hostname: '127.0.0.1', port: 0 }, (info) => console.log(info.port))
`
  writeFileSync(join(folder, 'server.mjs'), source)
  return join(folder, 'server.mjs')
}

const example = (name: string) => () => join(root, 'examples', name)

const EXAMPLES: [string, (t: ExecutionContext) => string][] = [
  ['embed.mjs', example('embed.mjs')],
  ['fastify.mjs', example('fastify.mjs')],
  ['hono.mjs', example('hono.mjs')],
  ['undici.mjs', example('undici.mjs')],
  ['fetch-handler.mjs', serverOfHandler],
]

test('every example is run here', (t) => {
  const files = readdirSync(join(root, 'examples')).filter((name) => name.endsWith('.mjs'))
  t.deepEqual(EXAMPLES.map(([name]) => name).sort(), files.sort())
})

for (const [name, source] of EXAMPLES) {
  test.serial(`${name} serves turns`, async (t) => {
    const doubles = await Promise.all(['a', 'b'].map((id) => startDouble(t, { id, speed: 100 })))
    const url = await run(
      t,
      source(t),
      doubles.map((double) => double.url),
    )
    const post = (body: unknown) =>
      fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-session-id': 's' },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      })
    const messages: object[] = [{ role: 'user', content: 'a long task '.repeat(500) }]
    const turn = { model: 'm', max_tokens: 8, messages }

    const stream = await post({ ...turn, stream: true })
    t.is(stream.status, 200)
    t.regex(String(stream.headers.get('content-type')), /^text\/event-stream/)
    const text = await stream.text()
    t.regex(text, /data: \[DONE\]\n\n$/)
    t.notRegex(text, /"usage":\{/)

    messages.push({ role: 'assistant', content: 'done' }, { role: 'user', content: 'go on' })
    const { usage } = (await (await post(turn)).json()) as {
      usage: { prompt_tokens: number; prompt_tokens_details: { cached_tokens: number } }
    }
    t.true(usage.prompt_tokens_details.cached_tokens > 0.9 * usage.prompt_tokens)

    t.is((await post('not JSON')).status, 400)
    t.is((await post({ ...turn, messages: [] })).status, 400)
    await Promise.all(doubles.map((double) => double.close()))
    t.is((await post(turn)).status, 502)
  })
}
