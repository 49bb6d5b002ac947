/** `npm start`: builds what is missing, then runs the demo. Arguments go to the demo as they are. */
import { spawnSync } from 'node:child_process'
import { build, COMMAND_LINE } from './build.mjs'

build()
const { status } = spawnSync(process.execPath, [COMMAND_LINE, 'demo', ...process.argv.slice(2)], {
  stdio: 'inherit',
})
process.exit(status ?? 1)
