/**
 * How do the parts of the demo get a processor of their own?
 *
 * Engines and router run in one worker thread each, apart from the driver, so that a busy router
 * does not slow the engines' clock down by sharing their event loop. A thread serves one part at a
 * time: it is started with plain data, says when it is ready, may be told things, and is finished
 * with a last word; then it may be started again, new but with code that has run before. What the
 * parts do with each other goes over HTTP, as it would between machines.
 *
 * A part that throws rejects whatever waits for it. Whoever opens a thread must stop it.
 */
import { extname, join } from 'node:path'
import { parentPort, Worker } from 'node:worker_threads'

/** A part as its thread runs it. */
interface Part<Ready, Note, Done> {
  ready: Ready
  told?(note: Note): void
  finish(): Promise<Done>
}

type Envelope<Data, Note> =
  | { kind: 'start'; data: Data }
  | { kind: 'note'; note: Note }
  | { kind: 'finish' }

/** A thread that serves a part, seen from outside; one call at a time. */
class Hosted<Data, Ready, Note, Done> {
  readonly #worker: Worker
  /** Why the thread is no longer there, once it is not. */
  #failure: Error | undefined

  /**
   * @param name file beside this one, without its extension
   * @param execArgv flags of node for the thread; default: those of this process
   */
  constructor(name: string, execArgv?: string[]) {
    // The extension of this very file: the sources can run without a build, through a loader.
    const file = join(__dirname, name + extname(__filename))
    this.#worker = new Worker(file, execArgv === undefined ? {} : { execArgv })
    // It may fail while nobody waits for it; whoever asks next is told.
    this.#worker.on('error', (error) => {
      this.#failure = error
    })
  }

  /** Starts the part; `data` is cloned. Resolves when it is ready. */
  start(data: Data): Promise<Ready> {
    return this.#ask({ kind: 'start', data })
  }

  tell(note: Note): void {
    this.#worker.postMessage({ kind: 'note', note } satisfies Envelope<Data, Note>)
  }

  /** Ends the part and resolves to its last word. */
  finish(): Promise<Done> {
    return this.#ask({ kind: 'finish' })
  }

  /** Ends the thread, whatever state it is in. Idempotent. */
  async stop(): Promise<void> {
    await this.#worker.terminate()
  }

  #ask<T>(envelope: Envelope<Data, Note>): Promise<T> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure)
    const answer = receive<T>(this.#worker)
    this.#worker.postMessage(envelope)
    return answer
  }
}

/** One message from the thread; rejects when it fails or ends instead. */
function receive<T>(worker: Worker): Promise<T> {
  return new Promise((resolve, reject) => {
    const settle = (act: () => void) => {
      worker.off('message', onMessage)
      worker.off('error', onError)
      worker.off('exit', onExit)
      act()
    }
    const onMessage = (message: T) => settle(() => resolve(message))
    const onError = (error: Error) => settle(() => reject(error))
    const onExit = (code: number) => onError(new Error(`a demo thread ended early (${code})`))
    worker.on('message', onMessage)
    worker.on('error', onError)
    worker.on('exit', onExit)
  })
}

/** The thread's side: starts the part when asked to, and serves it until it is finished. */
function serve<Data, Ready, Note, Done>(
  start: (data: Data) => Promise<Part<Ready, Note, Done>>,
): void {
  const port = parentPort
  if (port === null) throw new Error('this file runs in a thread of the demo')
  let part: Part<Ready, Note, Done> | undefined
  const answer = async (envelope: Envelope<Data, Note>) => {
    switch (envelope.kind) {
      case 'start':
        part = await start(envelope.data)
        return port.postMessage(part.ready)
      case 'note':
        return part?.told?.(envelope.note)
      case 'finish':
        return port.postMessage(await part?.finish())
    }
  }
  port.on('message', (envelope: Envelope<Data, Note>) => {
    answer(envelope).catch(rethrow)
  })
}

/** Out of the promise chain, so that the thread fails and its owner hears of it. */
function rethrow(error: unknown): void {
  setImmediate(() => {
    throw error
  })
}

export { Hosted, type Part, serve }
