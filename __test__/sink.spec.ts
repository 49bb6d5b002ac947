/** Text that is written in pieces is the text as bytes, wherever the pieces begin and end. */
import test from 'ava'
import fc from 'fast-check'
import { TextSink } from '../src/dialects/index.js'

/** Short ones, long ones, wide ones and halves of pairs. */
const piece = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.nat(40_000).map((size) => 'x'.repeat(size)),
  fc.nat(3_000).map((size) => 'aé€🙂'.repeat(size)),
  fc.constantFrom('a\ud800', '\udc00b'),
)

test('bytes and ends are those of the pieces by themselves', (t) => {
  const sink = new TextSink()
  fc.assert(
    fc.property(fc.array(fc.array(piece, { maxLength: 5 }), { maxLength: 8 }), (segments) => {
      sink.clear()
      const expected: Buffer[] = []
      const ends: number[] = []
      for (const pieces of segments) {
        for (const text of pieces) {
          sink.write(text)
          sink.write('\n')
          expected.push(Buffer.from(text), Buffer.from('\n'))
        }
        sink.end()
        ends.push(expected.reduce((sum, { length }) => sum + length, 0))
      }
      const { bytes, ends: found } = sink.finish()
      t.deepEqual(found, ends)
      t.true(Buffer.concat(expected).equals(bytes))
    }),
    { numRuns: 100 },
  )
})

test('text beyond the limit is refused, and the sink goes on', (t) => {
  const sink = new TextSink(1000)
  for (const text of ['x'.repeat(1001), 'é'.repeat(501), 'x'.repeat(5_000_000)]) {
    sink.clear()
    const write = () => {
      sink.write(text)
      sink.finish()
    }
    t.throws(write, { code: 'WARMPATH_BODY_TOO_LARGE' })
  }
  sink.clear()
  sink.write('é'.repeat(500))
  t.is(sink.finish().bytes.length, 1000)
})
