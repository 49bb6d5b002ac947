/**
 * `count-tests.mjs LOG`: adds up what cargo's and ava's own closing lines say, and fails when
 * something has failed, or when a runner or a test on recorded material has not run at all. Tests on
 * public traces that are not on this machine are skipped by name and counted apart.
 */
import { readFileSync } from 'node:fs'

const log = readFileSync(process.argv[2], 'utf8')

/** The sum of the first group over all matches. */
function sum(pattern) {
  return [...log.matchAll(pattern)].reduce((total, match) => total + Number(match[1]), 0)
}

/** Tests that compare with recorded runs, as their runners name them. */
const RECORDED = [
  /Running tests\/hashing\.rs/,
  /Running tests\/selection\.rs/,
  /Running tests\/thunderagent\.rs/,
  /Running tests\/decisions\.rs/,
  /Running tests\/golden_engine\.rs/,
  /Running tests\/captures\.rs/,
  /✔ fixtures ›/,
  /✔ captures ›/,
  /✔ captures-turns ›/,
]

const rust = sum(/^test result: ok\. (\d+) passed/gm)
const node = sum(/^\s*(\d+) tests? passed/gm)
const failed = sum(/; (\d+) failed;/g) + sum(/^\s*(\d+) tests? failed/gm)
const skipped = sum(/; (\d+) ignored;/g) + sum(/^\s*(\d+) tests? skipped/gm)

const missing = RECORDED.filter((pattern) => !pattern.test(log)).map(String)
if (rust === 0) missing.push('the Rust tests')
if (node === 0) missing.push('the Node tests')
for (const each of missing) process.stderr.write(`did not run: ${each}\n`)

const extra = skipped > 0 ? `, ${skipped} skipped` : ''
process.stdout.write(`${rust + node} passed, ${failed + missing.length} failed${extra}\n`)
process.exit(failed + missing.length > 0 ? 1 : 0)
