/** What trace specs share: sinks that remember, folders, and the function that keys hashes. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import type { ExecutionContext } from 'ava'
import type { TraceRecord } from '../../src/index.js'

/** A folder that lives as long as the test. */
export function folder(t: ExecutionContext): string {
  const path = mkdtempSync(join(tmpdir(), 'warmpath-trace-'))
  t.teardown(() => rmSync(path, { recursive: true, force: true }))
  return path
}

/** A sink that keeps what it gets. */
export function memory() {
  const records: TraceRecord[] = []
  return { records, sink: (record: TraceRecord) => void records.push(record) }
}

/** The lines of each file of a folder, by name. */
export function linesOf(path: string): Record<string, string[]> {
  const names = readdirSync(path).sort()
  return Object.fromEntries(names.map((name) => [name, lines(join(path, name))]))
}

export function lines(file: string): string[] {
  const bytes = readFileSync(file)
  const text = (file.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString()
  return text.split('\n').slice(0, -1)
}

const MASK = (1n << 64n) - 1n
const rotate = (x: bigint, by: bigint) => ((x << by) | (x >> (64n - by))) & MASK

/** SipHash-2-4 of the eight bytes of a hash, as its authors describe it. */
export function keyed(hash: bigint, key: Uint8Array): bigint {
  const view = new DataView(key.buffer, key.byteOffset, 16)
  const [k0, k1] = [view.getBigUint64(0, true), view.getBigUint64(8, true)]
  let v0 = k0 ^ 0x736f6d6570736575n
  let v1 = k1 ^ 0x646f72616e646f6dn
  let v2 = k0 ^ 0x6c7967656e657261n
  let v3 = k1 ^ 0x7465646279746573n
  const rounds = (n: number) => {
    for (let round = 0; round < n; round += 1) {
      v0 = (v0 + v1) & MASK
      v1 = rotate(v1, 13n) ^ v0
      v0 = rotate(v0, 32n)
      v2 = (v2 + v3) & MASK
      v3 = rotate(v3, 16n) ^ v2
      v0 = (v0 + v3) & MASK
      v3 = rotate(v3, 21n) ^ v0
      v2 = (v2 + v1) & MASK
      v1 = rotate(v1, 17n) ^ v2
      v2 = rotate(v2, 32n)
    }
  }
  for (const word of [hash, 8n << 56n]) {
    v3 ^= word
    rounds(2)
    v0 ^= word
  }
  v2 ^= 0xffn
  rounds(4)
  return v0 ^ v1 ^ v2 ^ v3
}
