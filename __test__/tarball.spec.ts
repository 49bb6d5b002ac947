/** What would be published, installed into an empty folder and used as a stranger would. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import test from 'ava'

test('the tarballs work in an empty folder, and say what is missing', async (t) => {
  t.timeout(600_000)
  const script = join(__dirname, '../scripts/tarball/check.mjs')
  const child = spawn(process.execPath, [script], { stdio: ['ignore', 'pipe', 'pipe'] })
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)])
  t.is(child.exitCode ?? (await new Promise((resolve) => child.on('exit', resolve))), 0, out + err)
  t.true(out.split('\n').filter((line) => line.startsWith('ok ')).length >= 8, out)
})
