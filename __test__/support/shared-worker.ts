/**
 * One more thread of a shared scheduler: does what the spec tells it and answers what came of it.
 *
 * With `clockStart` its clock stands still until it is told to `pass` some time.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { Scheduler, type SchedulerOptions, type Turn, type TurnRequest } from '../../src/index.js'
import { chat, crowdedTurn } from './requests.js'

const { name, options, clockStart } = workerData as {
  name: string
  options: SchedulerOptions
  clockStart: number | undefined
}
let now = clockStart ?? 0
const clock = clockStart === undefined ? {} : { clock: () => now }
const scheduler = Scheduler.shared(name, { ...options, ...clock })
const turns = new Map<string, Turn>()

async function submit(session: string, request: TurnRequest) {
  const turn = await scheduler.submit(request)
  turns.set(session, turn)
  return { worker: turn.worker, url: turn.url, auth: turn.init.headers.authorization }
}

const deeds: Record<string, (argument: string) => unknown> = {
  submit: (session) => submit(session, crowdedTurn(session)),
  submitSmall: (session) => submit(session, chat(session, 'x'.repeat(2000))),
  complete: (session) => {
    turns.get(session)?.complete({ promptTokens: 850 })
    scheduler.endSession(session)
  },
  pass: (ms) => {
    now += Number(ms)
    scheduler.poll()
  },
  same: () => Scheduler.shared(name, options) === scheduler,
  addWorker: (id) => scheduler.addWorker({ id, url: `http://${id}` }),
  removeWorker: (id) => scheduler.removeWorker(id),
  close: () => scheduler.close(),
}

parentPort?.on('message', async ({ deed, argument }: { deed: string; argument: string }) => {
  try {
    parentPort?.postMessage({ value: await deeds[deed]?.(argument) })
  } catch (error) {
    parentPort?.postMessage({ code: (error as { code?: string }).code ?? String(error) })
  }
})
parentPort?.postMessage({ value: 'ready' })
