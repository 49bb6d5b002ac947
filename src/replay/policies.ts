/**
 * Which policies can be compared, and how is one named?
 *
 * `round-robin` and `least-loaded` are what load balancers do; `kv` is Warmpath's choice of a worker
 * without admission (`none` is another name for it). Every other name is a scheduler's admission
 * policy, with options if wanted: `lease:theta=0.35`. What the core does not have it refuses by name.
 */
import type { Scenario } from '../workload.js'

interface Policy {
  label: string
  policy: Scenario['policy']
}

const BALANCERS = ['round-robin', 'least-loaded'] as const

/** Throws a RangeError for what is no name. */
function policies(text: string): Policy[] {
  const found = text.split(',').map((name) => policy(name.trim()))
  const labels = new Map(found.map((each) => [each.label, each]))
  return [...labels.values()]
}

function policy(text: string): Policy {
  const [name = '', ...options] = text.split(':')
  if (!/^[a-z][a-z0-9-]*$/.test(name)) throw new RangeError(`"${text}" is no name of a policy`)
  const balancer = BALANCERS.find((each) => each === name)
  if (balancer !== undefined && options.length === 0) return { label: name, policy: balancer }
  if (name === 'kv' || name === 'none') return { label: 'kv', policy: { core: { policy: 'none' } } }
  const settings = Object.fromEntries(options.map(option))
  return { label: text, policy: { core: { policy: name, ...settings } } }
}

function option(text: string): [string, unknown] {
  const found = /^(\w+)=([\w.]+)$/.exec(text)
  if (found === null) throw new RangeError(`"${text}" is no option: they are NAME=VALUE`)
  const [, name = '', value = ''] = found
  return [name, /^\d+(\.\d+)?$/.test(value) ? Number(value) : value]
}

export { type Policy, policies }
