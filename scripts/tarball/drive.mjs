/**
 * Run inside a folder where the tarballs are installed: two turns through the README's example, loaded
 * from the file that is named, against the engine doubles that the package brings.
 */
import { startEngineDouble } from 'warmpath/testing'

const [file] = process.argv.slice(2)
const doubles = await Promise.all(['a', 'b'].map((id) => startEngineDouble({ id, speed: 200 })))
for (const [at, { url }] of doubles.entries()) process.env[`ENGINE_${at + 1}`] = url
const { handle } = await import(file)
const messages = [{ role: 'user', content: 'a long task '.repeat(500) }]
const answers = []
for (let turn = 0; turn < 2; turn++) {
  const response = await handle({
    path: '/v1/chat/completions',
    headers: { 'content-type': 'application/json', 'x-session-id': 's' },
    raw: JSON.stringify({ model: 'm', max_tokens: 8, messages }),
  })
  const { usage } = await response.json()
  answers.push({ status: response.status, cached: usage.prompt_tokens_details?.cached_tokens ?? 0 })
}
for (const double of doubles) await double.close()
process.stdout.write(JSON.stringify(answers))
