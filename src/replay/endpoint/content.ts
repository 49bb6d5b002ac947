/**
 * Which text stands for a prompt whose content nobody kept?
 *
 * Equal blocks become equal text and different blocks different text, so prompts that shared a prefix
 * share it again, and no other. A token is a common word of three letters with its space: four bytes,
 * which byte-pair tokenizers in use give one token each. What the trace gives no block for is drawn
 * from the turn and shared with nobody. A salt makes another run's text different, so that a cache that
 * is still warm from the last one gives nothing away. Linear in the tokens.
 */
import { SplitMix64 } from '../../demo/random.js'

const WORDS = (
  'the and for are but not you all any can her was one our out day get has him his how man new now ' +
  'old see two way who boy did its let put say she too use dad mom big red run sit top win yes ask ' +
  'end far few got own add age ago air arm art bad bag bed pay ran'
).split(' ')

interface Wanted {
  /** One number a block. */
  blocks: Uint32Array
  blockTokens: number
  /** Of the whole prompt. */
  tokens: number
  turn: number
  salt: number
}

/** The text of a prompt, as many words as tokens are wanted. */
function content({ blocks, blockTokens, tokens, turn, salt }: Wanted): string {
  const words: string[] = []
  for (const block of blocks) {
    const count = Math.min(blockTokens, tokens - words.length)
    draw(words, count, stream('block', block, salt))
  }
  draw(words, tokens - words.length, stream('tail', turn, salt))
  return words.join('')
}

/** Where the words of a block, or of a turn's tail, come from. */
function stream(kind: 'block' | 'tail', number: number, salt: number): SplitMix64 {
  const own = (BigInt(number) << 1n) | (kind === 'tail' ? 1n : 0n)
  return new SplitMix64((BigInt(salt) << 33n) ^ own)
}

function draw(words: string[], count: number, random: SplitMix64): void {
  let bits = 0n
  for (let i = 0; i < count; i++) {
    // Ten words from one draw: six bits choose one of 64.
    bits = i % 10 === 0 ? random.next() : bits >> 6n
    words.push(`${WORDS[Number(bits & 63n)]} `)
  }
}

export { content, WORDS }
