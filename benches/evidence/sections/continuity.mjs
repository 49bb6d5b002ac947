/** Which model answers: the published policy digit for digit, and `lookahead` against the optimum. */
import { liveClaims } from '../continuity/live.mjs'
import { harnessRows } from '../harness.mjs'

/** The rows of the harness in Rust, which drives the policies and the scheduler that are shipped. */
function harness(part, { claim }) {
  const rows = harnessRows('matrix', (file) => [file, part])
  for (const row of rows) claim({ text: text(row.name), row: known(row) })
}

/** Without what the harness left open. */
function known(row) {
  return Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null))
}

/** A name as words. */
function text(name) {
  return name
    .replace(/^continuity\./, '')
    .replaceAll('.', ', ')
    .replaceAll('-', ' ')
}

export default {
  title: 'Which model answers',
  about:
    'The published experiment is generated again (21,600 turns, six scenarios) and played by the policies that are shipped, in Rust (`cargo run --release -p warmpath-sim --example matrix`; needs cargo). Peers are SAAR at the same bound, or each turn for itself. Regret is cost over that of a clairvoyant dynamic program. `adversary` plays families of sessions that tempt a router to break them against the scheduler that is shipped (same example); `live` drives engine doubles over HTTP through the gateway.',
  limits: [
    'The demand of the sessions is synthetic. That the middle model alone does better there than SAAR says how little its headline means.',
    'Quality is a number a grade; nothing was measured on answers.',
    'Lambda is searched for the rows with a bound, as a user with that bound would.',
    'Live: the doubles say what a script tells them; a task checks that the whole history reaches whoever answers, not that a model is able.',
  ],
  parts: {
    matrix: (context) => harness('matrix', context),
    adversary: (context) => harness('adversary', context),
    live: liveClaims,
  },
}
