/**
 * A request body as it was sent, decoded: content encodings undone, within a limit after each.
 *
 * What comes out may be sent on as it is: JSON has no byte order mark, so one that a client wrote is
 * left out. Text has no encoding. zstd is read where this Node can, 415 elsewhere. Cost: linear in
 * what comes out; bodies without an encoding are not copied. Trusts nothing; throws
 * UNSUPPORTED_ENCODING, INVALID_BODY, BODY_TOO_LARGE.
 */
import zlib, { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib'
import { WarmpathError } from '../errors.js'

type Decoder = (bytes: Uint8Array, limit: { maxOutputLength: number }) => Uint8Array

/** Bytes that one UTF-16 unit takes at the most. */
const MAX_UTF8_BYTES = 3
const DECODERS: Readonly<Record<string, Decoder>> = {
  gzip: gunzipSync,
  'x-gzip': gunzipSync,
  br: brotliDecompressSync,
  deflate: inflateSync,
}

/** `encodings` is the value of the header content-encoding; `maxOutputLength` in bytes. */
export function decodeBody(
  raw: Uint8Array,
  encodings: string | undefined,
  maxOutputLength: number,
): Uint8Array
export function decodeBody(
  raw: Uint8Array | string,
  encodings: string | undefined,
  maxOutputLength: number,
): Uint8Array | string
export function decodeBody(
  raw: Uint8Array | string,
  encodings: string | undefined,
  maxOutputLength: number,
): Uint8Array | string {
  if (typeof raw === 'string') {
    if (!isWithin(raw, maxOutputLength)) throw tooLarge(maxOutputLength)
    return raw.startsWith('\ufeff') ? raw.slice(1) : raw
  }
  let bytes = raw
  for (const encoding of applied(encodings)) bytes = decode(bytes, encoding, maxOutputLength)
  if (bytes.length > maxOutputLength) throw tooLarge(maxOutputLength)
  const isMarked = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf
  return isMarked ? bytes.subarray(3) : bytes
}

/** What was applied, the last first. */
function applied(encodings: string | undefined): string[] {
  if (encodings === undefined) return []
  return encodings
    .split(',')
    .map((item) => item.trim().toLowerCase())
    .filter((item) => item !== '' && item !== 'identity')
    .reverse()
}

/** Whether the text as UTF-8 has at most that many bytes; short texts need not be counted. */
function isWithin(text: string, bytes: number): boolean {
  return text.length * MAX_UTF8_BYTES <= bytes || Buffer.byteLength(text) <= bytes
}

function decode(bytes: Uint8Array, encoding: string, maxOutputLength: number): Uint8Array {
  const decoders = knownDecoders()
  const decoder = decoders.get(encoding)
  if (decoder === undefined) {
    const supported = [...decoders.keys()]
    throw new WarmpathError(
      'WARMPATH_UNSUPPORTED_ENCODING',
      `content-encoding ${JSON.stringify(encoding)} is not one of ${supported.join(', ')}`,
      { detail: { supported: [...supported, 'identity'] } },
    )
  }
  try {
    return decoder(bytes, { maxOutputLength })
  } catch (cause) {
    const code: unknown = cause instanceof Error ? Reflect.get(cause, 'code') : undefined
    if (code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(maxOutputLength)
    throw new WarmpathError('WARMPATH_INVALID_BODY', `the body is no valid ${encoding}`, { cause })
  }
}

/** Node has zstd from 22.15 on. */
function knownDecoders(): Map<string, Decoder> {
  const decoders = new Map(Object.entries(DECODERS))
  const zstd: unknown = Reflect.get(zlib, 'zstdDecompressSync')
  if (typeof zstd === 'function') decoders.set('zstd', zstd as Decoder)
  return decoders
}

function tooLarge(limit: number): WarmpathError {
  return new WarmpathError(
    'WARMPATH_BODY_TOO_LARGE',
    `the body is larger than limits.bodyBytes (${limit})`,
    { detail: { bodyBytes: limit } },
  )
}
