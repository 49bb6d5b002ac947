/**
 * The commands of `warmpath`. Each is a module that makes one commander Command; this file only
 * lists them.
 */
import { createRequire } from 'node:module'
import { Command } from 'commander'
import { convertCommand } from './convert.mjs'
import { demoCommand } from './demo.mjs'
import { doctorCommand } from './doctor.mjs'
import { explainCommand } from './explain.mjs'
import { replayCommand } from './replay.mjs'
import { serveCommand } from './serve.mjs'
import { statusCommand } from './status.mjs'

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
    doctorCommand(),
  ]
  for (const command of commands) {
    root.addCommand(command.exitOverride())
  }
  return root.exitOverride()
}

/** Runs the command of this process's arguments. Throws what the command throws. */
export async function run(): Promise<void> {
  await program().parseAsync()
}
