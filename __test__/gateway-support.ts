/** What the gateway's specs share: gateways and engines that live as long as a test, and waiting. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ExecutionContext } from 'ava'
import { type GatewayConfig, startGateway } from '../src/gateway/index.js'
import {
  type EngineDouble,
  type EngineDoubleOptions,
  startEngineDouble,
} from '../src/testing/index.js'

type Gateway = Awaited<ReturnType<typeof startGateway>>

/** A gateway that lives as long as the test. */
async function openGateway(t: ExecutionContext, config: GatewayConfig): Promise<Gateway> {
  const gateway = await startGateway({ port: 0, ...config })
  t.teardown(() => gateway.close())
  return gateway
}

/** A gateway over workers w0, w1, ... that takes any model name. */
function gatewayOver(
  t: ExecutionContext,
  servers: readonly { url: string }[],
  more: Partial<GatewayConfig> = {},
): Promise<Gateway> {
  const workers = servers.map(({ url }, index) => ({ id: `w${index}`, url }))
  return openGateway(t, { scheduler: { workers }, ...more })
}

/** An engine double that lives as long as the test. */
async function startDouble(
  t: ExecutionContext,
  options: EngineDoubleOptions,
): Promise<EngineDouble> {
  const double = await startEngineDouble(options)
  t.teardown(() => double.close())
  return double
}

/** Waits until `condition` holds; fails the test after `limitMs`. */
async function until(
  t: ExecutionContext,
  what: string,
  condition: () => boolean,
  limitMs = 30_000,
): Promise<void> {
  for (const end = Date.now() + limitMs; Date.now() < end; ) {
    if (condition()) {
      t.pass()
      return
    }
    await sleep(5)
  }
  t.fail(`never happened: ${what}`)
}

export { type Gateway, gatewayOver, openGateway, startDouble, until }
