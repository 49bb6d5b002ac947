/** Text made up of block numbers: what shared a prefix shares it again, and no more. */
import test from 'ava'
import fc from 'fast-check'
import { content, WORDS } from '../src/replay/endpoint/content.js'
import { tokenize } from '../src/testing/prompt.js'

const BLOCK = 16

function text(blocks: number[], tokens: number, turn: number, salt = 1): string {
  return content({ blocks: Uint32Array.from(blocks), blockTokens: BLOCK, tokens, turn, salt })
}

function shared(a: string, b: string): number {
  const [left, right] = [tokenize(a), tokenize(b)]
  const at = left.findIndex((token, index) => token !== right[index])
  return at === -1 ? Math.min(left.length, right.length) : at
}

test('words are one token each and different', (t) => {
  t.is(new Set(WORDS).size, 64)
  t.true(WORDS.every((word) => word.length === 3))
})

test('prompts share the tokens of the blocks that they share, and less than two words more', (t) => {
  const blocks = fc.array(fc.nat(5), { maxLength: 6 })
  fc.assert(
    fc.property(blocks, blocks, fc.nat(40), fc.nat(40), (a, b, tailA, tailB) => {
      const [lengthA, lengthB] = [a.length * BLOCK + tailA, b.length * BLOCK + tailB]
      const same = a.findIndex((block, index) => block !== b[index])
      const common = (same === -1 ? Math.min(a.length, b.length) : same) * BLOCK
      const [one, other] = [text(a, lengthA, 1), text(b, lengthB, 2)]
      t.is(tokenize(one).length, lengthA)
      const got = shared(one, other)
      return got >= common && got <= common + 4
    }),
  )
})

test('a block that is only partly filled is cut; another seed is another text', (t) => {
  t.is(tokenize(text([1, 2], 20, 0)).length, 20)
  t.true(text([1, 2], 32, 0).startsWith(text([1, 2], 20, 0)))
  t.true(shared(text([1, 2], 32, 0, 1), text([1, 2], 32, 0, 2)) <= 4)
})
