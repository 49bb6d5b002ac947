/** What a person is told of where a session stays, and of whom its turn has waited for. */
import type { Receipt } from '../index.js'
import { text, visible } from './table.js'

type Affinity = NonNullable<Receipt['affinity']>
type Followed = NonNullable<Receipt['followed']>

const TIES: Readonly<Record<Affinity['tie'], string>> = {
  own: 'its home',
  parent: 'where its parent is',
}
const CAME: Readonly<Record<Affinity['came'], string>> = {
  stayed: 'it went there',
  moved: 'another worker cost less even so',
  cold: 'nothing of its own is cached there any more',
  detour: 'which could not take it for now: it will return',
  left: 'which takes it no longer',
}
const ENDED: Readonly<Record<Followed['ended'], string>> = {
  waiting: 'and still does',
  read: 'until that had its first token',
  failed: 'which came to nothing',
  late: 'for as long as is allowed',
}

/** Nothing where neither had to do with it. */
export function stayFacts({ affinity, followed }: Receipt): [string, string][] {
  const facts: [string, string][] = []
  if (affinity) {
    const { worker, tie, came } = affinity
    facts.push(['affinity', `${visible(worker)}, ${TIES[tie]}: ${CAME[came]}`])
  }
  if (followed) {
    const { reservation, tokens, ended } = followed
    facts.push([
      'followed',
      `turn ${text(reservation)}, which computed ${text(tokens)} tokens of the same beginning, ${ENDED[ended]}`,
    ])
  }
  return facts
}
