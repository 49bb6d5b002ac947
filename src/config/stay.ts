/**
 * The options of where sessions stay, and of turns that wait for one that computes the beginning that they
 * share.
 */
import { type Fields, fields, MAX_U32, milliseconds, number, oneOf, refuse } from './check.js'
import type { FanOutOptions, SessionAffinityOptions } from './types.js'

const MODES = ['off', 'soft', 'hard'] as const
const AFFINITY = { mode: 'off', creditTokens: 4096 } satisfies Required<SessionAffinityOptions>
const FAN_OUT = { maxWaitSeconds: 10, minTokens: 4096 } satisfies Required<FanOutOptions>

export interface AffinitySettings {
  readonly mode: (typeof MODES)[number]
  readonly creditTokens: number
}

export interface FanOutSettings {
  readonly maxWaitMs: number
  readonly minTokens: number
}

export function affinitySettings(value: unknown): AffinitySettings {
  const path = 'sessionAffinity'
  const given: Fields = value === undefined ? {} : fields(value, path, Object.keys(AFFINITY))
  const mode = oneOf(given.mode ?? AFFINITY.mode, `${path}.mode`, MODES)
  if (mode === 'off' && given.creditTokens !== undefined) {
    refuse(`${path}.creditTokens`, "needs mode: 'soft' or 'hard'")
  }
  return {
    mode,
    creditTokens: tokens(given.creditTokens ?? AFFINITY.creditTokens, `${path}.creditTokens`, 0),
  }
}

/** Absent: nobody waits. */
export function fanOutSettings(value: unknown): FanOutSettings | undefined {
  if (value === undefined || value === false) return undefined
  const given: Fields = value === true ? {} : fields(value, 'fanOut', Object.keys(FAN_OUT))
  const { maxWaitSeconds, minTokens } = { ...FAN_OUT, ...given }
  return {
    maxWaitMs: milliseconds(maxWaitSeconds, 'fanOut.maxWaitSeconds'),
    minTokens: tokens(minTokens, 'fanOut.minTokens', 1),
  }
}

function tokens(value: unknown, path: string, min: number): number {
  return number(value, path, { min, max: MAX_U32, kind: 'integer' })
}
