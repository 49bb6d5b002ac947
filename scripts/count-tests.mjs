/**
 * `count-tests.mjs LOG`: adds up what cargo's and ava's own closing lines say, and fails when a
 * runner is missing or anything has failed. Tests on public traces that are not on this machine are
 * skipped by name and counted apart.
 */
import { readFileSync } from 'node:fs'

const log = readFileSync(process.argv[2], 'utf8')

/** The sum of the first group over all matches. */
function sum(pattern) {
  return [...log.matchAll(pattern)].reduce((total, match) => total + Number(match[1]), 0)
}

const rust = sum(/^test result: ok\. (\d+) passed/gm)
const node = sum(/^\s*(\d+) tests? passed/gm)
const failed = sum(/(\d+) failed/g) + sum(/^\s*(\d+) tests? failed/gm)
const skipped = sum(/^\s*(\d+) tests? skipped/gm)

if (rust === 0 || node === 0) {
  process.stderr.write(`a runner is missing: ${rust} Rust tests, ${node} Node tests\n`)
  process.exit(1)
}
const extra = skipped > 0 ? `, ${skipped} skipped` : ''
process.stdout.write(`${rust + node} passed, ${failed} failed${extra}\n`)
process.exit(failed > 0 ? 1 : 0)
