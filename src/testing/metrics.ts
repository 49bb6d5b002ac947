/** The double's counts under the names and labels of vLLM, as Prometheus text. Times are model time. */
import type { EngineModelStatus } from '../simulation.js'

const TTFT_BOUNDS = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
  160, 640, 2560,
]
const E2E_BOUNDS = [
  0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
]

/** Counts of values up to each bound. */
class Histogram {
  readonly #counts: number[]
  #count = 0
  #sum = 0

  constructor(readonly bounds: readonly number[]) {
    this.#counts = bounds.map(() => 0)
  }

  add(value: number): void {
    this.#count += 1
    this.#sum += value
    for (const [i, bound] of this.bounds.entries()) {
      if (value <= bound) this.#counts[i] = (this.#counts[i] ?? 0) + 1
    }
  }

  lines(name: string, labels: string): string[] {
    const bucket = (bound: string, count: number) =>
      `${name}_bucket{${labels},le="${bound}"} ${count}`
    return [
      `# TYPE ${name} histogram`,
      ...this.bounds.map((bound, i) => bucket(String(bound), this.#counts[i] ?? 0)),
      bucket('+Inf', this.#count),
      `${name}_count{${labels}} ${this.#count}`,
      `${name}_sum{${labels}} ${this.#sum}`,
    ]
  }
}

/** How requests ended, for the success counter. */
interface Outcomes {
  stop: number
  length: number
  abort: number
}

class DoubleMetrics {
  readonly #ttft = new Histogram(TTFT_BOUNDS)
  readonly #e2e = new Histogram(E2E_BOUNDS)
  readonly outcomes: Outcomes = { stop: 0, length: 0, abort: 0 }

  /** Seconds of model time; `firstToken` is absent when none was made. */
  ended(outcome: keyof Outcomes, seconds: number, firstToken: number | undefined): void {
    this.outcomes[outcome] += 1
    if (firstToken !== undefined) this.#ttft.add(firstToken)
    if (outcome !== 'abort') this.#e2e.add(seconds)
  }

  render(model: string, engine: EngineModelStatus): string {
    const labels = `engine="0",model_name="${escapeLabel(model)}"`
    const one = (type: 'gauge' | 'counter', name: string, value: number) => [
      `# TYPE vllm:${name} ${type}`,
      `vllm:${name}{${labels}} ${value}`,
    ]
    const computed = engine.queryTokens - engine.hitTokens
    const source = (name: string, value: number) =>
      `vllm:prompt_tokens_by_source_total{${labels},source="${name}"} ${value}`
    const success = (reason: keyof Outcomes) =>
      `vllm:request_success_total{${labels},finished_reason="${reason}"} ${this.outcomes[reason]}`
    const config = `block_size="${engine.blockSize}",num_gpu_blocks="${engine.numGpuBlocks}"`
    return [
      ...one('gauge', 'num_requests_running', engine.running),
      ...one('gauge', 'num_requests_waiting', engine.waiting),
      ...one('gauge', 'kv_cache_usage_perc', engine.usedBlocks / engine.numGpuBlocks),
      ...one('counter', 'prefix_cache_queries_total', engine.queryTokens),
      ...one('counter', 'prefix_cache_hits_total', engine.hitTokens),
      ...one('counter', 'num_preemptions_total', engine.preemptions),
      ...one('counter', 'prompt_tokens_total', engine.queryTokens),
      '# TYPE vllm:prompt_tokens_by_source_total counter',
      source('local_compute', computed),
      source('local_cache_hit', engine.hitTokens),
      ...one('counter', 'prompt_tokens_cached_total', engine.hitTokens),
      ...one('counter', 'generation_tokens_total', engine.outputTokens),
      '# TYPE vllm:request_success_total counter',
      success('stop'),
      success('length'),
      success('abort'),
      ...this.#ttft.lines('vllm:time_to_first_token_seconds', labels),
      ...this.#e2e.lines('vllm:e2e_request_latency_seconds', labels),
      '# TYPE vllm:cache_config_info gauge',
      `vllm:cache_config_info{${config},${labels}} 1`,
      '',
    ].join('\n')
  }
}

function escapeLabel(label: string): string {
  return label.replace(/[\\"]/g, '\\$&').replace(/\n/g, '\\n')
}

export { DoubleMetrics }
