/**
 * `node fuzz/seeds.mjs`: a corpus for the target `wire` from the recorded messages of engines, and one for
 * `body` from the recorded requests of agents.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'

const here = dirname(fileURLToPath(import.meta.url))
const fixtures = join(here, '../__test__/fixtures')
const captures = join(fixtures, 'engine-captures')
const clients = join(fixtures, 'client-captures')
/** The first byte of an input says whose message it is. */
const VLLM = Buffer.from([0])

for (const name of readdirSync(captures).filter((file) => file.endsWith('.jsonl.gz'))) {
  const lines = gunzipSync(readFileSync(join(captures, name)))
    .toString()
    .trimEnd()
    .split('\n')
  for (const line of lines) {
    const seed = Buffer.concat([VLLM, Buffer.from(JSON.parse(line).frames.at(-1), 'hex')])
    if (seed.length <= 4096) keep('wire', seed)
  }
}
for (const name of readdirSync(clients)) {
  const requests = JSON.parse(gunzipSync(readFileSync(join(clients, name))))
  for (const { body } of requests) {
    const seed = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body ?? {}))
    if (seed.length <= 65_536) keep('body', seed)
  }
}

function keep(target, seed) {
  const corpus = join(here, 'corpus', target)
  mkdirSync(corpus, { recursive: true })
  writeFileSync(join(corpus, createHash('sha1').update(seed).digest('hex')), seed)
}
