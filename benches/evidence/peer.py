"""Replays a trace with the published simulator and prints its figures as JSON, one object a run.

Usage: peer.py TRACE RUNS, with a Python that has ai-dynamo 1.6.1 and its runtime. Round robin is run once
with 4 and with 8 workers, since it draws nothing; the KV router RUNS times, since its ties are drawn
without a seed. `cpu_s` is processor time of this process, without capture of each request.
"""
import json
import os
import sys
import time

os.environ.setdefault("DYN_LOG", "error")
from dynamo.llm import KvRouterConfig  # noqa: E402
from dynamo.replay import run_trace_replay  # noqa: E402

BLOCK = 512
CACHE_TOKENS = 1 << 20


def run(trace, workers, mode):
    began = time.process_time()
    report = run_trace_replay(
        [trace],
        extra_engine_args={"engine": {"block_size": BLOCK, "num_gpu_blocks": CACHE_TOKENS // BLOCK}},
        router_config=KvRouterConfig(),
        num_workers=workers,
        router_mode=mode,
        trace_block_size=BLOCK,
        trace_format="mooncake",
        capture_per_request=False,
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


trace, runs = sys.argv[1], int(sys.argv[2])
matrix = [(workers, mode) for workers in (4, 8) for mode in ("round_robin", "kv_router")]
print(
    json.dumps(
        [
            run(trace, workers, mode)
            for workers, mode in matrix
            for _ in range(runs if mode == "kv_router" else 1)
        ]
    )
)
