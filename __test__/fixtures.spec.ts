/**
 * What was recorded is there, whole and unchanged: clients, engines, and the golden runs that both
 * languages' tests compare with. A fixture that goes missing fails here by name.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import test from 'ava'

const folder = join(__dirname, 'fixtures')

const sums = readFileSync(join(folder, 'SHA256SUMS'), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => line.split('  ') as [sum: string, name: string])

test('every recorded file has the content that was recorded', (t) => {
  for (const [sum, name] of sums) {
    const content = gunzipSync(readFileSync(join(folder, `${name}.gz`)))
    t.is(createHash('sha256').update(content).digest('hex'), sum, name)
  }
})

test('every recorded file is listed', (t) => {
  const kinds = readdirSync(folder, { withFileTypes: true }).filter((each) => each.isDirectory())
  const found = kinds.flatMap(({ name }) =>
    readdirSync(join(folder, name))
      .filter((file) => file.endsWith('.gz'))
      .map((file) => `${name}/${file.replace(/\.gz$/, '')}`),
  )
  t.deepEqual(found.sort(), sums.map(([, name]) => name).sort())
  t.true(found.length > 30)
})
