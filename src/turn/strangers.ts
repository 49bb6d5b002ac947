/**
 * Question: does a turn lean on what somebody else may have stored?
 *
 * A provider keeps responses, conversations, items and containers for whoever owns the credential. Where
 * that is the gateway's own, all tenants are one account there, and only the gateway knows who was given
 * what: a tenant may use the ids that its own turns were answered with. Sealed reasoning stands in the
 * request itself and is nobody else's to read; files are put there by other ways than turns.
 *
 * One look-up an id, for turns that lean on stored state only; O(workers) where one of them is strange.
 */
import { WarmpathError } from '../errors.js'
import { hasOwnCredential } from '../forward/index.js'
import type { Topology } from '../link/topology.js'
import type { OwnerBook } from './portability.js'

const STORED = ['response:', 'conversation:', 'item:', 'container:']

/** Throws UNKNOWN_ID. `targets` are the names of those that may get the turn. */
export function refuseStrangers(
  state: readonly string[],
  targets: readonly string[],
  topology: Topology,
  owners: OwnerBook,
): void {
  const strange = state.find((id) => {
    return STORED.some((kind) => id.startsWith(kind)) && owners.state(id) === undefined
  })
  if (strange === undefined || targets.every((name) => isTheirs(name, topology))) return
  throw new WarmpathError(
    'WARMPATH_UNKNOWN_ID',
    `nothing that this tenant has been given here is called ${JSON.stringify(strange)}`,
  )
}

/** Whether it gets the client's own credential and no other, whichever worker it goes to. */
function isTheirs(target: string, topology: Topology): boolean {
  const { auth, group } = topology.targetByName(target)
  const isOurs = topology
    .workersOf(group)
    .some(({ headers }) => hasOwnCredential({ auth, worker: headers }))
  return auth.kind === 'pass-through' && !isOurs
}
