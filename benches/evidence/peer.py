"""Replays a trace with the published simulator and prints its figures as JSON, one object a run.

Usage: peer.py SPEC, with a Python that has ai-dynamo 1.6.1 and its runtime. SPEC is JSON: `trace` (a file,
or a folder of plain files), `format` (mooncake or weka), `block` and `cache` (tokens), `workers` (a list),
`runs`. Round robin is run once for each number of workers, since it draws nothing; the KV router `runs`
times, since its ties are drawn without a seed. `cpu_s` is processor time of this process, without capture
of each request.
"""
import json
import os
import sys
import time

os.environ.setdefault("DYN_LOG", "error")
from dynamo.llm import KvRouterConfig  # noqa: E402
from dynamo.replay import run_trace_replay  # noqa: E402

# Sessions name the model that each request wants; any engine may take any of them.
EXECUTION = {"mooncake": {}, "weka": {"execution_model": "any"}}


def run(spec, workers, mode):
    began = time.process_time()
    report = run_trace_replay(
        [spec["trace"]],
        extra_engine_args={
            "engine": {"block_size": spec["block"], "num_gpu_blocks": spec["cache"] // spec["block"]}
        },
        router_config=KvRouterConfig(),
        num_workers=workers,
        router_mode=mode,
        trace_block_size=spec["block"],
        trace_format=spec["format"],
        capture_per_request=False,
        **EXECUTION[spec["format"]],
    )
    cpu = time.process_time() - began
    found = report.to_dict()["summary"]
    return {
        "workers": workers,
        "mode": mode,
        "cpu_s": round(cpu, 3),
        "hit": found["prefix_cache_reused_ratio"],
        "ttft_p50": found["median_ttft_ms"],
        "ttft_p95": found["p95_ttft_ms"],
        "e2e_p50": found["median_e2e_latency_ms"],
        "e2e_p95": found["p95_e2e_latency_ms"],
    }


spec = json.loads(sys.argv[1])
print(
    json.dumps(
        [
            run(spec, workers, mode)
            for workers in spec["workers"]
            for mode in ("round_robin", "kv_router")
            for _ in range(spec["runs"] if mode == "kv_router" else 1)
        ]
    )
)
