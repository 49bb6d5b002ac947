/** Question: what is a worker told that gives its sessions away, and by when? */
import { checkFields, checkString, refuseArgument } from '../argument.js'
import type { Link } from '../link.js'
import { native } from '../native.js'

export interface DrainOptions {
  /** Absent: now. */
  deadlineSeconds?: number
}

export interface ShedOptions {
  /** At least 1. */
  sessions: number
  /** Default 300. */
  deadlineSeconds?: number
}

interface Departure {
  readonly id: string
  readonly seconds: number
  /** 0: all, and then the worker drains. */
  readonly sessions: number
}

const SHED_SECONDS = 300
/** A year. */
const MOST_SECONDS = 31_536_000
const MOST_SESSIONS = 0xffff_ffff

export function deadlineOf(options: DrainOptions): number | undefined {
  checkFields(options, 'options', ['deadlineSeconds'])
  return checkedSeconds(options.deadlineSeconds)
}

function checkedSeconds(seconds: number | undefined): number | undefined {
  if (seconds === undefined) return undefined
  const fits = typeof seconds === 'number' && seconds >= 0 && seconds <= MOST_SECONDS
  return fits ? seconds : refuseArgument('deadlineSeconds', `0 to ${MOST_SECONDS}`)
}

export function shedOf(id: string, options: ShedOptions): Departure {
  checkFields(options, 'options', ['sessions', 'deadlineSeconds'])
  const seconds = checkedSeconds(options.deadlineSeconds) ?? SHED_SECONDS
  const { sessions } = options
  if (!(Number.isInteger(sessions) && sessions >= 1 && sessions <= MOST_SESSIONS)) {
    refuseArgument('sessions', `a whole number from 1 to ${MOST_SESSIONS}`)
  }
  return { id, seconds, sessions }
}

export function departWorker(link: Link, { id, seconds, sessions }: Departure): void {
  checkString(id, 'id')
  const { index } = link.fresh().workerById(id)
  link.call((handle, now, out) => {
    native.departWorker(handle, now, index, sessions, now + Math.round(seconds * 1e6), out)
  })
}
