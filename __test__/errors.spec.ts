import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import test from 'ava'
import { ERROR_CODES, fromNative, isErrorCode, WarmpathError } from '../src/errors.js'

const rows = readFileSync(join(__dirname, '../docs/errors.md'), 'utf8')
  .split('\n')
  .filter((line) => line.startsWith('| `WARMPATH_'))
  .map((line) => line.split('|').map((cell) => cell.trim()))

test('the table of the docs has each code once, with its status and something to do', (t) => {
  t.deepEqual(
    rows.map((row) => row[1]?.replaceAll('`', '')).sort(),
    [...ERROR_CODES].sort() as (string | undefined)[],
  )
  for (const [, cell, status, when, remedy] of rows) {
    const code = cell?.replaceAll('`', '')
    t.true(isErrorCode(code))
    if (isErrorCode(code)) t.is(new WarmpathError(code, 'm').status, Number(status), code)
    t.true((when?.length ?? 0) > 10 && (remedy?.length ?? 0) > 5, code)
  }
})

test('an error carries its code, status, cause and delay', (t) => {
  const cause = new Error('why')
  const error = new WarmpathError('WARMPATH_HOLD_LIMIT', 'waited 30 s', {
    cause,
    detail: { waitedSeconds: 30 },
    retryAfterSeconds: 5,
  })
  t.true(error instanceof Error)
  t.is(error.name, 'WarmpathError')
  t.is(error.code, 'WARMPATH_HOLD_LIMIT')
  t.is(error.status, 503)
  t.is(error.cause, cause)
  t.is(error.retryAfterSeconds, 5)
  t.deepEqual(error.detail, { waitedSeconds: 30 })
  t.is(new WarmpathError('WARMPATH_OWNER_UNAVAILABLE', 'gone', { status: 409 }).status, 409)
  t.false('retryAfterSeconds' in new WarmpathError('WARMPATH_CLOSED', 'm'))
})

test('two copies of the module recognise the errors of each other', (t) => {
  const load = createRequire(__filename)
  const path = load.resolve('../src/errors.ts')
  const cached = load.cache[path]
  delete load.cache[path]
  const copy = load(path) as typeof import('../src/errors.js')
  if (cached !== undefined) load.cache[path] = cached
  const theirs = new copy.WarmpathError('WARMPATH_CLOSED', 'm')
  t.not(copy.WarmpathError, WarmpathError)
  t.false(theirs instanceof WarmpathError)
  t.true(WarmpathError.is(theirs))
  t.is(fromNative(theirs), theirs)
  for (const other of [new Error('m'), { code: 'WARMPATH_CLOSED' }, null, undefined, 'text', 7]) {
    t.false(WarmpathError.is(other))
  }
})

test('native errors keep a known code and are never lost', (t) => {
  const native = (code: unknown) => fromNative(Object.assign(new Error('text'), { code }))
  t.is(native('WARMPATH_UNKNOWN_ID').code, 'WARMPATH_UNKNOWN_ID')
  t.is(native('WARMPATH_UNKNOWN_ID').message, 'text')
  t.is(native('StringExpected').code, 'WARMPATH_INVALID_ARGUMENT')
  t.is(native('InvalidArg').code, 'WARMPATH_INVALID_ARGUMENT')
  t.is(native('GenericFailure').code, 'WARMPATH_PANIC')
  t.is(native('toString').code, 'WARMPATH_PANIC')
  t.is(native(undefined).code, 'WARMPATH_PANIC')
  t.is(fromNative('thrown text').message, 'thrown text')
  t.is(fromNative(null).code, 'WARMPATH_PANIC')
  const original = Object.assign(new Error('text'), { code: 'WARMPATH_PANIC' })
  t.is(fromNative(original).cause, original)
})
