/**
 * `warmpath status`: the fleet as a running gateway sees it, as a table or as JSON.
 */
import { Command } from 'commander'
import type { Status } from '../index.js'
import { ask, DEFAULT_URL } from './ask.mjs'
import { renderStatus } from './render.js'

interface StatusOptions {
  url: string
  json?: true
}

function statusCommand(): Command {
  return new Command('status')
    .description('show workers, load, sessions and holds of a running gateway')
    .option('-u, --url <url>', 'address of the gateway', DEFAULT_URL)
    .option('--json', 'the status as it is, as JSON')
    .action(status)
}

async function status({ url, json }: StatusOptions): Promise<void> {
  const value = (await ask(url, '/status', ['workers', 'reservations', 'counters'])) as Status
  process.stdout.write(json ? `${JSON.stringify(value, null, 2)}\n` : renderStatus(value))
}

export { statusCommand }
