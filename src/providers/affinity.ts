/**
 * Where a provider is told which requests belong together, so that they meet the same cache.
 *
 * As published or reported, with the day of the check. One row for each wire API that has a place of
 * its own; the first that fits counts.
 */

/** A member of the body, or a header. */
export interface AffinityKnob {
  readonly place: 'body' | 'header'
  readonly name: string
}

interface Row extends AffinityKnob {
  readonly provider: string
  /** Absent: every wire API of the provider. */
  readonly dialect?: string
  readonly checked: string
}

const CHECKED = '2026-11-30'

const body = (provider: string, name: string, dialect?: string): Row => {
  return { provider, place: 'body', name, checked: CHECKED, ...(dialect && { dialect }) }
}

const header = (provider: string, name: string, dialect?: string): Row => {
  return { ...body(provider, name, dialect), place: 'header' }
}

const ROWS: readonly Row[] = [
  body('openai', 'prompt_cache_key'),
  body('azure', 'prompt_cache_key'),
  body('mistral', 'prompt_cache_key'),
  body('moonshot', 'prompt_cache_key'),
  header('xai', 'x-grok-conv-id', 'openai-chat'),
  body('xai', 'prompt_cache_key', 'openai-responses'),
  header('fireworks', 'x-session-affinity'),
  body('openrouter', 'session_id'),
]

/** Providers that have such a place. */
export const WITH_AFFINITY: readonly string[] = [...new Set(ROWS.map(({ provider }) => provider))]

/** That of a provider in a wire API; undefined where none is known. */
export function affinityKnob(
  provider: string | undefined,
  dialect: string,
): AffinityKnob | undefined {
  return ROWS.find((row) => {
    return row.provider === provider && (row.dialect === undefined || row.dialect === dialect)
  })
}
