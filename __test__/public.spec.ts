import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'

/** Names in the export lists of a file, types marked as such. */
function names(file: string): string[] {
  const text = readFileSync(join(__dirname, '../src', file), 'utf8')
  const lists = [...text.matchAll(/export (type )?\{([^}]*)\}/g)]
  return lists
    .flatMap(([, type = '', list = '']) =>
      list
        .split(',')
        .map((name) => name.trim())
        .filter((name) => name !== '')
        .map((name) => type + name),
    )
    .sort()
}

test('import and require give the same names', (t) => {
  t.true(names('index.ts').includes('Scheduler'))
  t.deepEqual(names('index.mts'), names('index.ts'))
})
