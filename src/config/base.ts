/**
 * The rules for the base choice of turns that come without one: the first that a turn meets counts.
 *
 * What is left out of a rule does not matter to it. Targets become numbers here; lengths are compared
 * where they are known, in the core. Throws CONFIG.
 */
import {
  type Fields,
  fields,
  flag,
  list,
  MAX_U32,
  number,
  oneOf,
  refuse,
  refuseOther,
} from './check.js'

/** One rule, as the options give it. */
export interface BaseRuleOptions {
  /** The least number of prompt tokens. */
  minTokens?: number
  /** The greatest number of prompt tokens. */
  maxTokens?: number
  /** `tool-loop`: the turn answers tool calls. `user-turn`: it does not. */
  phase?: (typeof PHASES)[number]
  /** Whether there are images in the prompt. */
  images?: boolean
  /** Whether there are tools that may be called. */
  tools?: boolean
  /** The base choice: the name of a target. A turn that may not go there passes the rule over. */
  target: string
}

/** One rule as the native face wants it. */
export interface BaseRule {
  readonly minTokens?: number
  readonly maxTokens?: number
  readonly toolLoop?: boolean
  readonly images?: boolean
  readonly tools?: boolean
  readonly target: number
}

const PHASES = ['tool-loop', 'user-turn'] as const
const FIELDS = ['minTokens', 'maxTokens', 'phase', 'images', 'tools', 'target']
const PATH = 'continuity.base'
const MAX_RULES = 256

/** `targets` are all names, in the order of their numbers. */
export function baseRules(value: unknown, targets: readonly string[]): BaseRule[] {
  const rules = value === undefined ? [] : list(value, PATH)
  if (rules.length > MAX_RULES) refuse(PATH, `must be at most ${MAX_RULES} rules`)
  return rules.map((rule, at) => {
    const path = `${PATH}[${at}]`
    return ruleOf(fields(rule, path, FIELDS), path, targets)
  })
}

function ruleOf(given: Fields, path: string, targets: readonly string[]): BaseRule {
  const { minTokens, maxTokens, phase, images, tools } = given
  const tokens = (field: string, min: number): number =>
    number(given[field], `${path}.${field}`, { min, max: MAX_U32, kind: 'integer' })
  const target = targets.indexOf(given.target as string)
  if (target < 0) {
    refuseOther(`${path}.target`, targets, given.target)
  }
  const least = minTokens === undefined ? 0 : tokens('minTokens', 0)
  return {
    ...(minTokens !== undefined && { minTokens: least }),
    ...(maxTokens !== undefined && { maxTokens: tokens('maxTokens', least) }),
    ...(phase !== undefined && {
      toolLoop: oneOf(phase, `${path}.phase`, PHASES) === 'tool-loop',
    }),
    ...(images !== undefined && { images: flag(images, `${path}.images`) }),
    ...(tools !== undefined && { tools: flag(tools, `${path}.tools`) }),
    target,
  }
}
