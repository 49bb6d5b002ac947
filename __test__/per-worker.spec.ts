/** What is kept of each worker goes with it. */
import test from 'ava'
import { PerWorker } from '../src/link/per-worker.js'
import { Topology } from '../src/link/topology.js'

/** Workers by name, in the order of their numbers; `-` before one says that it has been removed. */
function topology(...names: string[]): Topology {
  const workers = names.map((name) => ({
    name: name.replace('-', ''),
    group: 0,
    detail: '{}',
    health: name.startsWith('-') ? 'removed' : 'up',
  }))
  return new Topology(JSON.stringify({ epoch: 0, targets: [], workers }))
}

test('what is kept of a worker stays as long as it is one', (t) => {
  let made = 0
  const kept = new PerWorker(() => {
    made += 1
    return { made }
  })
  const before = topology('a', 'b')
  const of = (fleet: Topology, name: string) => kept.of(fleet, fleet.workerById(name))
  const [a, b] = [of(before, 'a'), of(before, 'b')]
  t.is(of(before, 'a'), a)
  // One goes, and another comes under its name.
  const after = topology('-a', 'b', 'a')
  t.is(of(after, 'b'), b)
  t.is(kept.size, 1)
  const again = of(after, 'a')
  t.not(again, a)
  t.deepEqual([made, kept.size], [3, 2])
  // However often the fleet changes.
  for (let n = 0; n < 100; n += 1) {
    const names = Array.from({ length: n }, () => '-a')
    const changed = topology(...names, 'a')
    of(changed, 'a')
    t.is(kept.size, 1)
  }
})
