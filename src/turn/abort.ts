/**
 * Who hears that a signal aborted?
 *
 * A program may give one signal to all its turns, such as the one of its own shutdown. Each signal
 * gets one listener however many turns share it: no warning of a leak that is none, and a turn's end
 * costs no search among the others. Calls come in the order in which they were asked for, each at
 * most once; one that throws does not keep the others from being made.
 */
interface Audience {
  readonly calls: Set<() => void>
  readonly listener: () => void
}

const audiences = new WeakMap<AbortSignal, Audience>()

/** Calls `call` when the signal aborts. Returns what takes that back; idempotent. */
export function onAbort(signal: AbortSignal | undefined, call: () => void): () => void {
  if (signal === undefined) return () => undefined
  const { calls, listener } = audiences.get(signal) ?? gather(signal)
  calls.add(call)
  return () => {
    if (!calls.delete(call) || calls.size > 0) return
    signal.removeEventListener('abort', listener)
    audiences.delete(signal)
  }
}

function gather(signal: AbortSignal): Audience {
  const calls = new Set<() => void>()
  const listener = () => {
    // Those who come or go meanwhile are heard, or are not: a call may end or start other turns.
    for (const call of calls) {
      calls.delete(call)
      try {
        call()
      } catch (error) {
        // As an event target does it: the error is nobody's who could catch it.
        queueMicrotask(() => {
          throw error
        })
      }
    }
    audiences.delete(signal)
  }
  signal.addEventListener('abort', listener, { once: true })
  const audience = { calls, listener }
  audiences.set(signal, audience)
  return audience
}
