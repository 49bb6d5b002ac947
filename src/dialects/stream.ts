/**
 * A stream reader out of one function per dialect: what does this event add to the answer?
 *
 * Cost: one JSON.parse per event. An event that is not a JSON object is counted and passed over.
 */
import { Answer } from './answer.js'
import { isObject } from './json.js'
import { SseSplitter } from './sse.js'
import type { Json, ResponseFacts, StreamReader } from './types.js'

/** `name` is the `event:` field, empty if there was none. */
type OnJson = (answer: Answer, name: string, event: Json) => void

/** What the last event of a stream is: the one that ends the answer, or one behind it that says so. */
type LastEvent = 'ends' | 'says so'

function streamReader(onJson: OnJson, last: LastEvent = 'ends'): StreamReader {
  const answer = new Answer()
  let garbage = 0
  const splitter = new SseSplitter((name, data) => {
    if (data === '[DONE]') {
      answer.ended = true
      answer.over = true
      return
    }
    const event = parse(data)
    if (event === undefined) garbage++
    else onJson(answer, name, event)
  })
  return {
    push: (bytes) => splitter.push(bytes),
    end: () => splitter.end(),
    facts: (): ResponseFacts => answer.facts(),
    get firstToken() {
      return answer.firstToken
    },
    get ended() {
      return answer.ended
    },
    get isOver() {
      return last === 'ends' ? answer.ended : answer.over
    },
    get anomalies() {
      return garbage + splitter.skipped
    },
  }
}

function parse(data: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(data)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

export { streamReader }
