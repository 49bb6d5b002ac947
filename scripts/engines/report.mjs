/** Rows and the page of a run against real engines. */

import { readFileSync } from 'node:fs'
import { platform, release } from 'node:os'
import { join } from 'node:path'

const row = (name, value, unit, [goal, holds] = []) => ({
  name: `engines.${name}`,
  value,
  unit,
  ...(goal !== undefined && { goal, holds }),
})
const round = (value, digits = 4) => Number(value.toFixed(digits))
const atLeast = (least, value) => [`at least ${least}`, value >= least]
const none = (value) => ['0', value === 0]

function agreement(name, { judged, share, unexplained, overPromises, otherLengths }) {
  return [
    row(`${name}.turns_judged`, judged, 'turns', atLeast(1, judged)),
    row(`${name}.right_to_the_block`, round(share), 'share'),
    row(`${name}.unexplained`, unexplained, 'turns', none(unexplained)),
    row(`${name}.over_promises`, overPromises, 'turns', none(overPromises)),
    row(`${name}.other_prompt_length`, otherLengths, 'turns', none(otherLengths)),
  ]
}

export function rowsOf(found) {
  const { alone, together, pressed, reset, lost, killed, policies, answers, minutes } = found

  const all = {
    judged: alone.judged + together.judged + pressed.judged,
    right: alone.right + together.right + pressed.right,
  }
  const { exact, predicted, 'round robin': turns } = policies
  const first = reset.records[0]
  const sum = (of) => found.probes.reduce((sum, each) => sum + of(each), 0)
  const [told, expected] = [sum((each) => each.toldTokens), sum((each) => each.expectedTokens)]
  const failed = sum(({ error, renderer }) => Number(error !== null || renderer?.says !== 'same'))
  return [
    row('probe.tokens_told', told, 'tokens', [`${expected}`, told === expected && told > 0]),
    row('probe.failed_or_rendered_otherwise', failed, 'engines', none(failed)),
    ...agreement('alone', alone),
    row('alone.both_engines', alone.workers.length, 'engines', atLeast(2, alone.workers.length)),
    ...agreement('together', together),
    ...agreement('pressed', pressed),
    row(
      'right_to_the_block',
      round(all.right / Math.max(1, all.judged)),
      'share',
      atLeast(0.99, all.right / Math.max(1, all.judged)),
    ),
    row('reset.credit_before', reset.before, 'tokens', atLeast(32, reset.before)),
    row('reset.credit_after', reset.after, 'tokens', none(reset.after)),
    row('reset.next_turn_cached', first.cachedTokens, 'tokens'),
    row('reset.over_promises', reset.again.overPromises, 'turns', none(reset.again.overPromises)),
    row('lost.messages', lost.lost, 'messages', atLeast(1, lost.lost)),
    row('lost.replays', lost.replays, 'replays', atLeast(1, lost.replays)),
    row('lost.exact_again', lost.recovered, 'ms'),
    row('lost.unexplained', lost.after.unexplained, 'turns', none(lost.after.unexplained)),
    row('killed.credit_before', killed.before, 'tokens', atLeast(32, killed.before)),
    row('killed.credit_gone', killed.voided, 'ms'),
    row(
      'killed.session_elsewhere',
      Number(killed.wentElsewhere),
      'turns',
      atLeast(1, Number(killed.wentElsewhere)),
    ),
    row('killed.credit_after_restart', killed.empty, 'tokens', none(killed.empty)),
    row('killed.turns_after_restart', killed.turnsThere, 'turns', atLeast(1, killed.turnsThere)),
    row('killed.unexplained', killed.after.unexplained, 'turns', none(killed.after.unexplained)),
    row('hit_rate.exact', round(exact.hitRate), 'share', [
      'more than round robin',
      exact.hitRate > turns.hitRate,
    ]),
    row('hit_rate.answers', round(policies.answers.hitRate), 'share'),
    row('hit_rate.predicted', round(predicted.hitRate), 'share'),
    row('hit_rate.round_robin', round(turns.hitRate), 'share'),
    row('answers.turns_known', round(answers.share), 'share', atLeast(0.3, answers.share)),
    row('answers.tokens_known', round(answers.exactShare), 'share'),
    row('answers.cached_foreseen', round(answers.foreseen), 'share'),
    row('answers.removed_meanwhile', answers.removedMeanwhile, 'turns'),
    row('answers.over_promises', answers.overPromises, 'turns', none(answers.overPromises)),
    row('answers.tokens_shown', answers.shown, 'turns', none(answers.shown)),
    row('minutes', round(minutes, 1), 'min', ['less than 30', minutes < 30]),
  ]
}

function tableOf(head, lines) {
  const cells = [head, ...lines].map((line) => line.map(String))
  const widths = head.map((_, at) => Math.max(3, ...cells.map((line) => line[at].length)))
  const text = (line) => `| ${line.map((cell, at) => cell.padEnd(widths[at])).join(' | ')} |`
  return [
    text(cells[0]),
    `| ${widths.map((w) => '-'.repeat(w)).join(' | ')} |`,
    ...cells.slice(1).map(text),
  ].join('\n')
}

const percent = (share) => `${(100 * share).toFixed(1)} %`
const countsOf = ({ counts }) =>
  Object.entries(counts)
    .map(([verdict, count]) => `${verdict} ${count}`)
    .join(', ')

export function page(found) {
  const { versions, blocks, startSeconds, load, alone, together } = found
  const { reset, lost, killed, policies, answers } = found
  const own = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8'))
  const agreementLines = [
    ['one turn at a time', alone],
    ['four at a time', together],
    ['three at a time, full caches', found.pressed],
  ].map(([name, part]) => [name, part.turns, countsOf(part), part.overPromises, part.otherLengths])
  const rates = Object.entries(policies).map(([name, { hitRate, turns }]) => [
    name,
    percent(hitRate),
    turns,
  ])
  const broken = [
    [
      `the cache of an engine is reset, and the gateway told`,
      `credit of ${reset.before} tokens before, ${reset.after} in the next decision; the engine then reported ${reset.records[0].cachedTokens} cached; later turns: ${countsOf(reset.again)}`,
    ],
    [
      `${lost.lost} messages lost on the way`,
      `noticed with the next one, ${lost.replays} replay, exact again after ${lost.recovered} ms; later turns: ${countsOf(lost.after)}`,
    ],
    [
      `an engine killed (SIGKILL) and started again`,
      `credit of ${killed.before} tokens gone within ${killed.voided} ms; its session went ${killed.wentElsewhere ? 'elsewhere' : 'to the dead engine'}; ${killed.empty} tokens counted after ${Math.round(killed.seconds)} s of restart; later turns: ${countsOf(killed.after)}`,
    ],
  ]
  return `# Real engines

\`\`\`
npm run test:engines -- --json engines.json
\`\`\`

Run on ${new Date().toISOString().slice(0, 10)}: Warmpath ${own.version}, Node ${process.version}, ${platform()} ${release().split('.').slice(0, 2).join('.')}, vLLM ${versions.join(' and ')} on CPU, each with ${blocks} blocks of 32 tokens, a model of random weights and a tokenizer made for it; by ${found.minutes.toFixed(1)} minutes, of which the engines took ${startSeconds.map((s) => Math.round(s)).join(' and ')} s to start. Load of the machine (2 cores, others on them): ${load.join('; ')}; times say little. This page is written by the run.

**What happens.** Generated agent sessions of at most 2,048 tokens, with tools, parallel calls, text that is not ASCII and streams, go through the gateway that \`warmpath serve\` starts. Tokens come from the engines (\`tokens: { from: 'engine' }\`: ${versions.join(' and ')} are asked in turn), capacities from their metrics (${found.capacities.join(' and ')} tokens). For each turn what the receipt predicted is compared with \`cached_tokens\` of the answer. A subscriber of its own writes down what the engines publish; a difference counts as explained only if the engine removed or stored blocks before it had answered, and said so after the decision. Messages came ${found.lags.map(([p50, p95, most]) => `${p50} ms (median), ${p95} (p95), ${most} (longest)`).join(' and ')} after they were made.

${tableOf(['turns', 'all', 'verdicts', 'over-promised without a reason', 'prompts of another length'], agreementLines)}

**Probes** (\`warmpath doctor --probe\`): ${found.probes.map((p) => p.error ?? `a prompt of ${p.promptTokens} tokens, of which ${p.toldTokens} of ${p.expectedTokens} were told of and ${p.renderer?.says === 'same' ? 'each rendered alike' : 'not all rendered alike'}`).join('; ')}.

${tableOf(['broken on purpose', 'what came of it'], broken)}

Three rounds of twelve sessions whose contexts fit into the two caches once and not twice, three turns at a time, caches emptied before each policy; cached share of all prompt tokens by the engines' own word:

${tableOf(['policy', 'cached', 'turns'], rates)}

**Tokens from answers** (\`tokens: { from: 'answers' }\`, the row \`answers\` above): ${answers.known} of ${answers.turns} turns were known by the tokens of earlier ones (the others had none, or not two that prove it), by ${percent(answers.exactShare)} of their prompts; what was believed was ${percent(answers.foreseen)} of what the engines then had, which is more by the last answer. Of ${answers.known} promises ${answers.overPromises} were too high without a reason, ${answers.removedMeanwhile} because the engine removed blocks meanwhile; ${answers.shown} answers showed the client tokens that it had not asked for.

**What it does not cover.** Tiers beyond the device, adapters, several ranks, several cache groups and any engine but vLLM: these need a GPU. Their messages are in the recorded captures that the tests replay, or made by the engines' own encoders.
`
}
