/**
 * What a piece of a history is bound to: whoever made it may be the only one that can read it.
 *
 * One row for each kind of state that the dialects find in a request (the word before the colon in
 * `RequestFacts.state`), and one for tool calls. As published or reported, with the day of the check.
 */

/** What must be the same for the piece to keep its meaning. */
export type Bound = 'model' | 'provider' | 'organisation' | 'account' | 'shape'

export interface Ownership {
  readonly what: string
  readonly bound: readonly Bound[]
  /** Whether a request may do without it: it can be taken out where it cannot travel. */
  readonly strippable: boolean
  /** What happens at the wrong target. */
  readonly otherwise: string
  readonly checked: string
}

const CHECKED = '2026-11-29'

export const OWNERSHIP: readonly Ownership[] = [
  {
    what: 'tool-call',
    bound: ['model', 'shape'],
    strippable: false,
    otherwise:
      'another model continues a loop that it has not begun; some refuse the shape of the id',
    checked: CHECKED,
  },
  {
    what: 'reasoning',
    bound: ['provider', 'model', 'organisation'],
    strippable: true,
    otherwise: '400: the signature is invalid, or the content cannot be decrypted',
    checked: CHECKED,
  },
  {
    what: 'response',
    bound: ['account'],
    strippable: false,
    otherwise: '400 or 404: the earlier response is not found',
    checked: CHECKED,
  },
  {
    what: 'conversation',
    bound: ['account'],
    strippable: false,
    otherwise: '404: the conversation is not found',
    checked: CHECKED,
  },
  {
    what: 'item',
    bound: ['account'],
    strippable: false,
    otherwise: '404: the item is not found',
    checked: CHECKED,
  },
  {
    what: 'file',
    bound: ['account'],
    strippable: false,
    otherwise: '404: the file is not found',
    checked: CHECKED,
  },
  {
    what: 'container',
    bound: ['account'],
    strippable: false,
    otherwise: '404: the container is not found',
    checked: CHECKED,
  },
]

/** What a piece of state is bound to; a kind that is not known is taken to be its account's. */
export function ownershipOf(state: string): Ownership {
  const kind = state.slice(0, Math.max(state.indexOf(':'), 0))
  const known = OWNERSHIP.find((row) => row.what === kind)
  return (
    known ?? {
      what: kind,
      bound: ['account'],
      strippable: false,
      otherwise: 'unknown',
      checked: CHECKED,
    }
  )
}
