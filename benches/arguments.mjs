/** Arguments of a bench: `--help` shows the text and ends with 0, what is wrong is one line and ends with 2. */
import { parseArgs } from 'node:util'

/** The values of this process's arguments. */
export function readArguments(options, help) {
  const all = { ...options, help: { type: 'boolean', default: false } }
  const values = parsed(all)
  if (values.help) {
    process.stdout.write(`${help}\n`)
    process.exit(0)
  }
  return values
}

/** Ends the process: the call is wrong. */
export function refuseUsage(message) {
  process.stderr.write(`${message}\n`)
  process.exit(2)
}

/** A whole number of at least 1. */
export function count(values, name) {
  if (/^[1-9]\d{0,8}$/.test(values[name])) return Number(values[name])
  return refuseUsage(`--${name} must be a whole number from 1, not "${values[name]}"`)
}

function parsed(options) {
  try {
    return parseArgs({ options }).values
  } catch (error) {
    return refuseUsage(`${error.message.split('\n', 1)[0]} (see --help)`)
  }
}
