/**
 * What a provider is told that requests of one session have in common: nothing that says whose they are.
 *
 * The salt is the credential that they are sent with, so that two providers, or two accounts, cannot
 * find out that they serve the same session.
 */
import { createHmac } from 'node:crypto'

const DIGITS = 32

/** 128 bits, hexadecimal; equal for equal arguments. */
export function affinityId(salt: string, tenant: string, session: string): string {
  const framed = JSON.stringify([tenant, session])
  return createHmac('sha256', salt).update(framed).digest('hex').slice(0, DIGITS)
}
