import test from 'ava'
import { type Baseline, leastLoaded, roundRobin, startBaseline } from '../src/demo/baselines.js'
import { serve } from './support/http-worker.js'

/** Waits until that many requests are in flight; the test's timeout is the bound. */
async function inFlight(baseline: Baseline, count: number): Promise<void> {
  while (baseline.inFlight() !== count) await new Promise((resolve) => setTimeout(resolve, 2))
}

test('round robin takes the workers in turn, whatever is in flight', (t) => {
  const pick = roundRobin()
  t.deepEqual(
    Array.from({ length: 5 }, () => pick([9, 0, 0])),
    [0, 1, 2, 0, 1],
  )
})

test('least loaded takes the fewest in flight, ties in turn', (t) => {
  const pick = leastLoaded()
  t.is(pick([2, 1, 3]), 1)
  const ties = Array.from({ length: 6 }, () => pick([1, 1, 1]))
  t.deepEqual(new Set(ties).size, 3)
  t.is(pick([0, 5, 0, 5].map((n) => n + 1).with(3, 0)), 3)
})

test('a baseline passes method, path, headers, body, status and stream through', async (t) => {
  const url = await serve(t, async (req, res) => {
    let body = ''
    for await (const chunk of req) body += chunk
    res.writeHead(201, { 'x-seen': `${req.method} ${req.url} ${req.headers['x-session-id']}` })
    res.write('first ')
    setTimeout(() => res.end(body), 20)
  })
  const baseline = await startBaseline('round-robin', [url])
  t.teardown(() => baseline.close())
  const answer = await fetch(`${baseline.url}/v1/x?y=1`, {
    method: 'POST',
    headers: { 'x-session-id': 's1' },
    body: 'hello',
  })
  t.is(answer.status, 201)
  t.is(answer.headers.get('x-seen'), 'POST /v1/x?y=1 s1')
  t.is(await answer.text(), 'first hello')
  await inFlight(baseline, 0)
})

test('the least loaded of two takes what a stuck one does not get', async (t) => {
  const served = [0, 0]
  const stuck = await serve(t, () => {
    served[0] = (served[0] ?? 0) + 1
  })
  const quick = await serve(t, (_, res) => {
    served[1] = (served[1] ?? 0) + 1
    res.end('ok')
  })
  const baseline = await startBaseline('least-loaded', [stuck, quick])
  t.teardown(() => baseline.close())
  const gone = new AbortController()
  const hanging = t.throwsAsync(fetch(baseline.url, { signal: gone.signal }), { any: true })
  await inFlight(baseline, 1)
  for (let i = 0; i < 4; i++) {
    t.is(await (await fetch(baseline.url)).text(), 'ok')
    await inFlight(baseline, 1)
  }
  t.deepEqual(served, [1, 4])
  gone.abort()
  await hanging
  await inFlight(baseline, 0)
})

test('a worker that is not there is a 502; one that dies half way cuts the answer', async (t) => {
  const dead = await startBaseline('round-robin', ['http://127.0.0.1:1'])
  t.teardown(() => dead.close())
  t.is((await fetch(dead.url)).status, 502)
  const cutting = await serve(t, (_, res) => {
    res.write('half')
    setTimeout(() => res.destroy(), 20)
  })
  const baseline = await startBaseline('round-robin', [cutting])
  t.teardown(() => baseline.close())
  const answer = await fetch(baseline.url)
  await t.throwsAsync(answer.text())
  await inFlight(baseline, 0)
})
