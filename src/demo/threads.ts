/**
 * How do the parts of the demo get a processor of their own?
 *
 * Engines and router run in one worker thread each, apart from the driver, so that a busy router
 * does not slow the engines' clock down by sharing their event loop. A hosted part is started with
 * plain data, says when it is ready, may be told things, has a last word, and is stopped. What the
 * parts do with each other goes over HTTP, as it would between machines.
 *
 * A part that throws rejects whatever waits for it. Whoever starts a part must stop it.
 */
import { extname, join } from 'node:path'
import { parentPort, Worker, workerData } from 'node:worker_threads'

/** A part that runs in another thread. */
interface Hosted<Ready, Note, Done> {
  readonly ready: Ready
  tell(note: Note): void
  /** Asks for the last word of the part. */
  finish(): Promise<Done>
  /** Ends the thread, whatever state it is in. Idempotent. */
  stop(): Promise<void>
}

/** The same part, seen from inside its thread. */
interface Part<Ready, Note, Done> {
  ready: Ready
  told?(note: Note): void
  finish(): Promise<Done>
}

type Envelope<Note> = { kind: 'finish' } | { kind: 'note'; note: Note }

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

/**
 * Starts a part in a thread and waits until it is ready.
 * @param name file beside this one, without its extension
 * @param data cloned into the thread
 * @param execArgv flags of node for the thread; default: those of this process
 */
async function host<Data, Ready, Note, Done>(
  name: string,
  data: Data,
  execArgv?: string[],
): Promise<Hosted<Ready, Note, Done>> {
  // The extension of this very file: the sources can run without a build, through a loader.
  const file = join(__dirname, name + extname(__filename))
  const flags = execArgv === undefined ? {} : { execArgv }
  const worker = new Worker(file, { workerData: data, ...flags })
  const send = (envelope: Envelope<Note>) => worker.postMessage(envelope)
  const ready = await receive<Ready>(worker)
  return {
    ready,
    tell: (note) => send({ kind: 'note', note }),
    finish() {
      const done = receive<Done>(worker)
      send({ kind: 'finish' })
      return done
    },
    async stop() {
      await worker.terminate()
    },
  }
}

/** The thread's side: starts the part and serves it until it is finished. */
async function serve<Data, Ready, Note, Done>(
  start: (data: Data) => Promise<Part<Ready, Note, Done>>,
): Promise<void> {
  const port = parentPort
  if (port === null) throw new Error('this file runs in a thread of the demo')
  const part = await start(workerData as Data)
  port.on('message', (envelope: Envelope<Note>) => {
    if (envelope.kind === 'note') part.told?.(envelope.note)
    else part.finish().then((done) => port.postMessage(done), rethrow)
  })
  port.postMessage(part.ready)
}

/** Out of the promise chain, so that the thread fails and its owner hears of it. */
function rethrow(error: unknown): void {
  setImmediate(() => {
    throw error
  })
}

export { type Hosted, host, type Part, serve }
