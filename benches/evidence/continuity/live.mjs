/** Sessions over HTTP through engine doubles that remember what they have issued. */
import { built, within } from '../shared.mjs'

const OPTIONS = { sessions: 162, turns: 17, tasks: 24, live: 16, seed: 1 }
const LEAST_REQUESTS = 2_896
const LEAST_TASKS = 18

export async function liveClaims({ claim, say }) {
  const { live } = built('evidence/live.js')
  say('driving engine doubles over HTTP')
  const found = await live(OPTIONS)
  const claims = [
    ['requests over HTTP', 'requests', found.requests, 'requests', { least: LEAST_REQUESTS }],
    [
      'turns that change the model, of all',
      'switched',
      found.switches / found.requests,
      'share',
      { least: 0.1 },
    ],
    [
      'ids that reached a double which had not issued them',
      'foreign',
      found.foreign,
      'requests',
      { most: 0 },
    ],
    [
      'bound turns at another model than the one before',
      'unsafe',
      found.unsafe,
      'turns',
      { most: 0 },
    ],
    [
      'turns that lean on a call or a stored response',
      'bound',
      found.bound,
      'turns',
      { least: 500 },
    ],
    ['answers of 503 on the way', 'faults', found.faults, 'answers', { least: 1 }],
    ['turns that did not end with 200', 'failed', found.failed, 'turns', { most: 0 }],
    [
      'turns whose answer says where it went and why',
      'told',
      found.told / found.requests,
      'share',
      { least: 1 },
    ],
    ['scripted tasks', 'tasks', found.tasks, 'tasks', { least: LEAST_TASKS }],
    ['tasks whose end is right', 'tasks-right', found.right / found.tasks, 'share', { least: 1 }],
  ]
  for (const [text, name, value, unit, { least, most }] of claims) {
    const goal = least === undefined ? `<= ${most}` : `>= ${least}`
    const row = within({ name: `continuity.live.${name}`, value, unit, goal, least, most })
    claim({ text, seed: OPTIONS.seed, row })
  }
}
