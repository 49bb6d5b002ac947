import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import test from 'ava'
import fc from 'fast-check'
import { dialectOf, type ResponseFacts } from '../src/dialects/index.js'
import { SseSplitter } from '../src/dialects/sse.js'

type Event = readonly [name: string, data: string]

/** All events of the chunks, and how many were skipped. */
function split(chunks: readonly (Uint8Array | string)[], limit?: number) {
  const events: Event[] = []
  const splitter = new SseSplitter((name, data) => events.push([name, data]), limit)
  for (const chunk of chunks) splitter.push(chunk)
  splitter.end()
  return { events, skipped: splitter.skipped }
}

const events = (text: string): Event[] => split([text]).events

test('fields, comments, several data lines and line ends', (t) => {
  const expected: Event[] = [
    ['', 'one'],
    ['named', 'two\n\n three'],
    ['', ''],
  ]
  const lines = [
    ': comment',
    'data: one',
    '',
    'event: named',
    'id: 7',
    'data:two',
    'data',
    'data:  three',
    'retry: 10',
    'unknown: field',
    'nothing',
    '',
    'event: without data',
    '',
    'data:',
    '',
    '',
  ]
  for (const end of ['\n', '\r', '\r\n']) t.deepEqual(events(lines.join(end)), expected)
})

test('a byte order mark, a mixture of line ends, and a last event without its blank line', (t) => {
  t.deepEqual(events('\ufeffdata: a\r\r\ndata: b\n\r\n'), [
    ['', 'a'],
    ['', 'b'],
  ])
  t.deepEqual(events('data: a\n\ndata: b'), [
    ['', 'a'],
    ['', 'b'],
  ])
  t.deepEqual(events('data: a\n\n\ufeffdata: no mark here\n\n'), [['', 'a']])
})

test('an event that ends in a lone CR is seen at once', (t) => {
  const seen: string[] = []
  const splitter = new SseSplitter((_, data) => seen.push(data))
  splitter.push('data: a\r\r')
  t.deepEqual(seen, ['a'])
  splitter.push('\ndata: b\r\r')
  t.deepEqual(seen, ['a', 'b'])
})

test('bytes may be split anywhere', (t) => {
  const line = fc.oneof(
    fc.constantFrom('', ': c', 'data: é😀', 'data', 'event: e', 'data: {"a":1}', 'id: x'),
    fc.string({ unit: 'grapheme' }).map((s) => `data: ${s}`),
  )
  const ending = fc.constantFrom('\n', '\r', '\r\n')
  const text = fc
    .array(fc.tuple(line, ending), { maxLength: 20 })
    .map((lines) => lines.flat().join(''))
  fc.assert(
    fc.property(text, fc.array(fc.nat(400)), (whole, cuts) => {
      const bytes = Buffer.from(whole)
      t.deepEqual(split(pieces(bytes, cuts)), split([whole]))
    }),
    { numRuns: 500 },
  )
})

function pieces(bytes: Uint8Array, cuts: readonly number[]): Uint8Array[] {
  const at = [0, ...cuts.filter((c) => c <= bytes.length).sort((a, b) => a - b), bytes.length]
  return at.slice(1).map((end, i) => new Uint8Array(bytes.subarray(at[i], end)))
}

test('an event over the limit is skipped whole, wherever it is cut, and the next is read', (t) => {
  const long = `data: ${'x'.repeat(40)}\ndata: more\n\n`
  const many = 'data: 0123456789\n'.repeat(5)
  const stream = `data: a\n\n${long}data: b\n\n${many}\nevent: e\ndata: c\n\n`
  const expected = {
    events: [
      ['', 'a'],
      ['', 'b'],
      ['e', 'c'],
    ],
    skipped: 2,
  }
  for (const size of [1, 2, 3, 7, 41, stream.length]) {
    const chunks = stream.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? []
    t.deepEqual(split(chunks, 30) as unknown, expected, `chunks of ${size}`)
  }
})

test('a flood without line ends stays within the limit and does not slow down', (t) => {
  const splitter = new SseSplitter(() => t.fail(), 1000)
  for (let i = 0; i < 20_000; i++) splitter.push('data: x')
  t.is(splitter.skipped, 1)
})

const CAPTURES: Record<string, { expected: ResponseFacts; count: number }> = {
  'vllm-0.32.0-http-07-stream-usage': {
    count: 0,
    expected: {
      id: 'chatcmpl-a5ea54d0d275654b',
      usage: { promptTokens: 302, cachedTokens: 288, completionTokens: 40 },
      finishReason: 'length',
      toolCalls: [],
      state: [],
      firstToken: true,
      ended: true,
    },
  },
  'vllm-0.32.0-http-09-stream-contusage': {
    count: 0,
    expected: {
      id: 'chatcmpl-9e142d5896ada1b7',
      usage: { promptTokens: 302, cachedTokens: 288, completionTokens: 5 },
      finishReason: 'length',
      toolCalls: [],
      state: [],
      firstToken: true,
      ended: true,
    },
  },
  'vllm-0.32.0-http-12-tools-named-stream': {
    count: 0,
    expected: {
      id: 'chatcmpl-a0d8ebb2a021e7f2',
      usage: { promptTokens: 385, cachedTokens: 384, completionTokens: 32 },
      finishReason: 'stop',
      toolCalls: [{ id: 'chatcmpl-tool-8188657e9744e061', name: 'ls' }],
      state: [],
      firstToken: true,
      ended: true,
    },
  },
}

test('recorded streams give the same facts at every split', (t) => {
  for (const [name, { expected, count }] of Object.entries(CAPTURES)) {
    const path = join(__dirname, `fixtures/engine-captures/${name}.sse.gz`)
    const bytes = gunzipSync(readFileSync(path))
    const step = bytes.length > 4000 ? 37 : 1
    for (let at = 0; at <= bytes.length; at += step) {
      const reader = dialectOf('/v1/chat/completions')?.stream()
      reader?.push(bytes.subarray(0, at))
      reader?.push(bytes.subarray(at))
      reader?.end()
      t.deepEqual(reader?.facts(), expected, `${name} cut at ${at}`)
      t.is(reader?.anomalies, count)
    }
  }
})

test('a reader survives any bytes and counts what it cannot read', (t) => {
  for (const path of ['/v1/chat/completions', '/v1/responses', '/v1/messages']) {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 60 })), (chunks) => {
        const reader = dialectOf(path)?.stream()
        for (const chunk of chunks) reader?.push(chunk)
        reader?.end()
        t.truthy(reader?.facts())
      }),
    )
    fc.assert(
      fc.property(
        fc.jsonValue(),
        fc.constantFrom('choices', 'response', 'delta', 'usage'),
        (v, key) => {
          const reader = dialectOf(path)?.stream()
          for (const event of [v, { [key]: v }, { type: 'message_start', message: v }]) {
            reader?.push(`data: ${JSON.stringify(event)}\n\n`)
          }
          t.truthy(reader?.facts())
        },
      ),
    )
    const reader = dialectOf(path)?.stream()
    reader?.push('data: {"broken\n\ndata: 7\n\ndata: [1]\n\ndata: null\n\ndata: {}\n\n: c\n\n')
    t.is(reader?.anomalies, 4)
    t.deepEqual(reader?.facts(), { toolCalls: [], state: [], firstToken: false, ended: false })
  }
})
