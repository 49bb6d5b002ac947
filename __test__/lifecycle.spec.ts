import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import test from 'ava'

const run = promisify(execFile)

/** Runs a script that uses the library in a process of its own. */
async function script(code: string): Promise<string> {
  const source = `
    const { Scheduler } = require('./src/index.ts')
    const { crowded, crowdedTurn, chat } = require('./__test__/support/requests.ts')
    ;(async () => { ${code} })()`
  const args = ['--import=tsx', '--expose-gc', '-e', source]
  const { stdout } = await run(process.execPath, args, { cwd: `${__dirname}/..`, timeout: 60_000 })
  return stdout.trim()
}

test('neither a scheduler, a running turn, a hold nor a timer keeps a process alive', async (t) => {
  const output = await script(`
    const options = {
      workers: [{ url: 'http://a', capacityTokens: 2000 }],
      admission: { policy: 'thunderagent', intervalMs: 60_000 },
    }
    const one = new Scheduler(options)
    const two = Scheduler.shared('x', options)
    for (const scheduler of [one, two]) {
      await scheduler.submit(crowdedTurn('r1'))
      await scheduler.submit(crowdedTurn('r2'))
      scheduler.submit(crowdedTurn('h1', { onHold: () => console.log('held') }))
    }`)
  t.is(output, 'held\nheld')
})

test('the timer wakes a hold while something else keeps the process alive', async (t) => {
  const output = await script(`
    const scheduler = new Scheduler({
      workers: [{ url: 'http://a', capacityTokens: 2000 }],
      admission: { policy: 'thunderagent', intervalMs: 20 },
    })
    const running = [
      await scheduler.submit(crowdedTurn('r1')),
      await scheduler.submit(crowdedTurn('r2')),
    ]
    const wait = scheduler.submit(crowdedTurn('h1'))
    for (const turn of running) {
      turn.complete({ promptTokens: 850 })
      scheduler.endSession(turn.session)
    }
    const alive = setTimeout(() => {}, 30_000)
    const turn = await wait
    clearTimeout(alive)
    console.log(turn.worker)`)
  t.is(output, 'a')
})

test('a scheduler is collected when it is forgotten, closed or not, but not while a turn waits', async (t) => {
  const output = await script(`
    const seen = []
    for (let at = 0; at < 20; at += 1) {
      const f = crowded()
      const turn = await f.scheduler.submit(chat('s'))
      turn.complete()
      seen.push(new WeakRef(f.scheduler))
      if (at % 2 === 0) f.scheduler.close()
    }
    let outcome = 'waiting'
    await (async () => {
      const scheduler = new Scheduler({
        workers: [{ url: 'http://a', capacityTokens: 2000 }],
        admission: { policy: 'thunderagent' },
      })
      const turns = [await scheduler.submit(crowdedTurn('r1')), await scheduler.submit(crowdedTurn('r2'))]
      scheduler.submit(crowdedTurn('h1')).then(
        (turn) => { outcome = 'went'; turn.complete() },
        (error) => { outcome = error.code },
      )
      return turns.length
    })()
    for (let at = 0; at < 30; at += 1) {
      gc()
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    console.log(seen.filter((ref) => ref.deref() !== undefined).length <= 1, outcome)`)
  t.is(output, 'true went')
})
