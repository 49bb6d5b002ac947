/** A recording of decisions decides the same again, and says where it does not. */
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { jsonl, Scheduler } from '../src/index.js'
import { verifyDecisions } from '../src/workload.js'
import { folder, lines } from './support/trace.js'
import { served } from './support/trace-run.js'

const MAIN = join(__dirname, '../src/cli/main.mts')
const BLOCK = 64

/** What answers a call, after who made it. */
const answered = (id: string) => [
  {
    role: 'assistant',
    tool_calls: [{ id, type: 'function', function: { name: 'f', arguments: '{}' } }],
  },
  { role: 'tool', tool_call_id: id, content: 'done' },
]

/** Turns of four sessions in tool loops, given as block hashes, two under way at a time. */
async function recorded(t: ExecutionContext): Promise<string> {
  const path = join(folder(t), 'trace.jsonl')
  const scheduler = new Scheduler({
    workers: ['a', 'b', 'c'].map((id) => ({ id, url: `http://${id}`, capacityTokens: 20_000 })),
    trace: { sink: jsonl({ path }), receipts: 'full' },
  })
  const chains = [0, 1, 2, 3].map((session) => [1n, 2n, BigInt(100 * session + 3)])
  const calls = new Map<number, string>()
  let before: (() => void) | undefined
  for (let turn = 0; turn < 24; turn += 1) {
    const session = (turn * 7) % 4
    const chain = chains[session] ?? []
    for (let i = 0; i < 5; i += 1) chain.push(BigInt(1000 * session + chain.length))
    const taken = await scheduler.submit({
      path: '/v1/chat/completions',
      headers: { 'x-session-id': `s${session}` },
      hashes: BigUint64Array.from(chain),
      body: { model: 'm', messages: answered(calls.get(session) ?? 'none') },
    })
    taken.firstToken()
    before?.()
    const usage = { promptTokens: chain.length * BLOCK, cachedTokens: 0, completionTokens: 5 }
    const call = `call_${turn}`
    calls.set(session, call)
    before = () => taken.complete(usage, { toolCalls: [call] })
  }
  before?.()
  scheduler.close()
  await scheduler.flush()
  return path
}

test('decisions on block hashes are made again from what happened before', async (t) => {
  const path = await recorded(t)
  const verified = await verifyDecisions({ paths: [path], capacityTokens: 20_000 })
  t.is(verified.difference, null, JSON.stringify(verified.difference))
  t.deepEqual([verified.decisions, verified.of, verified.checked], [24, 24, 'decisions'])
})

test('the first decision that differs is shown beside what it would be', async (t) => {
  const path = await recorded(t)
  const all = lines(path)
  const wrong = all.map((line) => {
    if (!line.includes('"id":"9"')) return line
    return line.replace(
      /"overlapTokens":(\d+)/,
      (_, n: string) => `"overlapTokens":${Number(n) + 64}`,
    )
  })
  t.notDeepEqual(wrong, all)
  writeFileSync(path, `${wrong.join('\n')}\n`)
  const { difference, decisions } = await verifyDecisions({ paths: [path], capacityTokens: 20_000 })
  t.is(decisions, 9)
  t.regex(difference?.what ?? '', /overlapTokens of a/)
  const { code, out } = await verify(path)
  t.is(code, 1)
  t.regex(out, /^decision 9 of 24, request .*: overlapTokens of a differs/)
  t.regex(out, /as recorded +\| +as decided now/)
  t.regex(out, /^! .*\|/m)
})

test('prompts that came as text: each receipt follows from its own terms', async (t) => {
  const found = await served(t, { receipts: 'full' })
  const path = join(folder(t), 'again.jsonl')
  const text = (changed: (line: string) => string) =>
    `${found.map((line) => changed(unquoted(JSON.stringify(line)))).join('\n')}\n`
  writeFileSync(
    path,
    text((line) => line),
  )
  const verified = await verifyDecisions({ paths: [path] })
  t.is(verified.difference, null, JSON.stringify(verified.difference))
  t.is(verified.checked, 'receipts')
  t.true(verified.decisions >= 6)
  writeFileSync(
    path,
    text((line) => line.replace(/"cost":([\d.]+)/, '"cost":12345.5')),
  )
  const { difference } = await verifyDecisions({ paths: [path] })
  t.regex(difference?.what ?? '', /cost of a/)
  writeFileSync(
    path,
    text((line) => changed(line, { worker: 'x' })),
  )
  const stranger = await verifyDecisions({ paths: [path] })
  t.regex(stranger.difference?.what ?? '', /"x" is not among the candidates/)
  writeFileSync(
    path,
    text((line) => changed(line, { candidates: [] })),
  )
  const { out } = await verify(path)
  t.regex(out, /^checked of each receipt: its costs .* its worker is among its candidates/m)
  t.regex(out, /^--cache: only decisions that are made again depend on it$/m)
  t.regex(out, /^0 receipts checked by themselves/)
  t.regex(out, new RegExp(`^${verified.decisions} receipts without candidates not checked$`, 'm'))
})

test('a recording without receipts is told how to get them', async (t) => {
  const found = await served(t)
  const path = join(folder(t), 'again.jsonl')
  writeFileSync(path, `${found.map((line) => unquoted(JSON.stringify(line))).join('\n')}\n`)
  await t.throwsAsync(verifyDecisions({ paths: [path] }), { message: /receipts: 'full'/ })
})

/** A line whose receipt has other fields; hashes stay as they are, since a double cannot hold them. */
function changed(line: string, fields: object): string {
  const { receipt } = JSON.parse(line).event.warmpath ?? {}
  if (receipt === undefined) return line
  return line.replace(JSON.stringify(receipt), JSON.stringify({ ...receipt, ...fields }))
}

/** Hashes as numbers again. */
function unquoted(line: string): string {
  return line.replace(/"input_sequence_hashes":\[([^\]]*)\]/, (whole) =>
    whole.replaceAll(/"(\d+)"/g, '$1'),
  )
}

function verify(path: string): Promise<{ code: number | string; out: string }> {
  const env = { ...process.env, NODE_NO_WARNINGS: '1' }
  const args = ['--import=tsx', MAIN, 'replay', '--verify', path, '--cache', '20000']
  return new Promise((resolve) => {
    execFile(process.execPath, args, { env }, (error, out) =>
      resolve({ code: error?.code ?? 0, out }),
    )
  })
}
