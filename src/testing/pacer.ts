/**
 * Runs the engine model against real time: one timer, set to the model's next event.
 *
 * Model time is real time since the start times `speed`. The model computes its own times exactly;
 * what real timers add is only how late a client sees them, and that is measured: `lag` is how far
 * model time had moved on when an event was handed over. Events of one wake-up are handed over
 * together, so a late timer costs fewer, larger steps and not a growing delay.
 */
import { performance } from 'node:perf_hooks'

import {
  type EngineEnd,
  EngineModel,
  type EngineModelOptions,
  type EngineModelStatus,
} from '../simulation.js'
import { Sample, type SampleSummary } from './sample.js'

/** How far a request is; times in model ms. */
interface Progress {
  readonly id: number
  readonly arrival: number
  readonly promptTokens: number
  admitted: number | undefined
  /** Prompt tokens that were found in the cache when it was first admitted. */
  cachedTokens: number
  produced: number
  firstToken: number | undefined
  ended: number | undefined
  end: EngineEnd | undefined
}

interface PacerOptions {
  engine: EngineModelOptions
  /** Model time for each unit of real time. */
  speed: number
  /** The real time (performance.now()) at which model time is 0. */
  epoch: number
}

/** Longest sleep of a Node timer. */
const MOST_SLEEP_MS = 2 ** 31 - 1

class Pacer {
  readonly #model: EngineModel
  readonly #speed: number
  readonly #epoch: number
  readonly #lag = new Sample()
  readonly #requests = new Map<number, { progress: Progress; changed: (p: Progress) => void }>()
  #timer: NodeJS.Timeout | undefined
  #nextId = 1
  #closed = false

  constructor({ engine, speed, epoch }: PacerOptions) {
    this.#model = new EngineModel(engine)
    this.#speed = speed
    this.#epoch = epoch
  }

  /** Model time, ms. */
  now(): number {
    return Math.max(0, (performance.now() - this.#epoch) * this.#speed)
  }

  /** Starts a request; `changed` is called after each step it makes, the last time with an end. */
  submit(prompt: Uint32Array, output: Uint32Array, changed: (p: Progress) => void): Progress {
    const arrival = this.now()
    const progress: Progress = {
      id: this.#nextId++,
      arrival,
      promptTokens: prompt.length,
      admitted: undefined,
      cachedTokens: 0,
      produced: 0,
      firstToken: undefined,
      ended: undefined,
      end: undefined,
    }
    this.#model.submit(arrival, progress.id, prompt, output)
    this.#requests.set(progress.id, { progress, changed })
    this.#pump()
    return progress
  }

  /** Gives a request up; it ends with the pass under way. */
  cancel(id: number): void {
    if (this.#closed) return
    this.#model.cancel(id)
    this.#pump()
  }

  status(): EngineModelStatus {
    return this.#model.status()
  }

  lag(): SampleSummary {
    return this.#lag.summary()
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
    this.#requests.clear()
  }

  #pump(): void {
    if (this.#closed) return
    const changed = this.#collect()
    this.#schedule()
    for (const request of changed) request.changed(request.progress)
  }

  /** Brings the model up to now; the requests that made a step. */
  #collect() {
    const now = this.now()
    const touched = new Set<{ progress: Progress; changed: (p: Progress) => void }>()
    this.#model.advance(now, (event) => {
      const request = this.#requests.get(event.id)
      if (request === undefined) return
      const { progress } = request
      if (event.kind === 'admitted') {
        if (progress.admitted === undefined) progress.cachedTokens = event.cachedTokens
        progress.admitted ??= event.at
        return
      }
      if (event.kind === 'preempted') return
      this.#lag.add(now - event.at)
      touched.add(request)
      progress.produced = event.produced
      if (event.kind === 'token') {
        progress.firstToken ??= event.at
      } else {
        progress.ended = event.at
        progress.end = event.end
        this.#requests.delete(event.id)
      }
    })
    return touched
  }

  #schedule(): void {
    clearTimeout(this.#timer)
    const next = this.#model.next()
    if (next === undefined) return
    const sleep = Math.min(MOST_SLEEP_MS, Math.max(0, (next - this.now()) / this.#speed))
    this.#timer = setTimeout(() => this.#pump(), sleep).unref()
  }
}

export { Pacer, type PacerOptions, type Progress }
