/** `node fuzz/seeds.mjs`: a corpus for the target `wire` from the recorded messages of engines. */
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'

const here = dirname(fileURLToPath(import.meta.url))
const captures = join(here, '../__test__/fixtures/engine-captures')
const corpus = join(here, 'corpus/wire')
/** The first byte of an input says whose message it is. */
const VLLM = Buffer.from([0])

mkdirSync(corpus, { recursive: true })
for (const name of readdirSync(captures).filter((file) => file.endsWith('.jsonl.gz'))) {
  const lines = gunzipSync(readFileSync(join(captures, name)))
    .toString()
    .trimEnd()
    .split('\n')
  for (const line of lines) {
    const seed = Buffer.concat([VLLM, Buffer.from(JSON.parse(line).frames.at(-1), 'hex')])
    const sum = createHash('sha1').update(seed).digest('hex')
    if (seed.length <= 4096) writeFileSync(join(corpus, sum), seed)
  }
}
