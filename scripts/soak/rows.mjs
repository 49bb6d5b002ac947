/** What a soak of the gateway comes to: figures, and whether they hold. */

/** The share of all streams that must be there at any look: those that leave are replaced. */
const FULL = 0.95
/** Memory in use at the last look, of that at the first one under full load. */
const STEADY = 1.1
/** The share of slow readers that the worker waits for at some look. */
const SLOWED = 0.5

/** `samples` are looks at full load, in their order. */
export function rowsOf({ streams, samples, before, after, left, seen }) {
  const [first, last] = [samples[0], samples.at(-1)]
  const least = Math.min(...samples.map(({ live }) => live))
  const waiting = Math.max(...samples.map((sample) => sample.waiting))
  return [
    atLeast('streams_at_once', least, FULL * streams, 'streams, at the look with the fewest'),
    atLeast('clients_left_inside', seen.leftInside, 1, 'streams that others took the place of'),
    atLeast('readers_slow', waiting, SLOWED * seen.slow, 'streams that the worker waited for'),
    atMost('streams_broken', seen.broken, 0, 'streams'),
    atMost('answers_not_200', seen.refused, 0, 'answers'),
    figure('in_use_before', before.inUseMiB, 'MiB'),
    figure('in_use_at_load_first', first.inUseMiB, 'MiB'),
    atMost('in_use_at_load_last', last.inUseMiB, Math.ceil(STEADY * first.inUseMiB), 'MiB'),
    atMost('in_use_after', after.inUseMiB, Math.ceil(2 * before.inUseMiB), 'MiB'),
    figure('resident_at_load_most', Math.max(...samples.map(({ rssMiB }) => rssMiB)), 'MiB'),
    atMost('left_reserved', left.reserved, 0, 'turns'),
    atMost('left_at_worker', left.atWorker, 0, 'streams'),
    figure('descriptors_before', before.descriptors, 'descriptors'),
    figure('descriptors_at_load', last.descriptors, 'descriptors'),
    atMost('descriptors_after', after.descriptors, before.descriptors, 'descriptors'),
  ]
}

function figure(name, value, unit) {
  return { name: `soak.gateway.${name}`, value, unit }
}

function atMost(name, value, limit, unit) {
  return { ...figure(name, value, unit), goal: `<= ${limit}`, holds: value <= limit }
}

function atLeast(name, value, limit, unit) {
  return { ...figure(name, value, unit), goal: `>= ${limit}`, holds: value >= limit }
}
