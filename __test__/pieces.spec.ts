/** Pieces of an answer that are kept until its end. */
import test from 'ava'
import fc from 'fast-check'
import { Pieces } from '../src/turn/pieces.js'

test('pieces of any sizes are one text again, or nothing beyond the bound', (t) => {
  const sizes = fc.array(fc.oneof(fc.nat(5), fc.nat(3_000), fc.constant(20_000)), { maxLength: 60 })
  fc.assert(
    fc.property(sizes, fc.nat(200_000), (lengths, most) => {
      const pieces = new Pieces(most)
      const given = lengths.map((length, at) => Buffer.alloc(length, at + 1))
      for (const each of given) pieces.push(each)
      const all = Buffer.concat(given)
      t.deepEqual(pieces.end(), all.length <= most ? all : undefined)
    }),
  )
})

test('an answer in single bytes costs little more than its bytes', (t) => {
  const pieces = new Pieces(8 << 20)
  const byte = Buffer.from('x')
  const before = process.memoryUsage()
  for (let n = 0; n < 4 << 20; n += 1) pieces.push(byte)
  const after = process.memoryUsage()
  const grown = after.heapUsed - before.heapUsed + after.external - before.external
  t.true(grown < 32 << 20, `${grown} bytes for ${4 << 20}`)
  t.is(pieces.end()?.length, 4 << 20)
})
