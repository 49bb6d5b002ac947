/** The page of `warmpath status`. */
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { renderStatus } from '../src/cli/render.js'
import { Scheduler } from '../src/index.js'
import { Teller } from './support/teller.js'

test('workers that tell of their caches are shown rank by rank, others are not', async (t) => {
  await using teller = await Teller.start(16)
  using s = new Scheduler({
    cache: { blockTokens: 16 },
    workers: [
      { id: 'told', url: 'http://a', kvEvents: teller.kvEvents },
      { id: 'dead', url: 'http://b', kvEvents: { endpoint: 'tcp://127.0.0.1:1', ranks: 2 } },
      { id: 'mute', url: 'http://c' },
    ],
  })
  const isExact = () => s.status().workers[0]?.evidence.trust === 'exact'
  while (!isExact()) await sleep(5)
  await teller.tell(Uint32Array.from({ length: 48 }, (_, at) => at))
  while ((s.status().workers[0]?.events?.cachedTokens ?? 0) === 0) await sleep(5)
  while (s.status().workers[1]?.events?.ranks[1]?.lastError === null) await sleep(5)
  const page = renderStatus(s.status())
  t.regex(page, /^events +rank +trust +stream +sequence +gaps +pending +cached +block$/m)
  t.regex(page, /^told +0 +exact +connected +\d+ +0 +0 +48 +16$/m)
  t.regex(page, /^dead +0 +predicted \(silent\) +\S.* - +0 +0 +0 +-$/m)
  t.regex(page, /^ +1 +\S.* - +0 +0$/m)
  t.notRegex(page, /^mute +0 +predicted/m)
})

test('where no worker tells there is no such table', (t) => {
  using s = new Scheduler({ workers: [{ id: 'mute', url: 'http://c' }] })
  t.notRegex(renderStatus(s.status()), /^events/m)
  const [worker] = s.status().workers
  const { events: _, ...older } = worker ?? t.fail()
  t.notRegex(renderStatus({ ...s.status(), workers: [older as never] }), /^events/m)
})
