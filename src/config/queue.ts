/**
 * In which order turns go that wait for a gate: the option, its checks and its defaults.
 *
 * What would never be looked at is refused: an age at which a turn goes first where no turn is ever
 * passed, and a class that no turn can be of.
 */
import {
  type Fields,
  fields,
  list,
  MAX_U32,
  milliseconds,
  name,
  number,
  oneOf,
  refuse,
  shown,
} from './check.js'

/** First come, first served; least to compute first; last come, first served. */
export type QueueOrder = 'fcfs' | 'wspt' | 'lcfs'

/** Turns that wait in a queue of their own. */
export interface QueueClass {
  /** Shown with the turns that wait. */
  name: string
  /**
   * Its share: tokens to be computed that it may spend each time its turn comes round. 1 to 2^32 - 1,
   * default 8192.
   */
  quantumTokens?: number
  /** Of one tenant's turns in it. Default: that of the queue. */
  order?: QueueOrder
  /** Turns that may wait in it, in each group; further ones end with QUEUE_FULL. Absent: any number. */
  maxWaiting?: number
  /** It takes turns with at most so many tokens to compute. Absent: any number. */
  maxTokens?: number
  /** It takes turns of at least this priority. Absent: of any. */
  minPriority?: number
  /** It takes turns of at most this priority. Absent: of any. */
  maxPriority?: number
}

export interface QueueOptions {
  /** The order of one tenant's turns. Default `fcfs`. */
  order?: QueueOrder
  /**
   * What a priority does. `strict` (default): higher goes first, but for one turn in eight. `head-start`:
   * above 0 it is a head start in the order, below 0 the turn goes behind all that are not. `published`:
   * as Dynamo's router has it, where below 0 is 0, and nothing keeps a turn from waiting for ever.
   */
  priority?: 'strict' | 'head-start' | 'published'
  /**
   * A turn that has waited so long goes before the others of its tenant and class. Default 60, with
   * `priority: 'published'` never.
   */
  maxAgeSeconds?: number
  /**
   * Classes share what is computed; at most 16. A turn is of the first that takes it, and the last has to
   * take all. Absent: there is one.
   */
  classes?: QueueClass[]
}

/** As the core wants it. */
export interface QueueSettings {
  readonly order: QueueOrder
  readonly priority: (typeof PRIORITIES)[number]
  readonly maxAgeMs: number | undefined
  readonly classes: readonly ClassSettings[]
}

interface ClassSettings {
  readonly name: string
  readonly quantum: number | undefined
  readonly order: QueueOrder | undefined
  readonly maxWaiting: number | undefined
  readonly maxTokens: number | undefined
  readonly minPriority: number | undefined
  readonly maxPriority: number | undefined
}

const ORDERS = ['fcfs', 'wspt', 'lcfs'] as const
const PRIORITIES = ['strict', 'head-start', 'published'] as const
/** As far above an ordinary turn one may be, and below. */
export const MOST_PRIORITY = 100
const MAX_CLASSES = 16
const DEFAULT_AGE_MS = 60_000
const PATH = 'admission.queue'
const QUEUE_FIELDS = ['order', 'priority', 'maxAgeSeconds', 'classes']
const CLASS_FIELDS = [
  ...['name', 'quantumTokens', 'order', 'maxWaiting'],
  ...['maxTokens', 'minPriority', 'maxPriority'],
]

export function queueSettings(value: unknown): QueueSettings | undefined {
  if (value === undefined) return undefined
  const given = fields(value, PATH, QUEUE_FIELDS)
  const order = oneOf(given.order ?? 'fcfs', `${PATH}.order`, ORDERS)
  const priority = oneOf(given.priority ?? 'strict', `${PATH}.priority`, PRIORITIES)
  const classes = classList(given.classes)
  return { order, priority, maxAgeMs: maxAge(given, order, priority, classes), classes }
}

function maxAge(
  { maxAgeSeconds }: Fields,
  order: QueueOrder,
  priority: QueueSettings['priority'],
  classes: readonly ClassSettings[],
): number | undefined {
  if (maxAgeSeconds === undefined) return priority === 'published' ? undefined : DEFAULT_AGE_MS
  const orders = classes.length === 0 ? [order] : classes.map((own) => own.order ?? order)
  if (priority === 'strict' && orders.every((own) => own === 'fcfs')) {
    refuse(`${PATH}.maxAgeSeconds`, 'needs an order or a priority that lets later turns pass')
  }
  return milliseconds(maxAgeSeconds, `${PATH}.maxAgeSeconds`)
}

function classList(value: unknown): ClassSettings[] {
  if (value === undefined) return []
  const path = `${PATH}.classes`
  const given = list(value, path)
  if (given.length === 0 || given.length > MAX_CLASSES) {
    refuse(path, `must have 1 to ${MAX_CLASSES} classes`, String(given.length))
  }
  const classes = given.map((one, at) => classSettings(one, `${path}[${at}]`))
  const names = classes.map((one) => one.name)
  const twice = names.findIndex((each, at) => names.indexOf(each) < at)
  if (twice >= 0) {
    refuse(`${path}[${twice}].name`, 'must be that of no class before', shown(names[twice]))
  }
  classes.forEach((one, at) => {
    if (takesAll(one) !== (at === classes.length - 1)) {
      const rule = takesAll(one)
        ? 'takes every turn, so it must be the last'
        : 'is the last, so it must take every turn: no maxTokens, minPriority or maxPriority'
      refuse(`${path}[${at}]`, rule)
    }
  })
  return classes
}

function takesAll({ maxTokens, minPriority, maxPriority }: ClassSettings): boolean {
  return maxTokens === undefined && minPriority === undefined && maxPriority === undefined
}

function classSettings(value: unknown, path: string): ClassSettings {
  const given = fields(value, path, CLASS_FIELDS)
  const whole = (field: string, min: number, max: number) => {
    const found = given[field]
    if (found === undefined) return undefined
    return number(found, `${path}.${field}`, { min, max, kind: 'integer' })
  }
  const { order } = given
  const settings = {
    name: name(given.name, `${path}.name`),
    quantum: whole('quantumTokens', 1, MAX_U32),
    order: order === undefined ? undefined : oneOf(order, `${path}.order`, ORDERS),
    maxWaiting: whole('maxWaiting', 1, MAX_U32),
    maxTokens: whole('maxTokens', 0, MAX_U32),
    minPriority: whole('minPriority', -MOST_PRIORITY, MOST_PRIORITY),
    maxPriority: whole('maxPriority', -MOST_PRIORITY, MOST_PRIORITY),
  }
  const { minPriority = -MOST_PRIORITY, maxPriority = MOST_PRIORITY } = settings
  if (minPriority > maxPriority) {
    refuse(`${path}.minPriority`, 'must be at most maxPriority', String(minPriority))
  }
  return settings
}
