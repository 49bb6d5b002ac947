/** Tokens that an answer tells: found and taken out wherever its bytes are cut, and nothing else changed. */
import test from 'ava'
import fc from 'fast-check'
import { TokenIds } from '../src/forward/index.js'

interface Passed {
  readonly text: string
  readonly found: number[][]
}

function pass(pieces: readonly Uint8Array[], takesOut = true): Passed {
  const found: number[][] = []
  const reader = new TokenIds({ takesOut, found: (tokens) => found.push([...tokens]) })
  const out = pieces.map((piece) => Buffer.from(reader.push(piece)))
  return { text: Buffer.concat([...out, reader.end()]).toString(), found }
}

const whole = (text: string, takesOut = true) => pass([Buffer.from(text)], takesOut)

function cutAt(text: string, cuts: readonly number[]): Buffer[] {
  const bytes = Buffer.from(text)
  const ends = [...new Set(cuts.map((cut) => cut % (bytes.length + 1))), bytes.length]
  ends.sort((a, b) => a - b)
  return ends.map((end, at) => bytes.subarray(ends[at - 1] ?? 0, end))
}

const ANSWER = JSON.stringify({
  choices: [{ message: { content: 'say "token_ids":[1,2] Grüße' }, token_ids: [5, 6, 7] }],
  stop_token_ids: [1, 2],
  prompt_token_ids: [0, 151644, 4294967295],
  usage: { prompt_tokens: 3 },
})
const BARE = ANSWER.replace('[5,6,7]', 'null').replace('[0,151644,4294967295]', 'null')
const STREAM = [
  'data: {"choices":[{"delta":{"role":"assistant"}}],"prompt_token_ids":[1,2,3]}\n\n',
  'data: {"choices":[{"delta":{"content":"a"},"token_ids":[4]}]}\r\n\r\n',
  'data: {"choices":[{"delta":{"content":"b"},"token_ids":[]}],"prompt_token_ids":null}\n\n',
  'data: [DONE]\n\n',
].join('')
const BARE_STREAM = STREAM.replace('[1,2,3]', 'null').replace('[4]', 'null').replace('[]', 'null')

test('lists of tokens are taken out of an answer, and the prompt’s are found', (t) => {
  t.deepEqual(whole(ANSWER), { text: BARE, found: [[0, 151644, 4294967295]] })
  t.deepEqual(whole(STREAM), { text: BARE_STREAM, found: [[1, 2, 3]] })
})

test('a client that has asked for them gets the bytes as they came', (t) => {
  t.deepEqual(whole(ANSWER, false), { text: ANSWER, found: [[0, 151644, 4294967295]] })
})

test('it does not matter where the bytes are cut', (t) => {
  for (const [text, bare] of [
    [ANSWER, BARE],
    [STREAM, BARE_STREAM],
  ] as const) {
    const { found } = whole(text)
    for (let at = 0; at <= Buffer.byteLength(text); at += 1) {
      t.deepEqual(pass(cutAt(text, [at])), { text: bare, found })
      t.deepEqual(pass(cutAt(text, [at]), false), { text, found })
    }
    t.deepEqual(pass([...Buffer.from(text)].map((byte) => Buffer.of(byte))), { text: bare, found })
  }
})

test('what is no list of tokens passes untouched', (t) => {
  for (const value of [
    '[1,2',
    '[1,,2]',
    '[,1]',
    '[1,]',
    '[-1]',
    '[1.5]',
    '["1"]',
    '[1 2]',
    '[[1]]',
    '[4294967296]',
    '{"a":[1]}',
    'null',
    '"[1]"',
    '',
  ]) {
    const text = `{"prompt_token_ids":${value},"x":1}`
    t.deepEqual(whole(text), { text, found: [] }, value)
    t.deepEqual(pass([...Buffer.from(text)].map((byte) => Buffer.of(byte))), { text, found: [] })
  }
  t.deepEqual(whole('{"prompt_token_ids" :[1]}').found, [])
  t.deepEqual(whole('{"prompt_token_ids": [ 1 ,\n2 ] }'), {
    text: '{"prompt_token_ids":null }',
    found: [[1, 2]],
  })
})

test('only the first prompt counts, and a listener that throws costs nothing', (t) => {
  t.deepEqual(whole('{"prompt_token_ids":[1]}{"prompt_token_ids":[2]}').found, [[1]])
  const reader = new TokenIds({
    takesOut: true,
    found: () => {
      throw new Error('closed')
    },
  })
  const passed = reader.push(Buffer.from('{"prompt_token_ids":[1],"a":2}'))
  t.is(Buffer.from(passed).toString(), '{"prompt_token_ids":null,"a":2}')
})

test('any bytes in any pieces pass as they do in one', (t) => {
  const part = fc.constantFrom(
    '"',
    'prompt_',
    'token_ids',
    '":',
    '[',
    ']',
    '1',
    ',',
    ' ',
    '\\',
    'x',
  )
  const text = fc.array(part, { maxLength: 60 }).map((parts) => parts.join(''))
  const cuts = fc.array(fc.nat(500), { maxLength: 6 })
  fc.assert(
    fc.property(text, cuts, fc.boolean(), (source, at, takesOut) => {
      const pieces = pass(cutAt(source, at), takesOut)
      t.deepEqual(pieces, whole(source, takesOut))
      if (!takesOut) t.is(pieces.text, source)
    }),
    { numRuns: 2_000 },
  )
})

test('a long prompt is read in one pass', (t) => {
  const tokens = Array.from({ length: 200_000 }, (_, at) => at)
  const text = JSON.stringify({ prompt_token_ids: tokens })
  const began = performance.now()
  const { found } = pass(cutAt(text, [65_536, 131_072, 500_000]))
  t.true(performance.now() - began < 2_000)
  t.deepEqual(found, [tokens])
})
