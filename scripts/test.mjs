/**
 * `npm test`: builds what is missing, then runs the Rust tests and the Node tests. Arguments go to
 * ava: `npm test -- __test__/turn.spec.ts` runs one spec, without the Rust tests.
 */
import { build, run } from './build.mjs'

build()
const specs = process.argv.slice(2)
if (specs.length === 0) {
  const args = ['test', '--workspace', '--exclude', 'warmpath-node', '--locked']
  run('Rust tests', 'cargo', args)
}
run('Node tests', 'npx', ['ava', ...specs])
