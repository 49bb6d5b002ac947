#!/usr/bin/env node
/**
 * `warmpath`: the commands, and what their end means to a shell.
 *
 * Each command is a module that makes one commander Command; this file only lists them and turns an
 * error into one line on standard error and an exit code: 2 when the call or the configuration is
 * wrong, so that a supervisor need not try again, 1 for everything else.
 */
import { createRequire } from 'node:module'
import { Command, CommanderError } from 'commander'
import { WarmpathError } from '../index.js'
import { convertCommand } from './convert.mjs'
import { demoCommand } from './demo.mjs'
import { explainCommand } from './explain.mjs'
import { replayCommand } from './replay.mjs'
import { serveCommand } from './serve.mjs'
import { statusCommand } from './status.mjs'

const EXIT_FAILED = 1
const EXIT_USAGE = 2

function readVersion(): string {
  const manifest = createRequire(import.meta.url)('../../package.json') as { version: string }
  return manifest.version
}

function program(): Command {
  const root = new Command('warmpath')
    .description('Decides where the next turn of an agent session runs.')
    .version(readVersion())
  const commands = [
    demoCommand(),
    serveCommand(),
    statusCommand(),
    explainCommand(),
    replayCommand(),
    convertCommand(),
  ]
  for (const command of commands) {
    root.addCommand(command.exitOverride())
  }
  return root.exitOverride()
}

/** The exit code of what a command threw; says what it was. */
function exitCode(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT_USAGE
  if (!WarmpathError.is(error)) {
    process.stderr.write(`warmpath: ${error instanceof Error ? error.stack : String(error)}\n`)
    return EXIT_FAILED
  }
  process.stderr.write(`warmpath: ${error.message} [${error.code}]\n`)
  return error.code === 'WARMPATH_CONFIG' ? EXIT_USAGE : EXIT_FAILED
}

try {
  await program().parseAsync()
} catch (error) {
  process.exitCode = exitCode(error)
}
