/** One more thread of a shared scheduler: does what the spec tells it and answers what came of it. */
import { parentPort, workerData } from 'node:worker_threads'
import { Scheduler, type Turn } from '../../src/index.js'
import { crowdedTurn } from './requests.js'

const { name, options } = workerData
const scheduler = Scheduler.shared(name, options)
const turns = new Map<string, Turn>()

const deeds: Record<string, (session: string) => unknown> = {
  submit: async (session) => {
    const turn = await scheduler.submit(crowdedTurn(session))
    turns.set(session, turn)
    return { worker: turn.worker, url: turn.url, auth: turn.init.headers.authorization }
  },
  complete: (session) => {
    turns.get(session)?.complete({ promptTokens: 850 })
    scheduler.endSession(session)
  },
  same: () => Scheduler.shared(name, options) === scheduler,
  addWorker: (id) => scheduler.addWorker({ id, url: `http://${id}` }),
  close: () => scheduler.close(),
}

parentPort?.on('message', async ({ deed, session }: { deed: string; session: string }) => {
  try {
    parentPort?.postMessage({ value: await deeds[deed]?.(session) })
  } catch (error) {
    parentPort?.postMessage({ code: (error as { code?: string }).code ?? String(error) })
  }
})
parentPort?.postMessage({ value: 'ready' })
