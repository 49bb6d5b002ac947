import type { CanonicalPrompt } from '../../src/dialects/types.js'

/** Canonical text up to a place in its bytes. */
export function promptText({ bytes }: CanonicalPrompt, from = 0, to?: number): string {
  return Buffer.from(bytes.subarray(from, to)).toString()
}
