import test from 'ava'
import fc from 'fast-check'

import { TextSink } from '../src/dialects/index.js'
import { FrameWriter, NO_TEXT, PromptKind, packIds, type TurnFrame } from '../src/link/frame.js'

const base: TurnFrame = {
  final: false,
  stream: false,
  kind: PromptKind.text,
  maxOutputTokens: 0,
  tenant: '',
  session: '',
  parent: '',
  route: '',
  cacheSalt: '',
  drift: false,
  priority: 0,
  base: undefined,
  exact: undefined,
  ticket: undefined,
  canStrip: false,
  origin: 'given',
  needs: { images: false, tools: false },
  targets: [0],
  toolResults: [],
  state: [],
  prompt: NO_TEXT,
}

function textOf(...segments: string[]) {
  const sink = new TextSink()
  for (const segment of segments) {
    sink.write(segment)
    sink.end()
  }
  return sink.finish()
}

/** Reads the arrays back the way their layout says. */
function decode({ head, ids: bytes, prompt: text }: FrameWriter) {
  let at = 16
  const words = (count = 0): number[] => {
    at += count
    return [...head.subarray(at - count, at)]
  }
  const targets = words(head[8])
  const results = words(head[9])
  const state = words(head[10])
  const segments = words(2 * (head[11] ?? 0))
  let from = 0
  const take = (length = 0): string => {
    from += length
    return Buffer.from(bytes.subarray(from - length, from)).toString('utf8')
  }
  let cut = 0
  const segment = (length: number): string => {
    cut += length
    return Buffer.from(text.subarray(cut - length, cut)).toString('utf8')
  }
  return {
    flags: head[0],
    kind: head[1],
    maxOutputTokens: head[2],
    tenant: take(head[4]),
    session: take(head[5]),
    parent: take(head[6]),
    route: take(head[13]),
    cacheSalt: take(head[14]),
    base: head[12],
    targets,
    toolResults: results.map(take),
    state: state.map(take),
    segments: segments.filter((_, index) => index % 2 === 0).map(segment),
    marks: segments.filter((_, index) => index % 2 === 1),
    rest: bytes.length - from + (text.length - cut),
    words: head.length - at,
  }
}

test('every field arrives where the layout says', (t) => {
  const writer = new FrameWriter(1 << 20)
  writer.write({
    ...base,
    final: true,
    stream: true,
    maxOutputTokens: 2 ** 40,
    tenant: 'té',
    session: 's',
    parent: 'p🙂',
    route: 'chät',
    cacheSalt: 'sält',
    drift: true,
    base: 1,
    targets: [3, 1],
    toolResults: ['call_1', ''],
    state: ['response:é'],
    prompt: {
      ...textOf('a', 'é🙂', '', 'b'),
      volatile: [0, 9],
      breakpoints: [{ segment: 0 }, { segment: 3, ttlSeconds: 3600 }, { segment: 9 }],
      contents: [1, 3, 1, 100_000],
    },
  })
  t.deepEqual(decode(writer), {
    flags: 7,
    kind: 0,
    maxOutputTokens: 0xffff_ffff,
    tenant: 'té',
    session: 's',
    parent: 'p🙂',
    route: 'chät',
    cacheSalt: 'sält',
    base: 2,
    targets: [3, 1],
    toolResults: ['call_1', ''],
    state: ['response:é'],
    segments: ['a', 'é🙂', '', 'b'],
    // From the lowest bit: volatile, breakpoint, further content blocks, minutes.
    marks: [3, 2 << 2, 0, 2 + (0x3fff << 2) + (60 << 16)],
    rest: 0,
    words: 0,
  })
})

test('any segments come back, whatever was written before', (t) => {
  const writer = new FrameWriter(1 << 24)
  const segment = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 40 }),
    fc.nat(200_000).map((size) => 'x'.repeat(size)),
  )
  fc.assert(
    fc.property(fc.array(segment, { maxLength: 8 }), (segments) => {
      writer.write({ ...base, prompt: { ...NO_TEXT, ...textOf(...segments) } })
      const read = decode(writer)
      t.deepEqual(read.segments, segments)
      t.is(read.rest, 0)
    }),
    { numRuns: 60 },
  )
})

test('text beyond the limit is refused, and the writer goes on', (t) => {
  const writer = new FrameWriter(1000)
  const prompt = { ...NO_TEXT, ...textOf('é'.repeat(501)) }
  t.throws(() => writer.write({ ...base, prompt }), { code: 'WARMPATH_BODY_TOO_LARGE' })
  writer.write({ ...base, prompt: { ...NO_TEXT, ...textOf('ok') } })
  t.deepEqual(decode(writer).segments, ['ok'])
})

test('ids of an answer are counted by kind', (t) => {
  const { lengths, bytes } = packIds(['a', 'bé'], ['response:1'])
  t.deepEqual([...lengths], [2, 1, 1, 3, 10])
  t.is(Buffer.from(bytes).toString('utf8'), 'abéresponse:1')
  t.deepEqual([...packIds([], []).lengths], [0, 0])
})
