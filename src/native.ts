/**
 * The only importer of the addon.
 *
 * States the native face of the scheduler in TypeScript and loads the binary. The addon's own
 * declarations are generated; the interface below is what the rest of the library relies on, and
 * this file fails to compile when the two drift apart. What native calls throw is typed by
 * `fromNative` of errors.ts. The face of the engine model is in simulation.ts,
 * that of workloads and fleets in workload.ts.
 */
import type {
  EngineHandle,
  RunHandle,
  SchedulerHandle,
  SnapshotHandle,
  WorkloadHandle,
} from '../index.js'
import { noBinary } from './platform.js'

export type { EngineHandle, RunHandle, SchedulerHandle, SnapshotHandle, WorkloadHandle }

/** Whether a worker takes turns; `removed` is for good. */
export const Health = { up: 0, draining: 1, down: 2, removed: 3, limited: 4 } as const

/** A turn as `link/frame.ts` packs it. */
type FramedTurn = [
  handle: SchedulerHandle,
  now: number,
  head: Uint32Array,
  ids: Uint8Array,
  prompt: Uint8Array,
  out: Float64Array,
]

/** `now` is whole microseconds since the Unix epoch; `out` is laid out in `link.ts`. */
export interface NativeFace {
  openScheduler(options: string, wake: () => void): SchedulerHandle
  checkOptions(options: string): void
  takeSteps(handle: SchedulerHandle): string | null
  sharedScheduler(name: string, options: string, wake: () => void): SchedulerHandle
  closeScheduler(handle: SchedulerHandle, now: number, out: Float64Array): void
  recallBody(
    handle: SchedulerHandle,
    names: Uint8Array,
    tenantBytes: number,
    body: Uint8Array,
    member: number,
  ): number
  changeBody(body: Uint8Array, changes: Uint8Array, lengths: Uint32Array, out: Uint8Array): number
  submitTurn(...turn: FramedTurn): number
  promptTokens(
    handle: SchedulerHandle,
    head: Uint32Array,
    ids: Uint8Array,
    prompt: Uint8Array,
  ): number
  rerouteTurn(
    handle: SchedulerHandle,
    now: number,
    id: number,
    lasts: boolean,
    out: Float64Array,
  ): void
  firstToken(handle: SchedulerHandle, now: number, id: number, out: Float64Array): void
  learnTokens(handle: SchedulerHandle, now: number, id: number, tokens: Uint32Array): void
  completeTurn(
    handle: SchedulerHandle,
    now: number,
    id: number,
    usage: Float64Array,
    lengths: Uint32Array,
    bytes: Uint8Array,
    out: Float64Array,
  ): boolean
  cancelTurn(
    handle: SchedulerHandle,
    now: number,
    id: number,
    failed: boolean,
    out: Float64Array,
  ): boolean
  pollScheduler(handle: SchedulerHandle, now: number, out: Float64Array): void
  holdState(handle: SchedulerHandle, id: number, out: Float64Array): boolean
  holdReasons(): string[]
  holdClasses(handle: SchedulerHandle): string[]
  counts(handle: SchedulerHandle): string
  tellTool(
    handle: SchedulerHandle,
    now: number,
    tenant: string,
    session: string,
    ended: boolean,
    expected: number,
    out: Float64Array,
  ): void
  candidates(...turn: FramedTurn): string
  topology(handle: SchedulerHandle): string
  addWorker(handle: SchedulerHandle, now: number, worker: string, out: Float64Array): number
  addGroup(handle: SchedulerHandle, now: number, group: string): number
  addTarget(handle: SchedulerHandle, target: string, out: Float64Array): number
  reviseTarget(handle: SchedulerHandle, target: number, revised: string, out: Float64Array): void
  removeTarget(handle: SchedulerHandle, target: number, out: Float64Array): void
  reviseWorker(handle: SchedulerHandle, worker: number, detail: string, out: Float64Array): void
  setCapacity(
    handle: SchedulerHandle,
    now: number,
    worker: number,
    tokens: number | undefined,
    out: Float64Array,
  ): void
  pulledEvents(
    handle: SchedulerHandle,
    now: number,
    worker: number,
    text: Uint8Array,
    failure: string,
    out: Float64Array,
  ): number | null
  addPool(handle: SchedulerHandle, now: number, pool: string, out: Float64Array): number
  removePool(handle: SchedulerHandle, now: number, pool: number, out: Float64Array): boolean
  pools(handle: SchedulerHandle): string
  poolSample(handle: SchedulerHandle, pool: number, most: number): string[] | null
  poolTold(
    handle: SchedulerHandle,
    now: number,
    pool: number,
    publishes: boolean | undefined,
    asked: number,
    gone: string[],
    out: Float64Array,
  ): boolean
  groupDisagreement(handle: SchedulerHandle, group: number): string | null
  workerLoad(handle: SchedulerHandle, worker: number): number[] | null
  setUntracked(
    handle: SchedulerHandle,
    now: number,
    worker: number,
    requests: number,
    tokens: number,
    out: Float64Array,
  ): void
  replaceWorker(
    handle: SchedulerHandle,
    now: number,
    worker: number,
    by: string,
    out: Float64Array,
  ): number
  setHealth(
    handle: SchedulerHandle,
    now: number,
    worker: number,
    health: number,
    out: Float64Array,
  ): void
  departWorker(
    handle: SchedulerHandle,
    now: number,
    worker: number,
    sessions: number,
    until: number,
    out: Float64Array,
  ): void
  resetCache(handle: SchedulerHandle, now: number, worker: number, out: Float64Array): void
  endSession(
    handle: SchedulerHandle,
    now: number,
    tenant: string,
    session: string,
    out: Float64Array,
  ): void
  turnHashes(
    handle: SchedulerHandle,
    id: number,
    cuts: Uint32Array,
    key: Uint8Array,
    out: BigUint64Array,
  ): number
  stateOwner(handle: SchedulerHandle, tenant: string, state: string): number[] | null
  toolOwner(handle: SchedulerHandle, tenant: string, call: string): number[] | null
  setModel(handle: SchedulerHandle, target: number, model: string): void
  beginSnapshot(handle: SchedulerHandle): SnapshotHandle
  writeSnapshot(
    handle: SchedulerHandle,
    snapshot: SnapshotHandle,
    now: number,
    out: Uint8Array,
  ): number
  endSnapshot(handle: SchedulerHandle, snapshot: SnapshotHandle): void
  restoreSnapshot(
    handle: SchedulerHandle,
    now: number,
    bytes: Uint8Array,
    exact: number,
    out: Float64Array,
  ): string
  receipt(handle: SchedulerHandle, id: number): string | null
  reasonCodes(): string[]
  status(handle: SchedulerHandle, now: number): string
}

export const addon = load()

export const native: NativeFace = addon

function load(): typeof import('../index.js') {
  try {
    return require('../index.js')
  } catch (cause) {
    throw noBinary(cause)
  }
}
