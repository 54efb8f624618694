"""d3rlpy's IQL, timed in an environment of its own: it cannot share ours."""

from __future__ import annotations

import json
import subprocess

from benchmarks.parts.workload import ACTIONS, BATCH, ROWS, STATES

D3RLPY = """
import json, sys, time
import numpy as np, torch, d3rlpy
threads, seconds, states, actions, rows, batch = json.loads(sys.argv[1])
torch.set_num_threads(threads); torch.set_flush_denormal(True)
rng = np.random.default_rng(0)
data = d3rlpy.dataset.MDPDataset(
    observations=rng.standard_normal((rows, states)).astype(np.float32),
    actions=rng.uniform(-1, 1, (rows, actions)).astype(np.float32),
    rewards=rng.standard_normal((rows, 1)).astype(np.float32),
    terminals=(np.arange(rows) % 1000 == 999).astype(np.float32),
)
algorithm = d3rlpy.algos.IQLConfig(batch_size=batch).create(device="cpu:0")
algorithm.build_with_dataset(data)
drawn = [data.sample_transition_batch(batch) for _ in range(64)]
now = time.process_time if threads == 1 else time.perf_counter
taken, step, end = [], 0, time.perf_counter() + seconds
while time.perf_counter() < end or len(taken) < 5:
    count = max(1, int(0.05 / taken[-1])) if taken else 3
    started = now()
    for _ in range(count):
        algorithm.update(drawn[step % 64]); step += 1
    taken.append((now() - started) / count)
print(1 / np.median(taken[1:]))
"""


def d3rlpy_rate(python: str, threads: int, seconds: float) -> float:
    """Return d3rlpy's IQL updates a second, batches drawn beforehand, in its own environment."""
    given = json.dumps([threads, seconds, STATES, ACTIONS, ROWS, BATCH])
    done = subprocess.run(
        [python, "-W", "ignore", "-c", D3RLPY, given], capture_output=True, text=True, check=True
    )
    return float(done.stdout.strip().splitlines()[-1])
