/**
 * Question: which rooms does a scheduler have, and how long do they live?
 *
 * Opens them around one link, each with what it may borrow, and closes them in the order that leaves nobody
 * waiting. Whatever is found wrong while they are opened closes those that were open already.
 */
import type { Clock } from '../clock.js'
import { type ResolvedConfig, resolve, type SchedulerOptions } from '../config/index.js'
import { WarmpathError } from '../errors.js'
import { Exact } from '../exact.js'
import { Fleet, type Reconfigured, refuseFixed } from '../fleet.js'
import type { Link } from '../link.js'
import { openRecorder, type Recorder } from '../trace/index.js'
import { type RequestRules, tenantRule } from '../turn/request.js'
import { Destinations } from './destinations.js'
import { Intake } from './intake.js'
import { checkNative, checkTargets, clockOf, openLink, refusePulled } from './opening.js'
import { Terms } from './terms.js'
import { Turns } from './turns.js'
import { Watchers } from './watchers.js'

export class Rooms {
  readonly link: Link
  readonly terms: Terms
  readonly rules: RequestRules
  readonly intake: Intake
  readonly turns: Turns
  readonly destinations: Destinations
  readonly watchers: Watchers
  readonly recorder: Recorder | undefined
  readonly #fleet: Fleet
  readonly #exact: Exact
  readonly #isShared: boolean

  /** Throws CONFIG with the path of the field. `name`: of one that is shared. */
  constructor(options: SchedulerOptions, name: string | undefined) {
    const config = resolve(options)
    const clock = clockOf(config)
    const link = openLink(config, clock, name)
    const terms = new Terms(config)
    const { bodyBytes } = config.settings.limits
    this.link = link
    this.terms = terms
    this.rules = { bodyBytes, tenant: tenantRule(config.identity.tenant) }
    this.#isShared = name !== undefined
    let watchers: Watchers | undefined
    try {
      checkTargets(name, link, config)
      if (name !== undefined) refusePulled(config)
      this.#fleet = new Fleet(link, config)
      this.#exact = exactOf(link, config)
      watchers = new Watchers(link, config)
      this.watchers = watchers
      this.recorder = openRecorder(config, link, clock)
    } catch (error) {
      watchers?.close()
      link.close()
      throw error
    }
    this.intake = new Intake(link, terms, this.rules)
    this.destinations = new Destinations(link, terms)
    this.turns = this.#openTurns(clock)
  }

  /** See `Scheduler.reconfigure`. */
  goOver(options: SchedulerOptions): Reconfigured {
    if (this.#isShared) {
      throw new WarmpathError('WARMPATH_CONFIG', 'options: those of a shared scheduler stay')
    }
    if (this.link.closed) throw new WarmpathError('WARMPATH_CLOSED', 'the scheduler is closed')
    const next = resolve(options)
    refuseFixed(this.terms.config, next)
    checkNative(next)
    const changes = this.#fleet.goOver(next)
    this.terms.goOver(next)
    this.watchers.goOver(next.pools)
    return changes
  }

  /** Idempotent. */
  close(): void {
    this.#exact.close()
    this.watchers.close()
    this.#fleet.close()
    this.link.close()
    this.recorder?.close()
  }

  #openTurns(clock: Clock): Turns {
    const { link, terms, intake, recorder } = this
    return new Turns({ link, terms, intake, exact: this.#exact, recorder, clock })
  }
}

function exactOf(link: Link, { tokens, settings, forwardHeaders, logger }: ResolvedConfig): Exact {
  const { bodyBytes } = settings.limits
  return new Exact({ link, settings: tokens, bodyBytes, forwardHeaders, logger })
}
