/** Tokens that an answer tells: found and taken out wherever its bytes are cut, and nothing else changed. */
import test from 'ava'
import fc from 'fast-check'
import { TokenIds } from '../src/forward/index.js'
import { gc } from './support/gc.js'

/** Tokens that a prompt may have here. */
const MOST = 1 << 20

interface Passed {
  readonly text: string
  readonly found: number[][]
}

function pass(pieces: readonly Uint8Array[], takesOut = true): Passed {
  const found: number[][] = []
  const reader = new TokenIds({ takesOut, most: MOST, found: (tokens) => found.push([...tokens]) })
  const out = pieces.map((piece) => Buffer.from(reader.push(piece)))
  return { text: Buffer.concat(out).toString(), found }
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

test('a list that is none of tokens is taken out unread, and what is no list passes untouched', (t) => {
  const values = [
    ['[1,,2]', false],
    ['[,1]', false],
    ['[1,]', false],
    ['[-1]', false],
    ['[1.5]', false],
    ['[1,\n2e5]', false],
    ['["1"]', false],
    ['["]", "\\"]", {"a": [1]}]', false],
    ['[1 2]', false],
    ['[[1]]', false],
    ['[4294967296]', false],
    [`[${'9'.repeat(400)}]`, false],
    ['{"a":[1]}', true],
    ['null', true],
    ['"[1]"', true],
    ['""', true],
    ['12', true],
  ] as const
  for (const [value, passes] of values) {
    const text = `{"prompt_token_ids":${value},"x":1}`
    const out = passes ? text : '{"prompt_token_ids":null,"x":1}'
    t.deepEqual(whole(text), { text: out, found: [] }, value)
    t.deepEqual(pass([...Buffer.from(text)].map((byte) => Buffer.of(byte))), {
      text: out,
      found: [],
    })
  }
})

test('blanks may stand wherever JSON has them', (t) => {
  t.deepEqual(whole('{"prompt_token_ids" : [1]}'), {
    text: '{"prompt_token_ids" : null}',
    found: [[1]],
  })
  t.deepEqual(
    whole('{\r\n\t"choices"\n:\n[ { "token_ids" :\t[ 1 ,\n2 ] } ]\n}').text,
    '{\r\n\t"choices"\n:\n[ { "token_ids" :\tnull } ]\n}',
  )
  t.deepEqual(whole('{"prompt_token_ids": [ 1 ,\n2\r\n] }'), {
    text: '{"prompt_token_ids": null }',
    found: [[1, 2]],
  })
})

test('names in other places are of other people', (t) => {
  for (const text of [
    '{"meta":{"token_ids":[7,8]}}',
    '{"meta":{"prompt_token_ids":[7,8]}}',
    '{"meta":[{"token_ids":[7,8],"prompt_token_ids":[1]}]}',
    '{"token_ids":[7,8],"choices":[]}',
    '{"choices":[[{"token_ids":[1]}],{"delta":{"token_ids":[1]}}],"then":[{"token_ids":[1]}]}',
    '{"choices":{"a":{"token_ids":[1]}}}',
    '{"a":"choices","b":[{"token_ids":[1]}]}',
    '{"x":{"choices":[{"token_ids":[1]}]}}',
    '{"choices":[{"x_token_ids":[1],"token_ids_x":[1],"\\"token_ids":[1],"token_id":[1]}]}',
    '{"a":"prompt_token_ids","b":["prompt_token_ids",[1]]}',
    '{"a":"\\",\\"prompt_token_ids\\":[1]"}',
    '[{"prompt_token_ids":[1]}]',
    ': "prompt_token_ids":[1]\n\n"prompt_token_ids":[1]',
  ]) {
    t.deepEqual(whole(text), { text, found: [] }, text)
  }
  const told = '{"choices":[{"meta":{"token_ids":[1]},"prompt_token_ids":[2],"token_ids":[3]}]}'
  const bare = '{"choices":[{"meta":{"token_ids":[1]},"prompt_token_ids":null,"token_ids":null}]}'
  t.deepEqual(whole(told), { text: bare, found: [[2]] })
})

test('an event that breaks off costs no other one', (t) => {
  for (const [broken, left] of [
    ['{"prompt_token_ids":[1,2', '{"prompt_token_ids":null'],
    ['{"prompt_token_ids":[1,"a', '{"prompt_token_ids":null'],
    ['{"prompt_token_ids":[[[', '{"prompt_token_ids":null'],
    ['{"choices":[{"a', '{"choices":[{"a'],
    ['{"choices":[{"a\\', '{"choices":[{"a\\'],
    ['{"choices":[{', '{"choices":[{'],
  ] as const) {
    const text = `data: ${broken}\n\n${STREAM}`
    const expected = { text: `data: ${left}\n\n${BARE_STREAM}`, found: [[1, 2, 3]] }
    t.deepEqual(whole(text), expected, broken)
    t.deepEqual(pass([...Buffer.from(text)].map((byte) => Buffer.of(byte))), expected, broken)
  }
})

test('a list or blanks without an end are kept nowhere, in whatever pieces they come', (t) => {
  const begin = 'data: {"choices":[{"token_ids":'
  for (const [start, piece, passes] of [
    [`${begin}[1`, ',1'.repeat(500), false],
    [`${begin}[1`, ',', false],
    [begin, ' '.repeat(1000), true],
    ['data: {"prompt_token_ids":[', '[', false],
    ['data: {"prompt_token_ids":["', 'x'.repeat(1000), false],
  ] as const) {
    const reader = new TokenIds({ takesOut: true, most: MOST, found: () => t.fail() })
    t.true(reader.push(Buffer.from(start)).length > 0)
    // What is kept of a piece costs at least an object.
    const used = () => {
      gc()
      return process.memoryUsage().heapUsed
    }
    const before = used()
    for (let n = 0; n < 50_000; n += 1) {
      const bytes = Buffer.from(piece)
      if (reader.push(bytes).length !== (passes ? bytes.length : 0)) return t.fail(piece)
    }
    const grown = used() - before
    t.true(grown < 2 << 20, `${grown} bytes of 50,000 pieces are kept`)
    reader.push(Buffer.from(' '))
  }
})

test('a list of more tokens than the prompt can have is kept nowhere and not told', (t) => {
  const found: number[][] = []
  const list = (count: number) => `"prompt_token_ids":[${Array(count).fill(7).join()}]`
  for (const most of [1, 2, 1_024, 1_025, 5_000]) {
    for (const [count, told] of [
      [most, [most]],
      [most + 1, []],
      [4 * most, []],
    ] as const) {
      found.length = 0
      const plan = { takesOut: true, most, found: (tokens: Uint32Array) => found.push([...tokens]) }
      const reader = new TokenIds(plan)
      const passed = reader.push(Buffer.from(`{${list(count)}}`))
      t.is(Buffer.from(passed).toString(), '{"prompt_token_ids":null}')
      t.deepEqual(
        found.map(({ length }) => length),
        [...told],
      )
    }
  }
  found.length = 0
  const reader = new TokenIds({
    takesOut: true,
    most: 2,
    found: (tokens) => found.push([...tokens]),
  })
  const passed = reader.push(Buffer.from(`{${list(3)},"prompt_token_ids":[1,2]}`))
  const bare = '{"prompt_token_ids":null,"prompt_token_ids":null}'
  t.is(Buffer.from(passed).toString(), bare)
  t.deepEqual(found, [[1, 2]])
})

test('only the first prompt counts, and a listener that throws costs nothing', (t) => {
  t.deepEqual(whole('{"prompt_token_ids":[1]}{"prompt_token_ids":[2]}').found, [[1]])
  const reader = new TokenIds({
    takesOut: true,
    most: MOST,
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
    '{',
    '}',
    'choices',
    '\n',
    'data: ',
    '{"prompt_token_ids":[1',
    '{"choices":[{"token_ids":[',
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
