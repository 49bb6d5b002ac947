/**
 * Where does the text of prompts and tool results come from?
 *
 * Words drawn from a seeded stream: the same (seed, label, length) gives the same characters, and
 * two labels share no more than chance. The word list is short and plain on purpose: the content
 * does not matter, only that equal texts are equal and different ones differ from their start.
 *
 * Lengths are in tokens of about four characters, which is what the engine double counts too; the
 * last word may overshoot by less than two tokens. Linear in the length.
 */
import type { SplitMix64 } from './random.js'

/** Characters that one token stands for on average. */
const CHARACTERS_A_TOKEN = 4

const WORDS = (
  'account adapter answer archive array batch block branch bridge buffer build cache call chain ' +
  'change channel check child client clock code column command commit config copy count cursor ' +
  'data debug default depth diff digest driver edge engine entry error event field file filter ' +
  'flag folder format frame function gate graph group guard handle hash header heap image index ' +
  'input item join kernel key label layer leaf length level library limit line link list load ' +
  'lock log loop map mark match memory merge message method mode model module name node number ' +
  'object offset option order output owner packet page parent parse patch path peer phase pipe ' +
  'place point policy pool port prefix probe process queue range rank read record region report ' +
  'request result retry return root route row rule run sample scan schema scope score search ' +
  'seed segment server session shard share signal size slice slot socket source span stack stage ' +
  'state status step store stream string table tail target task test text thread tick time token ' +
  'trace tree trust turn type unit update usage user value vector version wait word worker write'
).split(' ')

/**
 * About `tokens` tokens of text.
 * @param random a stream of its own (fork one by label); it is advanced
 */
function prose(random: SplitMix64, tokens: number): string {
  const wanted = tokens * CHARACTERS_A_TOKEN
  const words: string[] = []
  let length = 0
  while (length < wanted) {
    // One 64-bit draw serves four words: drawing is the expensive part.
    let bits = random.next()
    for (let i = 0; i < 4 && length < wanted; i++) {
      const word = WORDS[Number(bits & 0xffffn) % WORDS.length] as string
      bits >>= 16n
      words.push(word)
      length += word.length + 1
    }
  }
  return words.join(' ')
}

export { CHARACTERS_A_TOKEN, prose }
