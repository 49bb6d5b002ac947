#!/usr/bin/env node
/**
 * `warmpath`: what the end of a command means to a shell.
 *
 * An error becomes one line on standard error and an exit code: 2 when the call or the configuration
 * is wrong, so that a supervisor need not try again, 1 for everything else. The commands are imported
 * late, so that this also holds for a Node that is too old for them and for a missing binary.
 */
import { WarmpathError } from '../errors.js'

const EXIT_FAILED = 1
const EXIT_USAGE = 2

/** The exit code of what a command threw; says what it was. */
function exitCode(error: unknown): number {
  if (isCommanderError(error)) return error.exitCode === 0 ? 0 : EXIT_USAGE
  if (!WarmpathError.is(error)) {
    process.stderr.write(`warmpath: ${error instanceof Error ? error.stack : String(error)}\n`)
    return EXIT_FAILED
  }
  process.stderr.write(`warmpath: ${error.message} [${error.code}]\n`)
  return error.code === 'WARMPATH_CONFIG' ? EXIT_USAGE : EXIT_FAILED
}

/** One that commander has written already; its class may not be there to ask. */
function isCommanderError(error: unknown): error is { exitCode: number } {
  const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : undefined
  return typeof code === 'string' && code.startsWith('commander.')
}

/**
 * Who reads the output may stop reading, as `head` does: then the command ends as it would have,
 * unheard. Any other error is the command's, if nobody else looks after the stream.
 */
function endQuietly(stream: NodeJS.WriteStream): void {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE' && stream.listenerCount('error') === 1) throw error
  })
}

endQuietly(process.stdout)
endQuietly(process.stderr)
try {
  // Alone and first: where several modules import what fails, each has a rejection of its own.
  await import('../index.js')
  const { run } = await import('./program.mjs')
  await run()
} catch (error) {
  process.exitCode = exitCode(error)
}
