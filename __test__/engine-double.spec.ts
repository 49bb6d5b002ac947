import { execFile } from 'node:child_process'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'

import test from 'ava'

import { EngineModel } from '../src/simulation.js'
import { IssuerRegistry } from '../src/testing/index.js'
import {
  at,
  CLIENTS,
  chat,
  fixture,
  type Json,
  messages,
  post,
  responses,
  start,
} from './engine-double-client.js'

const ENGINE = { blockSize: 4, numGpuBlocks: 20_000 }
const TOOL_HEADERS = {
  'x-double-output-tokens': '21',
  'x-double-tool': 'ls {"path":"ü/ß","all":true}',
}

for (const client of CLIENTS) {
  test(`${client.name}: a JSON answer and a stream say the same`, async (t) => {
    const { double } = await start(t, { engine: ENGINE })
    const body = client.first('hello there')
    const whole = await post(double, client.path, body, TOOL_HEADERS)
    const streamed = await post(double, client.path, { ...body, stream: true }, TOOL_HEADERS)
    t.is(whole.status, 200)
    t.is(streamed.status, 200)
    const [said, heard] = [client.spoken(whole.body), client.heard(streamed.events)]
    t.is(said.text.length, 4 * 21)
    t.is(heard.text, said.text)
    t.deepEqual(
      [said, heard].map(({ calls }) => calls.map((call) => [call.name, call.arguments])),
      [[['ls', '{"path":"ü/ß","all":true}']], [['ls', '{"path":"ü/ß","all":true}']]],
    )
    const [prompt, cached, output] = client.usage(at(whole.body, 'usage'))
    t.is(cached, 0)
    t.true(prompt > 20)
    const again = client.usage(client.streamUsage(streamed.events))
    t.deepEqual(again, [prompt, Math.floor((prompt - 1) / 4) * 4, output])
  })

  test(`${client.name}: the next turn finds all that was computed, the answer included`, async (t) => {
    const { double, nextEnd } = await start(t, { engine: ENGINE })
    let body = client.first('list the folder, then tell me about it')
    let computed = 0
    for (const headers of [TOOL_HEADERS, { 'x-double-output-tokens': '10' }, TOOL_HEADERS]) {
      const answer = await post(double, client.path, body, headers)
      t.is(answer.status, 200, JSON.stringify(answer.body))
      const end = await nextEnd()
      t.is(end.cachedTokens, Math.floor(computed / 4) * 4)
      t.deepEqual(client.usage(at(answer.body, 'usage')), [
        end.promptTokens,
        end.cachedTokens,
        end.outputTokens,
      ])
      // The last token made is the only one that was not computed.
      computed = end.promptTokens + end.outputTokens - 1
      body = client.next(body, client.spoken(answer.body), 'and then?')
    }
  })

  test(`${client.name}: results of foreign tool calls are refused, in the dialect's shape`, async (t) => {
    const issuer = new IssuerRegistry()
    const [own, sibling, stranger] = await Promise.all([
      start(t, { issuer }),
      start(t, { issuer }),
      start(t),
    ])
    const body = client.first('go')
    const answer = client.spoken((await post(own.double, client.path, body, TOOL_HEADERS)).body)
    const next = client.next(body, answer, 'go on')
    t.is((await post(sibling.double, client.path, next)).status, 200)
    const refused = await post(stranger.double, client.path, next)
    t.is(refused.status, 400)
    t.regex(String(client.error(refused.body)), new RegExp(answer.calls[0]?.id ?? 'no call'))
    // Once the assistant has spoken again, the loop is over and its ids are history.
    const later = client.next(next, { text: 'fine', calls: [] }, 'good')
    t.is((await post(stranger.double, client.path, later)).status, 200)
    t.like(stranger.double.status(), { requests: 2, refused: 1 })
  })

  test(`${client.name}: a limit cuts the answer and says so`, async (t) => {
    const { double } = await start(t, { engine: ENGINE })
    const limited = { ...client.first('hi'), [client.maxTokens]: 5 }
    const { body } = await post(double, client.path, limited, TOOL_HEADERS)
    t.is(client.spoken(body).text.length, 20)
    t.deepEqual(client.spoken(body).calls, [])
    const reasons = [
      at(body, 'choices', 0, 'finish_reason'),
      at(body, 'stop_reason'),
      at(body, 'incomplete_details', 'reason'),
    ]
    t.true(
      ['length', 'max_tokens', 'max_output_tokens'].includes(
        String(reasons.find((r) => r != null)),
      ),
    )
  })

  test(`${client.name}: fails as it is told, then works again`, async (t) => {
    const { double, nextEnd } = await start(t)
    const body = client.first('hi')
    double.fail('503', 2)
    const first = await post(double, client.path, body)
    t.is(first.status, 503)
    t.truthy(client.error(first.body))
    t.is((await post(double, client.path, body)).status, 503)
    double.fail('cut')
    await t.throwsAsync(post(double, client.path, { ...body, stream: true }, TOOL_HEADERS))
    t.is((await nextEnd()).dialect.length > 0, true)
    double.fail('cut')
    await t.throwsAsync(post(double, client.path, body, TOOL_HEADERS))
    double.fail('stall')
    const patience = new AbortController()
    const init = { method: 'POST', body: JSON.stringify(body), signal: patience.signal }
    const stalled = fetch(double.url + client.path, init)
    while (double.status().faults.stall === 0) await setTimeout(5)
    await setTimeout(50)
    patience.abort()
    await t.throwsAsync(stalled, { any: true })
    t.is((await post(double, client.path, body)).status, 200)
    t.deepEqual(double.status().faults, { '401': 0, '429': 0, '503': 2, stall: 1, cut: 2 })
  })
}

test('a stream that is cut has its first half', async (t) => {
  const { double } = await start(t, { speed: 5 })
  double.fail('cut')
  const response = await fetch(double.url + chat.path, {
    method: 'POST',
    body: JSON.stringify(chat.first('hi', { stream: true })),
    headers: { 'x-double-output-tokens': '39' },
  })
  let received = ''
  const decoder = new TextDecoder()
  await t.throwsAsync(async () => {
    for await (const bytes of response.body ?? [])
      received += decoder.decode(bytes, { stream: true })
  })
  const text = [...received.matchAll(/"content":"([^"]*)"/g)].map((match) => match[1]).join('')
  t.is(text.length, 20 * 4)
  t.false(received.includes('[DONE]'))
})

test('a client that goes away frees the engine', async (t) => {
  const { double, nextEnd } = await start(t, { speed: 1, engine: ENGINE })
  const leave = new AbortController()
  const response = await fetch(double.url + chat.path, {
    method: 'POST',
    body: JSON.stringify(chat.first('hi', { stream: true })),
    headers: { 'x-double-output-tokens': '5000' },
    signal: leave.signal,
  })
  t.is(response.status, 200)
  t.is(double.status().engine.running, 1)
  leave.abort()
  const end = await nextEnd()
  t.is(end.end, 'cancelled')
  t.true(end.outputTokens < 5000)
  t.like(double.status().engine, { running: 0, waiting: 0, usedBlocks: 0 })
})

test.serial('tokens come while they are made, in the time the model says', async (t) => {
  const { double, nextEnd } = await start(t, { speed: 1 })
  const response = await fetch(double.url + chat.path, {
    method: 'POST',
    body: JSON.stringify(chat.first('hi', { stream: true })),
    headers: { 'x-double-output-tokens': '60' },
  })
  let reads = 0
  for await (const _ of response.body ?? []) reads += 1
  t.true(reads >= 3, `${reads} reads`)
  const end = await nextEnd()
  const model = new EngineModel()
  model.submit(0, 1, new Uint32Array(end.promptTokens), new Uint32Array(end.outputTokens))
  const times: number[] = []
  model.advance(1e6, (event) => times.push(event.at))
  t.true(Math.abs(end.endMs - end.arrivalMs - (times.at(-1) ?? 0)) < 1e-3)
  t.true(Math.abs((end.firstTokenMs ?? 0) - end.arrivalMs - (times[1] ?? 0)) < 1e-3)
  t.is(double.status().ttftMs.count, 1)
  t.true(double.status().lagMs.count >= 61)
})

test('a chat stream counts only when it is asked to', async (t) => {
  const { double } = await start(t)
  const silent = chat.first('hi', { stream: true, stream_options: undefined })
  const { events } = await post(double, chat.path, silent)
  t.is(events.at(-1)?.data, '[DONE]')
  t.false(events.some(({ data }) => at(data, 'usage') !== undefined))
})

test('a stored response is continued by its id, on the double that has it', async (t) => {
  const [own, other] = await Promise.all([
    start(t, { engine: ENGINE }),
    start(t, { engine: ENGINE }),
  ])
  const first = await post(own.double, responses.path, responses.first('hi'), TOOL_HEADERS)
  await own.nextEnd()
  const id = String(at(first.body, 'id'))
  const answer = responses.spoken(first.body)
  const output = { type: 'function_call_output', call_id: answer.calls[0]?.id, output: 'a.txt' }
  const { tools, instructions } = responses.first('')
  const next: Json = { tools, instructions, previous_response_id: id, input: [output] }
  const second = await post(own.double, responses.path, { ...next, store: false })
  t.is(second.status, 200, JSON.stringify(second.body))
  const [prompt, cached] = responses.usage(at(first.body, 'usage'))
  t.true(responses.usage(at(second.body, 'usage'))[1] > Math.max(prompt, cached))

  const lost = await post(other.double, responses.path, next)
  t.is(lost.status, 400)
  t.is(at(lost.body, 'error', 'code'), 'previous_response_not_found')
  const read = async (url: string) => {
    const response = await fetch(url)
    return [response.status, at(await response.json(), 'id')]
  }
  t.deepEqual(await read(`${own.double.url}/v1/responses/${id}`), [200, id])
  t.deepEqual(await read(`${other.double.url}/v1/responses/${id}`), [404, undefined])
  const unstored = at(second.body, 'id')
  t.deepEqual(await read(`${own.double.url}/v1/responses/${unstored}`), [404, undefined])
})

test('the metrics have the names and labels of the recorded engine', async (t) => {
  const { double } = await start(t, { model: 'tiny' })
  const body = chat.first('hi there, how are you today?'.repeat(20), { model: 'tiny' })
  await post(double, chat.path, body, TOOL_HEADERS)
  await post(double, chat.path, { ...body, max_tokens: 3 })
  const ours = await (await fetch(`${double.url}/metrics`)).text()
  const recorded = fixture('engine-captures', 'vllm-0.32.0-http-metrics.txt.gz')
  const types = (text: string) =>
    [...text.matchAll(/^# TYPE (\S+ \S+)$/gm)].map((match) => match[1])
  t.true(types(ours).length >= 14)
  t.deepEqual(
    types(ours).filter((type) => !types(recorded).includes(type)),
    [],
  )
  const value = (name: string) =>
    Number(
      ours
        .split('\n')
        .find((line) => line.startsWith(name))
        ?.split(' ')
        .at(-1),
    )
  const { engine } = double.status()
  t.is(value('vllm:prompt_tokens_total'), engine.queryTokens)
  t.is(value('vllm:prefix_cache_hits_total'), engine.hitTokens)
  t.true(engine.hitTokens > 0)
  t.is(value('vllm:request_success_total{engine="0",model_name="tiny",finished_reason="stop"}'), 1)
  t.is(
    value('vllm:request_success_total{engine="0",model_name="tiny",finished_reason="length"}'),
    1,
  )
  t.is(value('vllm:time_to_first_token_seconds_count'), 2)
  t.is(value('vllm:num_requests_running'), 0)
})

test('the usage objects have the fields of the recorded engine', async (t) => {
  const { double } = await start(t)
  const recorded = (name: string) => at(JSON.parse(fixture('engine-captures', name)), 'usage')
  const files = [
    [chat, 'vllm-0.32.0-http-02-repeat.json.gz'],
    [messages, 'vllm-0.32.0-http-21-anthropic.json.gz'],
    [responses, 'vllm-0.32.0-http-20-responses.json.gz'],
  ] as const
  for (const [client, name] of files) {
    const { body } = await post(double, client.path, client.first('hi'))
    const fields = (value: unknown) => Object.keys(value ?? {})
    const theirs = recorded(name)
    t.deepEqual(fields(at(body, 'usage')).toSorted(), fields(theirs).toSorted())
    t.true(client.usage(theirs).every(Number.isInteger), name)
  }
})

test('requests recorded from real clients are read, and their next turns found', async (t) => {
  for (const name of ['claude-code', 'codex', 'opencode']) {
    const issuer = new IssuerRegistry()
    const { double, nextEnd } = await start(t, { issuer, engine: ENGINE })
    const recorded = JSON.parse(fixture('client-captures', `${name}.json.gz`)) as {
      url: string
      body: Json
    }[]
    for (const id of JSON.stringify(recorded).matchAll(
      /"(?:tool_use_id|tool_call_id|call_id)":"([^"]+)"/g,
    )) {
      issuer.add(id[1] ?? '')
    }
    const shares: number[] = []
    for (const { url, body } of recorded) {
      t.is((await post(double, url, body)).status, 200)
      const end = await nextEnd()
      shares.push(end.cachedTokens / end.promptTokens)
    }
    t.is(shares[0], 0)
    t.true(Math.max(...shares) > 0.5, `${name}: ${shares.map((s) => s.toFixed(2))}`)
  }
})

test('what it cannot read is refused', async (t) => {
  const { double } = await start(t, {
    bodyBytes: 2000,
    model: 'tiny',
    engine: { numGpuBlocks: 10 },
  })
  const refusals: [string, unknown, number][] = [
    [chat.path, '{"messages":', 400],
    [chat.path, '[]', 400],
    [chat.path, {}, 400],
    [chat.path, { messages: [{ role: 'nobody', content: 'x' }] }, 400],
    [chat.path, { messages: [{ role: 'user', content: 'x'.repeat(3000) }] }, 413],
    [chat.path, chat.first('hi', { model: 'other' }), 404],
    [messages.path, { messages: [{ role: 'user', content: 'x' }] }, 400],
    [messages.path, { max_tokens: 1, messages: [] }, 400],
    [responses.path, { input: [] }, 400],
    ['/v1/other', {}, 404],
  ]
  for (const [path, body, status] of refusals) {
    const answer = await post(double, path, body)
    t.is(answer.status, status, JSON.stringify(body))
    t.truthy(at(answer.body, 'error', 'message'))
  }
  t.is(double.status().engine.ended, 0)
})

test('a prompt larger than the cache is refused, one that outgrows it is cut', async (t) => {
  const { double } = await start(t, { engine: { blockSize: 4, numGpuBlocks: 20 } })
  const ask = (words: number) => ({ messages: [{ role: 'user', content: 'abcd'.repeat(words) }] })
  const long = await post(double, chat.path, ask(100))
  t.is(long.status, 400)
  t.regex(String(chat.error(long.body)), /maximum context length is 80 tokens/)
  const cut = await post(double, chat.path, ask(60), { 'x-double-output-tokens': '50' })
  t.is(cut.status, 200)
  t.is(at(cut.body, 'choices', 0, 'finish_reason'), 'length')
  t.is(chat.spoken(cut.body).text.length, 4 * Number(at(cut.body, 'usage', 'completion_tokens')))
})

test('a script decides the answer', async (t) => {
  const { double } = await start(t, {
    model: 'tiny',
    script: ({ tools, dialect, promptTokens }) => ({
      textTokens: 0,
      toolCalls: tools.map((name) => ({ name, arguments: { dialect, promptTokens } })),
    }),
  })
  for (const client of CLIENTS) {
    const { body } = await post(double, client.path, client.first('hi'))
    const { text, calls } = client.spoken(body)
    t.is(text, '')
    t.is(calls[0]?.name, 'ls')
    t.is(
      at(JSON.parse(calls[0]?.arguments ?? ''), 'promptTokens'),
      client.usage(at(body, 'usage'))[0],
    )
  }
})

test('it can be asked what it is', async (t) => {
  const { double } = await start(t, { model: 'tiny' })
  t.is((await fetch(`${double.url}/health`)).status, 200)
  const models = await (await fetch(`${double.url}/v1/models`)).json()
  t.is(at(models, 'data', 0, 'id'), 'tiny')
  const body = messages.first('count me', { model: 'tiny' })
  const counted = await post(double, '/v1/messages/count_tokens', body)
  const answered = await post(double, messages.path, body)
  t.is(at(counted.body, 'input_tokens'), messages.usage(at(answered.body, 'usage'))[0])
})

test('closing it leaves nothing that keeps the process alive', async (t) => {
  const script = `
    const { startEngineDouble } = require('./src/testing/index.ts')
    startEngineDouble().then(async (double) => {
      double.fail('stall')
      const body = JSON.stringify({ messages: [{ role: 'user', content: 'hi' }] })
      const send = () => fetch(double.url + '/v1/chat/completions', {
        method: 'POST', body, headers: { 'x-double-output-tokens': '100000' } }).catch(() => 'broken')
      const [stalled, running] = [send(), send()]
      setTimeout(async () => {
        await double.close()
        console.log(await stalled, await running)
      }, 200)
    })`
  const node = ['--import=tsx', '-e', script]
  const { stdout } = await promisify(execFile)(process.execPath, node, { timeout: 60_000 })
  t.is(stdout.trim(), 'broken broken')
})
