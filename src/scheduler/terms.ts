/** Question: which workers, targets and names hold for the next turn? Replaced as a whole when options change. */
import { Catalog, type ResolvedConfig } from '../config/index.js'

export class Terms {
  config: ResolvedConfig
  catalog: Catalog
  /** Whether any target's prompts are known by tokens. */
  wantsTokens: boolean

  constructor(config: ResolvedConfig) {
    this.config = config
    this.catalog = new Catalog(config.targets, config.aliases)
    this.wantsTokens = wantsTokens(config)
  }

  /** What may change while turns run is as in `next` from now on. O(workers + targets). */
  goOver(next: ResolvedConfig): void {
    const { workers, targets, pools, aliases, groups } = next
    this.config = { ...this.config, workers, targets, pools, aliases, groups }
    this.catalog = new Catalog(targets, aliases)
    this.wantsTokens = wantsTokens(next)
  }
}

function wantsTokens({ targets }: ResolvedConfig): boolean {
  return targets.some(({ tokens }) => tokens !== 'text')
}
