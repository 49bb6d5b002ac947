import test, { type ExecutionContext } from 'ava'
import fc from 'fast-check'
import { type Dialect, dialectOf, type Json } from '../src/dialects/index.js'
import { promptText } from './support/prompt.js'

const PATHS = ['/v1/chat/completions', '/v1/responses', '/v1/messages'] as const
type Path = (typeof PATHS)[number]

function dialect(path: Path): Dialect {
  const found = dialectOf(path)
  if (found === undefined) throw new Error(path)
  return found
}

const textOf = (path: Path, body: unknown) => promptText(dialect(path).read(body as Json).prompt)

/** The body with these messages, whatever the dialect calls them. */
function bodyOf(path: Path, messages: unknown, more: Json = {}): Json {
  return { model: 'm', ...more, [path === '/v1/responses' ? 'input' : 'messages']: messages }
}

const PART: Record<Path, string> = {
  '/v1/chat/completions': 'text',
  '/v1/responses': 'input_text',
  '/v1/messages': 'text',
}

const word = fc.string({ unit: 'binary', maxLength: 12 })

/** A message of the dialect with everything that agents send. */
function messageOf(path: Path): fc.Arbitrary<Json> {
  const text = word.map((value): Json => ({ type: PART[path], text: value }))
  const image = word.map((value): Json => ({ type: 'image_url', image_url: { url: value } }))
  const content = fc.oneof(word, fc.array(fc.oneof(text, image), { maxLength: 3 }))
  const role = fc.constantFrom('user', 'assistant', 'system')
  const plain = fc.record({ role, content })
  const args = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 })
  if (path === '/v1/chat/completions') {
    const fn = fc.record({ name: word, arguments: args.map((v) => JSON.stringify(v)) })
    const calls = fc.array(fc.record({ id: word, type: fc.constant('function'), function: fn }))
    return fc.oneof(
      plain,
      fc.record({ role: fc.constant('assistant'), content, tool_calls: calls }),
      fc.record({ role: fc.constant('tool'), tool_call_id: word, content }),
    )
  }
  if (path === '/v1/responses') {
    return fc.oneof(
      plain,
      fc.record({ type: fc.constant('function_call'), call_id: word, name: word, arguments: word }),
      fc.record({ type: fc.constant('function_call_output'), call_id: word, output: content }),
    )
  }
  const use = fc.record({ type: fc.constant('tool_use'), id: word, name: word, input: args })
  const result = fc.record({ type: fc.constant('tool_result'), tool_use_id: word, content })
  const blocks = fc.array(fc.oneof(text, use, result), { maxLength: 3 })
  return fc.oneof(plain, fc.record({ role, content: blocks }))
}

const TOOLS = [
  { type: 'function', name: 'a', function: { name: 'a', parameters: { z: 1, a: 2 } } },
  { type: 'function', name: 'b', function: { name: 'b' } },
]

function forAll(
  t: ExecutionContext,
  check: (path: Path, messages: Json[]) => void,
  numRuns = 150,
): void {
  for (const path of PATHS) {
    const messages = fc.array(messageOf(path), { maxLength: 6 })
    fc.assert(
      fc.property(messages, (list) => check(path, list)),
      { numRuns },
    )
  }
  t.pass()
}

test('other whitespace and escapes in the raw body change nothing', (t) => {
  forAll(t, (path, messages) => {
    const body = bodyOf(path, messages, { tools: TOOLS, system: 's', instructions: 'é' })
    const escaped = JSON.stringify(body, null, '\t').replace(
      /[^\t\n\x20-\x7e]/g,
      (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
    )
    t.is(textOf(path, JSON.parse(escaped)), textOf(path, body))
  })
})

test('a message more keeps the earlier segments', (t) => {
  forAll(t, (path, messages) => {
    const { read } = dialect(path)
    const all = read(bodyOf(path, messages, { tools: TOOLS })).prompt
    for (let n = 0; n <= messages.length; n++) {
      const some = read(bodyOf(path, messages.slice(0, n), { tools: TOOLS })).prompt
      t.true(promptText(all).startsWith(promptText(some)))
      t.deepEqual(all.ends.slice(0, some.ends.length), some.ends)
      t.is(some.ends.length, n + 1)
      t.is(some.ends.at(-1), some.bytes.length)
    }
  })
})

test('cache markers change nothing, wherever they stand', (t) => {
  const marked = (value: unknown, name: string): unknown => {
    if (Array.isArray(value)) return value.map((v) => marked(v, name))
    if (typeof value !== 'object' || value === null) return value
    const { content, output, ...rest } = value as Json
    const inner = {
      ...(content === undefined ? {} : { content: marked(content, name) }),
      ...(output === undefined ? {} : { output: marked(output, name) }),
    }
    return { [name]: { type: 'ephemeral', ttl: '1h' }, ...rest, ...inner }
  }
  forAll(t, (path, messages) => {
    const plain = textOf(
      path,
      bodyOf(path, messages, { tools: TOOLS, system: [{ type: 'text', text: 's' }] }),
    )
    for (const name of ['cache_control', 'prompt_cache_breakpoint']) {
      const body = bodyOf(path, marked(messages, name), {
        tools: marked(TOOLS, name),
        system: [{ type: 'text', text: 's', [name]: {} }],
        [name]: { type: 'ephemeral' },
      })
      t.is(textOf(path, body), plain)
    }
  })
})

test('different messages give different text', (t) => {
  for (const path of PATHS) {
    fc.assert(
      fc.property(messageOf(path), messageOf(path), (a, b) => {
        const same = textOf(path, bodyOf(path, [a])) === textOf(path, bodyOf(path, [b]))
        if (same) t.is(meaning(a), meaning(b))
      }),
      { numRuns: 2000 },
    )
  }
  t.pass()
})

/** The message as JSON, with the spellings that mean the same made one. */
function meaning(message: Json): string {
  const simple = (value: unknown): unknown => {
    if (Array.isArray(value)) {
      const list = value.map(simple).filter((v) => v !== '')
      return list.length === 0 ? '' : list.length === 1 ? list[0] : list
    }
    if (typeof value === 'string') return value.toString().replace(/\p{Cs}/gu, '\ufffd')
    if (typeof value !== 'object' || value === null) return value
    const { type, text, ...rest } = value as Json
    if (typeof text === 'string' && Object.keys(rest).length === 0) return simple(text)
    const members = Object.entries({ type, text, ...rest }).map(([k, v]) => [k, simple(v)])
    return Object.fromEntries(members.filter(([, v]) => v !== '' && v !== undefined))
  }
  return JSON.stringify(simple(message))
}

test('text that imitates frames, and texts joined in another way, are told apart', (t) => {
  for (const path of PATHS) {
    const part = (...texts: string[]) =>
      textOf(
        path,
        bodyOf(path, [
          { role: 'user', content: texts.map((text) => ({ type: PART[path], text })) },
        ]),
      )
    const forms = [
      part('ab'),
      part('a', 'b'),
      part('a\u001ft1\nb'),
      part('b', 'a'),
      textOf(
        path,
        bodyOf(path, [
          { role: 'user', content: 'a' },
          { role: 'user', content: 'b' },
        ]),
      ),
      textOf(path, bodyOf(path, [{ role: 'assistant', content: 'ab' }])),
    ]
    t.is(new Set(forms).size, forms.length)
  }
})

test('a string is the same content as one text part', (t) => {
  for (const path of PATHS) {
    const forms = [
      'hi 😀',
      [{ type: PART[path], text: 'hi 😀' }],
      { text: 'hi 😀', type: PART[path] },
    ]
    t.is(
      new Set(forms.map((content) => textOf(path, bodyOf(path, [{ role: 'user', content }])))).size,
      1,
    )
    const none = ['', null, undefined, [], [{ type: PART[path], text: '' }]]
    t.is(
      new Set(none.map((content) => textOf(path, bodyOf(path, [{ role: 'user', content }])))).size,
      1,
    )
  }
  const result = (content: unknown, more: Json = {}) =>
    textOf('/v1/messages', {
      messages: [
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content, ...more }] },
      ],
    })
  t.is(result('hi'), result([{ type: 'text', text: 'hi' }], { is_error: false }))
  t.not(result('hi'), result('hi', { is_error: true }))
  t.is(
    textOf('/v1/messages', { system: 'be brief', messages: [] }),
    textOf('/v1/messages', { system: [{ type: 'text', text: 'be brief' }], messages: [] }),
  )
  t.is(
    textOf('/v1/responses', { input: 'hi' }),
    textOf('/v1/responses', {
      input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'hi' }] }],
    }),
  )
})

test('what is inside a tool result stays inside', (t) => {
  const read = (content: unknown) =>
    textOf('/v1/messages', { messages: [{ role: 'user', content }] })
  const text = (value: string) => ({ type: 'text', text: value })
  const result = (...content: unknown[]) => ({ type: 'tool_result', tool_use_id: 't', content })
  t.not(read([result(text('a'), text('b'))]), read([result(text('a')), text('b')]))
  t.not(read([result(), result(text('a'))]), read([result(result(text('a')))]))
})

test('order, schemas and arguments count as sent; an argument may be called cache_control', (t) => {
  const tools = (parameters: Json) =>
    textOf('/v1/chat/completions', {
      tools: [{ type: 'function', function: { name: 'f', parameters } }],
    })
  t.not(tools({ a: 1, b: 2 }), tools({ b: 2, a: 1 }))
  t.not(tools({ properties: { cache_control: { type: 'string' } } }), tools({ properties: {} }))
  const use = (input: Json) =>
    textOf('/v1/messages', {
      messages: [{ role: 'assistant', content: [{ type: 'tool_use', id: 'i', name: 'n', input }] }],
    })
  t.not(use({ cache_control: 1 }), use({}))
  t.not(use({ a: 1, b: 2 }), use({ b: 2, a: 1 }))
})

test('media count by their value and take little room', (t) => {
  const big = 'A'.repeat(100_000)
  const cases: [Path, (data: string) => unknown][] = [
    ['/v1/chat/completions', (url) => ({ type: 'image_url', image_url: { url } })],
    ['/v1/chat/completions', (data) => ({ type: 'input_audio', input_audio: { data } })],
    ['/v1/chat/completions', (file_data) => ({ type: 'file', file: { file_data } })],
    ['/v1/responses', (image_url) => ({ type: 'input_image', image_url })],
    ['/v1/responses', (file_data) => ({ type: 'input_file', file_data })],
    ['/v1/messages', (data) => ({ type: 'image', source: { type: 'base64', data } })],
    ['/v1/messages', (data) => ({ type: 'document', source: { type: 'base64', data } })],
  ]
  for (const [path, part] of cases) {
    const read = (data: string) =>
      textOf(path, bodyOf(path, [{ role: 'user', content: [part(data)] }]))
    t.is(read(big), read(big))
    t.not(read(big), read(`${big}B`))
    t.true(read(big).length < 200)
  }
  const items: ((data: string) => Json)[] = [
    (result) => ({ type: 'image_generation_call', id: 'ig_1', result }),
    (image_url) => ({
      type: 'computer_call_output',
      output: { type: 'computer_screenshot', image_url },
    }),
  ]
  for (const item of items) {
    const read = (data: string) => textOf('/v1/responses', { input: [item(data)] })
    t.not(read(big), read(`${big}B`))
    t.true(read(big).length < 200)
  }
  const document = (data: string) => ({
    messages: [{ role: 'user', content: [{ type: 'document', source: { type: 'text', data } }] }],
  })
  t.true(textOf('/v1/messages', document('the words')).includes('the words'))
})

test('ids and states of Responses items do not reach the prompt; unknown members do', (t) => {
  const read = (item: Json) => textOf('/v1/responses', { input: [item] })
  const message = { type: 'message', role: 'user', content: 'x' }
  t.is(read(message), read({ ...message, id: 'msg_1', status: 'completed' }))
  t.is(read(message), read({ ...message, phase: null, annotations: [] }))
  t.not(read(message), read({ ...message, phase: 'final' }))
  const output = { type: 'output_text', text: 'x' }
  t.is(
    read({ ...message, content: [output] }),
    read({ ...message, content: [{ ...output, annotations: [{}], logprobs: [] }] }),
  )
  t.not(read({ type: 'item_reference', id: 'a' }), read({ type: 'item_reference', id: 'b' }))
  t.not(read({ type: 'new_kind', a: 1 }), read({ type: 'new_kind', a: 2 }))
})

test('lone surrogates become U+FFFD and keep offsets true', (t) => {
  for (const path of PATHS) {
    const read = (content: string) =>
      dialect(path).read(bodyOf(path, [{ role: 'user', content }])).prompt
    t.deepEqual(read('a\ud800b\udc00'), read('a\ufffdb\ufffd'))
    t.is(read('a\ud800').ends.at(-1), read('a\ud800').bytes.length)
  }
})

test('breakpoints: behind a segment, inside one, on tools, system and the body', (t) => {
  const mark = { cache_control: { type: 'ephemeral' } }
  const text = (value: string, more: Json = {}) => ({ type: 'text', text: value, ...more })
  const points = (body: Json, path: Path = '/v1/messages') =>
    dialect(path)
      .read(body)
      .breakpoints.map(({ segment }) => segment)
  const messages = [
    { role: 'user', content: [text('a'), text('b', mark)] },
    { role: 'assistant', content: 'c' },
    { role: 'user', content: [text('d', mark), text('e')] },
  ]
  // Segments: tools 0, system 1 and 2, messages 3 to 5.
  const system = [text('s', mark), text('t')]
  t.deepEqual(
    points({ tools: [{ name: 'x' }, { name: 'y', ...mark }], system, messages }),
    [0, 1, 3, 4],
  )
  t.deepEqual(points({ tools: [{ name: 'x', ...mark }, { name: 'y' }], messages: [] }), [])
  t.deepEqual(points({ ...mark, messages }), [0, 1, 2])
  t.deepEqual(points({ ...mark, messages: [] }), [])
  const nested = [{ type: 'tool_result', tool_use_id: 't', content: [text('a', mark)] }]
  t.deepEqual(points({ system: 's', messages: [{ role: 'user', content: nested }] }), [0])
  const chat = {
    messages: [
      { role: 'system', content: [{ type: 'text', text: 'a', prompt_cache_breakpoint: {} }] },
    ],
  }
  t.deepEqual(points(chat, '/v1/chat/completions'), [0])
})

test('a marker says how long it is meant, and the first of a segment counts', (t) => {
  const mark = (ttl?: unknown) => ({ cache_control: { type: 'ephemeral', ttl } })
  const points = (...messages: Json[]) => dialect('/v1/messages').read({ messages }).breakpoints
  const said = (ttl: unknown) => points({ role: 'user', content: 'a', ...mark(ttl) })
  const plain = [{ segment: 0 }]
  for (const [ttl, ttlSeconds] of [
    ['5m', 300],
    ['1h', 3600],
    ['30s', 30],
  ] as const) {
    t.deepEqual(said(ttl), [{ segment: 0, ttlSeconds }])
  }
  for (const ttl of [undefined, null, 5, '', 'long', '1 h', '5m\n', '9999999h', '-1h', ['5m']]) {
    t.deepEqual(said(ttl), plain, String(ttl))
  }
  t.deepEqual(points({ role: 'user', content: 'a', cache_control: 'ephemeral' }), plain)
  const content = [{ type: 'text', text: 'a', ...mark('1h') }]
  t.deepEqual(points({ role: 'user', content, ...mark('5m') }), [{ segment: 0, ttlSeconds: 3600 }])
})

test('content blocks are counted as they were sent', (t) => {
  const result = {
    type: 'tool_result',
    tool_use_id: 't',
    content: [{ type: 'text', text: 'a' }, 'b'],
  }
  const use = { type: 'tool_use', id: 't', name: 'n', input: {} }
  const body = {
    tools: [{ name: 'x' }, { name: 'y' }],
    system: ['s', { type: 'text', text: 's' }],
    messages: [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: Array(11).fill(use) },
      { role: 'user', content: [...Array(11).fill(result), 'then'] },
      { role: 'user', content: [] },
      'odd',
    ],
  }
  t.deepEqual(dialect('/v1/messages').read(body).contents, [1, 1, 1, 1, 11, 12, 1, 1])
})

test('only billing lines are volatile', (t) => {
  const read = (system: unknown) => dialect('/v1/messages').read({ system, messages: [] }).volatile
  const billing = 'x-anthropic-billing-header: cc_version=1;'
  t.deepEqual(
    read([
      { type: 'text', text: billing },
      { type: 'text', text: 'b' },
    ]),
    [0],
  )
  t.deepEqual(
    read([
      { type: 'text', text: 'a' },
      { type: 'text', text: billing },
    ]),
    [1],
  )
  t.deepEqual(read([{ type: 'text', text: `about ${billing}` }]), [])
  t.deepEqual(read('plain'), [])
})

test('no body makes it throw, unless it is no object', (t) => {
  const deep = (levels: number) => JSON.parse(`${'['.repeat(levels)}${']'.repeat(levels)}`)
  const cyclic: Json = { role: 'user' }
  cyclic.self = cyclic
  const odd = [
    7,
    'x',
    null,
    true,
    [],
    {},
    [null],
    [7],
    ['text'],
    [[]],
    [{}],
    [deep(100_000)],
    [cyclic],
    [{ role: 7, content: 7 }],
    [{ role: 'user', content: { type: 7 } }],
    [{ content: [null, 7, []] }],
    [{ role: 'assistant', tool_calls: 7 }],
    [{ role: 'assistant', tool_calls: [7, {}, { function: 7 }] }],
    [{ role: 'user', content: [{ type: 'tool_result', content: deep(50_000) }] }],
    [{ type: 'function_call', arguments: 12n }],
    [JSON.parse('{"__proto__":{"role":"x"},"role":"user"}')],
    [{ role: 'user', content: [{ type: 'text', text: 7 }] }],
    [{ type: 'reasoning', summary: 7 }],
  ]
  for (const path of PATHS) {
    const { read } = dialect(path)
    for (const messages of odd) {
      for (const more of [{}, { tools: messages, system: messages, instructions: messages }]) {
        t.notThrows(() => read(bodyOf(path, messages, more as Json)))
      }
    }
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        read(bodyOf(path, value, { tools: value, system: value, prompt: value } as Json))
        read(
          bodyOf(path, [
            value,
            { role: 'user', content: value },
            { type: 'x_output', output: value },
          ]),
        )
      }),
    )
    for (const bad of [null, [], 7, 'text', undefined]) {
      t.throws(() => read(bad as never), { code: 'WARMPATH_INVALID_BODY' })
    }
  }
})

test('a member called __proto__ is a member like any other', (t) => {
  for (const path of PATHS) {
    const read = (json: string) => textOf(path, bodyOf(path, [JSON.parse(json)]))
    t.not(
      read('{"role":"user","content":"x","__proto__":{"a":1}}'),
      read('{"role":"user","content":"x","__proto__":{"a":2}}'),
    )
    const tool = (json: string) => textOf(path, { tools: [JSON.parse(json)] })
    t.not(
      tool('{"name":"x","cache_control":{},"__proto__":{"a":1}}'),
      tool('{"name":"x","cache_control":{},"__proto__":{"a":2}}'),
    )
  }
})

test('a tool that was sent before is the same, and one that differs anywhere is another', (t) => {
  const member = (value: unknown, more: Json = {}) => ({
    name: 'kept',
    description: 'what it does',
    input_schema: { type: 'object', properties: { a: value, b: [1, null, 'x'] }, ...more },
  })
  const read = (tool: Json) => textOf('/v1/messages', { tools: [tool] })
  const written = read(member('v'))
  // From the third time on it is not written again.
  for (let n = 0; n < 4; n++) t.is(read(member('v')), written)
  const others = [
    member('w'),
    member(1),
    member(null),
    member(['v']),
    member('v', { required: ['a'] }),
    { ...member('v'), description: 'what else it does' },
    Object.fromEntries(Object.entries(member('v')).reverse()),
    { ...member('v'), input_schema: { ...member('v').input_schema, toJSON: () => 'v' } },
  ]
  const texts = others.map(read)
  t.is(new Set([written, ...texts]).size, others.length + 1)
  t.deepEqual(others.map(read), texts)
  t.is(read(member('v')), written)
})
