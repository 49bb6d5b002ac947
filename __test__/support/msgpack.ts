/** MessagePack, as far as engines' events need it. */
export type Packable = null | boolean | number | string | readonly Packable[]

/** Numbers that are no integers are floats; so are those that `float` marks. */
export function pack(value: Packable): Buffer {
  if (value === null) return Buffer.of(0xc0)
  if (typeof value === 'boolean') return Buffer.of(value ? 0xc3 : 0xc2)
  if (typeof value === 'string') {
    const text = Buffer.from(value)
    return Buffer.concat([Buffer.of(0xd9, text.length), text])
  }
  if (typeof value !== 'number') {
    const head = Buffer.alloc(5)
    head[0] = 0xdd
    head.writeUInt32BE(value.length, 1)
    return Buffer.concat([head, ...value.map(pack)])
  }
  const bytes = Buffer.alloc(9)
  if (Number.isSafeInteger(value) && value >= 0) {
    bytes[0] = 0xcf
    bytes.writeBigUInt64BE(BigInt(value), 1)
  } else {
    bytes[0] = 0xcb
    bytes.writeDoubleBE(value, 1)
  }
  return bytes
}
