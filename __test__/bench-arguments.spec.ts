/** Benches say how they are called, and in one line what is wrong with a call. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import test from 'ava'

const BENCHES = join(__dirname, '../benches')

function bench(file: string, ...args: string[]) {
  return spawnSync(process.execPath, [join(BENCHES, file), ...args], { encoding: 'utf8' })
}

for (const file of ['gateway.mjs', 'evidence/run.mjs']) {
  test(`${file}: help, and an option that is none`, (t) => {
    const help = bench(file, '--help')
    t.is(help.status, 0)
    t.regex(help.stdout, /^npm run .*\n\n {2}--/)
    const { status, stderr } = bench(file, '--nonsense')
    t.is(status, 2)
    t.regex(stderr, /^.*--nonsense.*\n$/)
  })
}

test('values that are none', (t) => {
  const rounds = bench('gateway.mjs', '--rounds', '-1')
  t.is(rounds.status, 2)
  const streams = bench('gateway.mjs', '--streams', 'many')
  t.is(streams.status, 2)
  t.is(streams.stderr, '--streams must be a whole number from 1, not "many"\n')
  const section = bench('evidence/run.mjs', '--only', 'nothing')
  t.is(section.status, 2)
  t.is(section.stderr, 'no section is called nothing; see --list\n')
})
