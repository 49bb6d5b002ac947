/**
 * `warmpath explain`: why a turn went where it went, from the receipt that a running gateway keeps.
 */
import { Command } from 'commander'
import type { Receipt } from '../index.js'
import { ask, DEFAULT_URL } from './ask.mjs'
import { renderReceipt } from './render.js'

interface ExplainOptions {
  url: string
  json?: true
}

const WHERE = `
A receipt's id is in the answer header x-warmpath-receipt of every turn, and in the access log.
The newest ones are kept; how many is the scheduler's "limits.receipts".`

function explainCommand(): Command {
  return new Command('explain')
    .description('show why a turn went where it went')
    .argument('<receipt>', 'id of the receipt')
    .option('-u, --url <url>', 'address of the gateway', DEFAULT_URL)
    .option('--json', 'the receipt as it is, as JSON')
    .addHelpText('after', WHERE)
    .action(explain)
}

async function explain(id: string, { url, json }: ExplainOptions): Promise<void> {
  const path = `/receipts/${encodeURIComponent(id)}`
  const value = (await ask(url, path, ['id', 'candidates', 'prompt'])) as Receipt
  process.stdout.write(json ? `${JSON.stringify(value, null, 2)}\n` : renderReceipt(value))
}

export { explainCommand }
