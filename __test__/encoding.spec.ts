/** Bodies as clients send them: marked, compressed, or both. */
import zlib, { gunzipSync, gzipSync } from 'node:zlib'
import test from 'ava'

import { CHAT, fleet } from './support/requests.js'

const text = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Grüße' }] })
const marked = Buffer.from(`\ufeff${text}`)

test('a byte order mark is read over and not sent on', async (t) => {
  using f = fleet()
  const gzip = { 'content-encoding': 'gzip' }
  for (const request of [
    { raw: marked },
    { raw: marked.toString() },
    { raw: gzipSync(marked), headers: gzip },
  ]) {
    const turn = await f.scheduler.submit({ path: CHAT, ...request })
    t.is(Buffer.from(turn.init.body ?? '').toString(), text)
    turn.complete()
  }
  const twice = { path: CHAT, raw: `\ufeff\ufeff${text}` }
  await t.throwsAsync(f.scheduler.submit(twice), { code: 'WARMPATH_INVALID_BODY' })
})

const zstd = { path: CHAT, raw: gzipSync(text), headers: { 'content-encoding': 'zstd' } }

/** Runs with a Node that decodes zstd in this way, or not at all. */
async function withZstd(decoder: unknown, run: () => Promise<void>): Promise<void> {
  const own = Object.getOwnPropertyDescriptor(zlib, 'zstdDecompressSync')
  const value = { value: decoder, configurable: true, writable: true }
  Object.defineProperty(zlib, 'zstdDecompressSync', value)
  try {
    await run()
  } finally {
    if (own === undefined) Reflect.deleteProperty(zlib, 'zstdDecompressSync')
    else Object.defineProperty(zlib, 'zstdDecompressSync', own)
  }
}

test.serial('zstd is refused where Node has none, with what there is', async (t) => {
  using f = fleet()
  await withZstd(undefined, async () => {
    await t.throwsAsync(f.scheduler.submit(zstd), {
      code: 'WARMPATH_UNSUPPORTED_ENCODING',
      message: 'content-encoding "zstd" is not one of gzip, x-gzip, br, deflate',
    })
  })
})

test.serial('zstd is read where Node has it, within the limit', async (t) => {
  using f = fleet({ limits: { bodyBytes: 200 } })
  await withZstd(gunzipSync, async () => {
    const turn = await f.scheduler.submit(zstd)
    t.is(Buffer.from(turn.init.body ?? '').toString(), text)
    turn.complete()
    const bomb = { ...zstd, raw: gzipSync(Buffer.alloc(1 << 20)) }
    await t.throwsAsync(f.scheduler.submit(bomb), { code: 'WARMPATH_BODY_TOO_LARGE' })
    const junk = { ...zstd, raw: Buffer.from(text) }
    await t.throwsAsync(f.scheduler.submit(junk), { code: 'WARMPATH_INVALID_BODY' })
  })
})

const compress: unknown = Reflect.get(zlib, 'zstdCompressSync')
const real = typeof compress === 'function' ? test.serial : test.serial.skip

real('what this Node compresses with zstd is read', async (t) => {
  using f = fleet()
  const raw = (compress as (text: string) => Buffer)(text)
  const turn = await f.scheduler.submit({ ...zstd, raw })
  t.is(Buffer.from(turn.init.body ?? '').toString(), text)
})
