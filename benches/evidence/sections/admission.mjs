/** What admission is worth on long contexts: `lease` beside no gate and beside ThunderAgent's controller. */
import { harnessRows } from '../harness.mjs'
import { publicTrace } from '../shared.mjs'

const SEEDS = '1, 2, 3'

function part(name) {
  return ({ claim, skip }) => {
    const sessions = publicTrace('claude-code-sessions')
    if (sessions === undefined) return skip(name, 'the sessions are not here')
    for (const { text, ...row } of harnessRows('admission', (file) => [sessions, file, name])) {
      claim({ text, seed: SEEDS, row })
    }
  }
}

export default {
  title: 'Go now, or wait',
  about:
    'Recorded coding sessions as a closed population on four modelled engines of 2.2 M tokens; the pressure is the mean context of all live sessions over what the caches hold. Half an hour of warm-up, two hours measured, figures are means over the seeds. The shipped core decides, in Rust (`cargo run --release -p warmpath-sim --example admission`; needs cargo). Baselines run on engines that compute prompts as they come and on engines that compute the shortest first, and of each figure the better one counts. `lease` has engines that compute the shortest first and take its hints; in the part `blind` it has neither.',
  limits: [
    'Engines and their times are a model, one family of it; that an engine gives caches up in the order of hints was not tried on real ones. The part `blind` is what is left without.',
    'Shortest first lets the no-gate baseline make more tokens from short prompts while long ones starve, which its p99 and its fairness show; a ratio to its throughput alone says little.',
    'How leases follow the wait of the queue (three constants) was chosen on these sessions and seeds, at pressures 1 to 3; the settings were looked at once, afterwards.',
    'A closed population: sessions wait for their turns, and nobody comes because it goes well.',
    'Sessions 2.5 times as long: every prompt, answer and block times 2.5, a session ends before its first prompt of more than 600,000 tokens.',
    'The shared beginning of `shared-16k` is in every cache from the start and stays.',
  ],
  parts: {
    table: part('table'),
    patience: part('patience'),
    blind: part('blind'),
    calm: part('calm'),
    settings: part('settings'),
    large: part('large'),
  },
}
