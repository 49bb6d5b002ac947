/**
 * What an engine's `/metrics` says of its load and its cache.
 *
 * The names of vLLM (which llm-d's simulator has too), SGLang and TensorRT-LLM. Figures of a server are
 * the sums over its data-parallel ranks; a share is that of the fullest. The share in use counts blocks
 * of running requests only: an idle engine whose cache is full says 0. Lines that are no samples of an
 * engine are passed over, and figures that cannot be. O(text).
 */

export interface EngineMetrics {
  readonly engine: 'vllm' | 'sglang' | 'tensorrt-llm'
  readonly running?: number
  readonly waiting?: number
  /** Share of the cache that running requests hold, 0 to 1. */
  readonly used?: number
  /** Tokens that the cache can hold. */
  readonly capacityTokens?: number
  readonly blockTokens?: number
  readonly prefixCaching?: boolean
}

interface Sample {
  readonly name: string
  readonly labels: ReadonlyMap<string, string>
  readonly value: number
}

/** Longer lines are nobody's. */
const MAX_LINE = 4096
/** Of all ranks and models of a server. */
const MAX_SAMPLES = 10_000
const MAX_REQUESTS = 1_000_000
const OF_ENGINES = /^(?:vllm:|sglang:|trtllm_)/
const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g

/** Undefined when there is nothing of an engine that is known here. */
export function readMetrics(text: string): EngineMetrics | undefined {
  const samples = samplesOf(text)
  const has = (prefix: string) => samples.some(({ name }) => name.startsWith(prefix))
  if (has('vllm:')) return vllm(samples)
  if (has('sglang:')) return sglang(samples)
  return has('trtllm_') ? tensorrt(samples) : undefined
}

function samplesOf(text: string): Sample[] {
  const samples: Sample[] = []
  for (let at = 0; at < text.length && samples.length < MAX_SAMPLES; ) {
    const found = text.indexOf('\n', at)
    const end = found === -1 ? text.length : found
    if (end - at <= MAX_LINE) {
      const line = text.slice(at, end)
      const sample = OF_ENGINES.test(line) ? sampleOf(line) : undefined
      if (sample !== undefined) samples.push(sample)
    }
    at = end + 1
  }
  return samples
}

function vllm(samples: readonly Sample[]): EngineMetrics {
  const config = named(samples, 'vllm:cache_config_info')
  const blockTokens = count(config[0]?.labels.get('block_size'))
  const caching = config[0]?.labels.get('enable_prefix_caching')
  const capacities = config.map(({ labels }) => {
    const blocks = count(labels.get('num_gpu_blocks'))
    const tokens = count(labels.get('kv_cache_size_tokens'))
    const all = tokens ?? (blocks ?? Number.NaN) * (blockTokens ?? Number.NaN)
    // One block stands for none and holds nothing.
    return all - (blockTokens ?? 0)
  })
  return drop({
    engine: 'vllm',
    running: sum(samples, 'vllm:num_requests_running'),
    waiting: sum(samples, 'vllm:num_requests_waiting'),
    used: most(samples, 'vllm:kv_cache_usage_perc') ?? most(samples, 'vllm:gpu_cache_usage_perc'),
    capacityTokens: total(capacities),
    blockTokens,
    prefixCaching: caching === undefined ? undefined : caching === 'True',
  })
}

function sglang(samples: readonly Sample[]): EngineMetrics {
  const config = named(samples, 'sglang:cache_config_info')[0]
  return drop({
    engine: 'sglang',
    running: sum(samples, 'sglang:num_running_reqs'),
    waiting: sum(samples, 'sglang:num_queue_reqs'),
    used: most(samples, 'sglang:token_usage'),
    capacityTokens: sum(samples, 'sglang:max_total_num_tokens'),
    blockTokens: count(config?.labels.get('page_size')) ?? most(samples, 'sglang:page_size'),
    prefixCaching: undefined,
  })
}

function tensorrt(samples: readonly Sample[]): EngineMetrics {
  const blockTokens = most(samples, 'trtllm_kv_cache_tokens_per_block')
  const blocks = sum(samples, 'trtllm_kv_cache_max_blocks')
  return drop({
    engine: 'tensorrt-llm',
    running: sum(samples, 'trtllm_num_requests_running'),
    waiting: sum(samples, 'trtllm_num_requests_waiting'),
    used: most(samples, 'trtllm_kv_cache_utilization'),
    capacityTokens: total([(blocks ?? Number.NaN) * (blockTokens ?? Number.NaN)]),
    blockTokens,
    prefixCaching: undefined,
  })
}

function sampleOf(line: string): Sample | undefined {
  const [, name, labels = '', number] = SAMPLE.exec(line) ?? []
  const value = Number(number)
  if (name === undefined || Number.isNaN(value)) return undefined
  const pairs = [...labels.matchAll(LABEL)].map(([, key = '', text = '']) => [key, text] as const)
  return { name, labels: new Map(pairs), value }
}

function named(samples: readonly Sample[], name: string): Sample[] {
  return samples.filter((sample) => sample.name === name)
}

function sum(samples: readonly Sample[], name: string): number | undefined {
  return total(named(samples, name).map(({ value }) => value))
}

function most(samples: readonly Sample[], name: string): number | undefined {
  const values = named(samples, name).map(({ value }) => value)
  return values.length === 0 ? undefined : values.reduce((a, b) => Math.max(a, b))
}

/** Undefined for a sum of nothing, or of something that is not known. */
function total(values: readonly number[]): number | undefined {
  const all = values.reduce((a, b) => a + b, 0)
  return values.length === 0 || Number.isNaN(all) ? undefined : all
}

/** A label's value, unless it is `None`. */
function count(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined
}

type Found = { readonly [Key in keyof EngineMetrics]-?: EngineMetrics[Key] | undefined }

/** What cannot be is not known: a share beyond one, a cache of no tokens, more requests than there are numbers. */
function drop({
  running,
  waiting,
  used,
  capacityTokens,
  blockTokens,
  ...rest
}: Found): EngineMetrics {
  const found = {
    ...rest,
    running: within(running, 0, MAX_REQUESTS),
    waiting: within(waiting, 0, MAX_REQUESTS),
    used: used !== undefined && used >= 0 && used <= 1 ? used : undefined,
    capacityTokens: within(capacityTokens, 1, Number.MAX_SAFE_INTEGER),
    blockTokens: within(blockTokens, 1, MAX_REQUESTS),
  }
  const known = Object.entries(found).filter(([, value]) => value !== undefined)
  return Object.fromEntries(known) as unknown as EngineMetrics
}

/** The whole part, unless it is out of range. */
function within(value: number | undefined, least: number, most: number): number | undefined {
  const whole = value === undefined ? Number.NaN : Math.floor(value)
  return whole >= least && whole <= most ? whole : undefined
}
