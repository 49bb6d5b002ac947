import test from 'ava'
import fc from 'fast-check'
import { type HeadersLike, type Identity, identify, readHeaders } from '../src/identity/index.js'

const of = (headers: HeadersLike, body: unknown = {}): Identity =>
  identify(readHeaders(headers), body)

/** Session, parent and source, as one line. */
const who = (headers: HeadersLike, body: unknown = {}): string => {
  const { session, parent, source } = of(headers, body)
  return `${session ?? '-'} < ${parent ?? '-'} (${source})`
}

test('headers of every shape give the same map', (t) => {
  const expected = new Map([
    ['x-one', 'a'],
    ['x-two', 'b'],
  ])
  const shapes: HeadersLike[] = [
    new Headers({ 'X-One': ' a ', 'X-Two': 'b' }),
    new Map([
      ['X-One', ' a '],
      ['X-Two', 'b'],
    ]),
    [
      ['X-One', 'a'],
      ['x-two', 'b'],
      ['x-one', 'second'],
    ],
    ['X-One', 'a', 'X-Two', 'b', 'X-ONE', 'second'],
    { 'X-One': 'a', 'X-Two': ['b', 'second'], 'x-three': undefined },
  ]
  for (const shape of shapes) t.deepEqual(readHeaders(shape), expected)
})

test('what is no collection of headers gives an empty map, and odd entries are left out', (t) => {
  for (const odd of [undefined, null, 7, 'text', true, [], [7], ['odd'], [[1, 2]], { a: 7 }]) {
    t.is(readHeaders(odd as HeadersLike).size, 0)
  }
  t.deepEqual([...readHeaders({ a: '', A: ' x ' })], [['a', 'x']])
})

test('each row of the table', (t) => {
  const user = (value: unknown) => ({ metadata: { user_id: value } })
  const meta = JSON.stringify({ parent_thread_id: 'p' })
  const cases: [HeadersLike, unknown, string][] = [
    [{ 'x-dynamo-session-id': 's' }, {}, 's < - (dynamo)'],
    [{ 'x-dynamo-session-id': 's', 'x-dynamo-parent-session-id': 'p' }, {}, 's < p (dynamo)'],
    [
      { 'x-dynamo-trajectory-id': 's', 'x-dynamo-parent-trajectory-id': 'p' },
      {},
      's < p (dynamo-trajectory)',
    ],
    [{ 'x-claude-code-session-id': 's' }, {}, 's < - (claude-code)'],
    [{ 'x-claude-code-session-id': 's', 'x-claude-code-agent-id': 'a' }, {}, 'a < s (claude-code)'],
    [
      {
        'x-claude-code-session-id': 's',
        'x-claude-code-agent-id': 'a',
        'x-claude-code-parent-agent-id': 'b',
      },
      {},
      'a < b (claude-code)',
    ],
    [
      { 'x-claude-code-session-id': 's', 'x-claude-code-parent-agent-id': 'b' },
      {},
      's < - (claude-code)',
    ],
    [{ 'x-claude-code-agent-id': 'a' }, {}, '- < - (none)'],
    [{ 'thread-id': 's', 'session-id': 'root' }, {}, 's < - (codex)'],
    [{ 'thread-id': 's', 'x-codex-parent-thread-id': 'p' }, {}, 's < p (codex)'],
    [{ 'thread-id': 's', 'x-codex-turn-metadata': meta }, {}, 's < p (codex)'],
    [{ 'thread-id': 's', 'x-codex-turn-metadata': '{"broken' }, {}, 's < - (codex)'],
    [{ 'session-id': 's' }, {}, 's < - (codex-older)'],
    [{ session_id: 's', conversation_id: 'c' }, {}, 's < - (codex-older)'],
    [{ conversation_id: 'c' }, {}, 'c < - (codex-older)'],
    [
      { 'x-deepseek-harness-session-id': 's', 'x-deepseek-harness-parent-session-id': 'p' },
      {},
      's < p (deepseek-harness)',
    ],
    [
      { 'x-session-id': 's', 'x-session-affinity': 'f', 'x-parent-session-id': 'p' },
      {},
      's < p (opencode)',
    ],
    [{ 'x-opencode-session': 's' }, {}, 's < - (opencode-gateway)'],
    [{ 'x-task-id': 's' }, {}, 's < - (cline)'],
    [{ 'x-roo-task-id': 's' }, {}, 's < - (roo)'],
    [{ 'x-multi-turn-session-id': 's', 'x-session-affinity': 'f' }, {}, 's < - (fireworks)'],
    [{ 'x-session-affinity': 'f' }, {}, 'f < - (fireworks)'],
    [{ 'x-smg-routing-key': 's' }, {}, 's < - (smg)'],
    [{ 'x-aibrix-session-key': 's' }, {}, 's < - (aibrix)'],
    [{ 'x-bf-session-id': 's' }, {}, 's < - (bifrost)'],
    [{ 'x-grok-conv-id': 's' }, {}, 's < - (xai)'],
    [{ 'x-affinity': 's' }, {}, 's < - (pi-mistral)'],
    [
      {},
      {
        nvext: {
          agent_context: { session_id: 'run', trajectory_id: 's', parent_trajectory_id: 'p' },
        },
      },
      's < p (dynamo-body-trajectory)',
    ],
    [
      {},
      { nvext: { agent_context: { workflow_id: 'w', program_id: 's', parent_program_id: 'p' } } },
      's < p (dynamo-body-program)',
    ],
    [
      {},
      { nvext: { agent_context: { session_id: 's', parent_session_id: 'p' } } },
      's < p (dynamo-body)',
    ],
    [
      {},
      {
        client_metadata: { session_id: 'root', thread_id: 's', 'x-codex-parent-thread-id': 'p' },
        prompt_cache_key: 'root',
      },
      's < p (codex-body)',
    ],
    [{}, user('user_ab_account_cd_session_ef-01'), 'ef-01 < - (claude-code-body)'],
    [{}, user('user_x_session_y_session_z'), 'z < - (claude-code-body)'],
    [{}, user('{"device_id":"d","session_id":"s"}'), 's < - (claude-code-body)'],
    [{}, user('someone'), '- < - (none)'],
    [{}, user('{"broken'), '- < - (none)'],
    [{}, { program_id: 's' }, 's < - (thunderagent)'],
    [{}, { extra_body: { program_id: 's' } }, 's < - (thunderagent)'],
    [{}, { program_id: 12 }, '12 < - (thunderagent)'],
    [{}, { metadata: { sessionId: 's', promptId: 'q' } }, 's < - (qwen-code)'],
    [{}, { user_prompt_id: 'q', request: { session_id: 's' } }, 's < - (gemini-cli)'],
    [{}, { session_id: 's', prompt_cache_key: 'k' }, 's < - (body-session)'],
    [{}, { metadata: { session_id: 's' } }, 's < - (body-session)'],
    [{}, { prompt_cache_key: 'k' }, 'k < - (prompt-cache-key)'],
    [{}, {}, '- < - (none)'],
  ]
  for (const [headers, body, expected] of cases) t.is(who(headers, body), expected)
})

test('the first row with a root decides alone', (t) => {
  const everything = {
    'x-dynamo-session-id': 'dynamo',
    'x-claude-code-session-id': 'claude',
    'x-claude-code-agent-id': 'agent',
    'thread-id': 'thread',
    'x-codex-parent-thread-id': 'parent',
    'x-session-id': 'open',
    'x-parent-session-id': 'open-parent',
  }
  t.is(who(everything, { program_id: 'p' }), 'dynamo < - (dynamo)')
  t.is(
    who({ 'x-session-id': 's', 'x-codex-parent-thread-id': 'p' }, { prompt_cache_key: 'k' }),
    's < - (opencode)',
  )
  // A parent without the root of its row is nothing.
  t.is(who({ 'x-dynamo-parent-session-id': 'p' }), '- < - (none)')
})

test('a parent equal to the session is dropped', (t) => {
  t.is(who({ 'x-dynamo-session-id': 's', 'x-dynamo-parent-session-id': ' s ' }), 's < - (dynamo)')
  t.is(
    who({ 'x-claude-code-session-id': 's', 'x-claude-code-agent-id': 's' }),
    's < - (claude-code)',
  )
})

test('blank ids are absent, repeats count once', (t) => {
  t.is(who({ 'x-dynamo-session-id': '  ', 'thread-id': 's' }), 's < - (codex)')
  t.is(who({}, { session_id: ' ', prompt_cache_key: ' k ' }), 'k < - (prompt-cache-key)')
  t.is(who(['Thread-Id', 'one', 'Thread-Id', 'two']), 'one < - (codex)')
  const joined = new Headers([
    ['thread-id', 'one'],
    ['thread-id', 'two'],
  ])
  t.is(who(joined), 'one < - (codex)')
})

test('an unfit session becomes a digest, an unfit parent is dropped', (t) => {
  const unfit = ['a'.repeat(257), 'é'.repeat(129), 'a\u0000b', 'a\u0085b', 'a\ud800b']
  const sessions = unfit.map((id) => {
    const { session, parent } = of(
      {},
      {
        nvext: { agent_context: { trajectory_id: id, parent_trajectory_id: `${id}2` } },
      },
    )
    t.is(parent, undefined)
    t.regex(session ?? '', /^sha256:[0-9a-f]{64}$/)
    return session
  })
  t.is(new Set(sessions).size, unfit.length)
  for (const fit of ['a'.repeat(256), 'é'.repeat(128), '😀 with a space']) {
    t.is(of({}, { session_id: fit }).session, fit)
  }
})

test('the final marker goes with any session, and needs one', (t) => {
  const final = (headers: HeadersLike, body: unknown = {}) => of(headers, body).final
  t.true(final({ 'x-dynamo-session-id': 's', 'x-dynamo-session-final': 'true' }))
  t.true(final({ 'x-session-id': 's', 'x-dynamo-session-final': 'TRUE' }))
  t.true(final({ 'x-dynamo-trajectory-id': 's', 'x-dynamo-trajectory-final': '1' }))
  const body = { nvext: { agent_context: { trajectory_id: 's', trajectory_final: true } } }
  t.true(final({}, body))
  t.false(final({ 'x-dynamo-session-final': 'true' }))
  for (const no of ['false', '0', 'maybe', '']) {
    t.false(final({ 'x-dynamo-session-id': 's', 'x-dynamo-session-final': no }))
  }
})

test('compaction markers', (t) => {
  const compaction = (headers: HeadersLike, body: unknown = {}) => of(headers, body).compaction
  const metadata = (kind: string) => JSON.stringify({ request_kind: kind, x: 'a, b' })
  t.true(compaction({ 'x-codex-turn-metadata': metadata('compaction') }))
  t.false(compaction({ 'x-codex-turn-metadata': metadata('turn') }))
  t.true(compaction({}, { client_metadata: { 'x-codex-turn-metadata': metadata('compaction') } }))
  t.true(compaction({ 'x-openai-subagent': 'compact' }))
  t.false(compaction({ 'x-openai-subagent': 'review' }))
  t.true(compaction({ 'x-deepseek-harness-compact': '1' }))
  t.false(compaction({}))
})

test('members of the prototype are no ids', (t) => {
  t.is(who({}, JSON.parse('{"__proto__":{"session_id":"s"}}')), '- < - (none)')
  t.is(who({}, Object.create({ session_id: 's' })), '- < - (none)')
})

test('no body makes it throw, and a session is never too long', (t) => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.string()), fc.jsonValue(), (headers, value) => {
      const names = ['metadata', 'nvext', 'client_metadata', 'request', 'prompt_cache_key']
      for (const body of [value, ...names.map((name) => ({ [name]: value }))]) {
        const { session, parent } = of(headers, body)
        t.true(Buffer.byteLength(session ?? '') <= 256)
        t.true(parent === undefined || parent !== session)
      }
    }),
    { numRuns: 300 },
  )
})
