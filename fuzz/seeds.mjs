/**
 * `node fuzz/seeds.mjs`: a corpus for the targets `wire` and `zmtp` from the recorded messages of engines,
 * and one for `body` from the recorded requests of agents.
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

/** What a publisher says of itself: version 3.0, no credentials, then its type. */
const GREETING = Buffer.alloc(64)
GREETING.set([0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0])
GREETING.write('NULL', 12)
const READY = Buffer.from('\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03PUB', 'latin1')

/** One part of a message; more follow unless it is the last one. */
function frameOf(part, at, all) {
  const more = at + 1 < all.length ? 1 : 0
  if (part.length < 256) return Buffer.concat([Buffer.from([more, part.length]), part])
  const head = Buffer.alloc(9)
  head[0] = more | 2
  head.writeBigUInt64BE(BigInt(part.length), 1)
  return Buffer.concat([head, part])
}

for (const name of readdirSync(captures).filter((file) => file.endsWith('.jsonl.gz'))) {
  const lines = gunzipSync(readFileSync(join(captures, name)))
    .toString()
    .trimEnd()
    .split('\n')
  for (const line of lines) {
    const seed = Buffer.concat([VLLM, Buffer.from(JSON.parse(line).frames.at(-1), 'hex')])
    if (seed.length <= 4096) keep('wire', seed)
    const parts = JSON.parse(line).frames.map((part) => Buffer.from(part, 'hex'))
    const connection = Buffer.concat([VLLM, GREETING, READY, ...parts.map(frameOf)])
    if (connection.length <= 4096) keep('zmtp', connection)
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
