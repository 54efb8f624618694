"""Speed of the stacked training: against a loop over modules, its own matrix products, and d3rlpy.

``python benchmarks/deep.py [--quick] [--json] [--threads N] [--d3rlpy PYTHON]``: everything is
timed in the same run with the same threads, in turns, and the median round of each counts. On one
thread the clock is the processor's time, which a busy machine disturbs least; with more it is the
wall's. Exit code 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from parts.options import parser as options_parser
from parts.options import print_json
from torch import Tensor, nn

from tailproof.aggregate import Quantile
from tailproof.deep.actor_critic import ActorCriticLearner
from tailproof.deep.actors import LOG_STD, SoftActor
from tailproof.deep.cloning import CloningLearner
from tailproof.deep.data import Draws, Normals, Table
from tailproof.deep.implicit import Expectile, ImplicitLearner
from tailproof.deep.losses import exponential_weight, squashed_log_density

STATES, ACTIONS, ROWS, BATCH = 17, 6, 20_000, 256
TARGETS = {
    "IQL K=5: stacked / loop over modules": 2.2,
    "IQL K=5: stacked / its own matrix products": 0.65,
    "IQL K=1: ours / d3rlpy": 2.5,
    "SAC-N N=10: stacked / loop over modules": 1.6,
}


def table() -> Table:
    rng = np.random.default_rng(0)
    return Table(
        {
            "actions": rng.uniform(-1, 1, (ROWS, ACTIONS)),
            "states": rng.standard_normal((ROWS, STATES)),
            "next_states": rng.standard_normal((ROWS, STATES)),
            "rewards": rng.standard_normal((ROWS, 1)),
            "discounts": np.full((ROWS, 1), 0.99),
            "weights": rng.exponential(size=(ROWS, 1)),
        }
    )


def iql(data: Table, members: int, hidden: tuple[int, ...]) -> ImplicitLearner:
    rows = np.array_split(np.arange(ROWS), members)
    return ImplicitLearner(
        data,
        Draws(rows, range(members), BATCH),
        range(members),
        Expectile(0.7, 3.0, 100.0),
        shared=False,
        backup=None,
        hidden=hidden,
        batch=BATCH,
        twins=2,
        huber=None,
        n_actions=None,
        learning_rate=3e-4,
        target_rate=0.005,
    )


def policy(data: Table, hidden: tuple[int, ...]) -> CloningLearner:
    return CloningLearner(
        data,
        Draws([np.arange(ROWS)], [0], BATCH),
        0,
        hidden=hidden,
        batch=BATCH,
        n_actions=None,
        learning_rate=3e-4,
        steps=10**6,
    )


def sac(data: Table, members: int, hidden: tuple[int, ...]) -> ActorCriticLearner:
    actor = SoftActor(
        STATES,
        ACTIONS,
        0,
        BATCH,
        hidden=hidden,
        learning_rate=3e-4,
        target_entropy=-float(ACTIONS),
        temperature=0.2,
    )
    return ActorCriticLearner(
        data,
        Draws([np.arange(ROWS)], [0], BATCH),
        Normals(0, (2, BATCH, ACTIONS)),
        range(members),
        actor,
        shared=True,
        backup=Quantile(0.0),
        hidden=hidden,
        batch=BATCH,
        twins=1,
        delay=1,
        learning_rate=3e-4,
        target_rate=0.005,
    )


def perceptron(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for wide, out in pairwise(widths):
        layers += [nn.Linear(wide, out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def follow(slow: nn.Module, fast: nn.Module) -> None:
    with torch.no_grad():
        for kept, moved in zip(slow.parameters(), fast.parameters(), strict=True):
            kept.mul_(1 - 0.005).add_(moved, alpha=0.005)


class LoopedIQL:
    """The usual way: K learners of modules, autograd and torch's Adam, one after the other."""

    def __init__(self, data: Table, members: int, hidden: tuple[int, ...]) -> None:
        self.data, self.learners = data, []
        self.draws = Draws(np.array_split(np.arange(ROWS), members), range(members), BATCH)
        for _ in range(members):
            twins = nn.ModuleList(perceptron(STATES + ACTIONS, *hidden, 1) for _ in range(2))
            value = perceptron(STATES, *hidden, 1)
            adam_q = torch.optim.Adam(twins.parameters(), lr=3e-4)
            adam_v = torch.optim.Adam(value.parameters(), lr=3e-4)
            self.learners.append((twins, copy.deepcopy(twins), value, adam_q, adam_v))

    def update(self, step: int) -> None:
        """Take one gradient step of every member."""
        batch = self.data.gather(self.draws(step))
        for k, (twins, slow, value, adam_q, adam_v) in enumerate(self.learners):
            pairs, states = batch["pairs"][k], batch["states"][k]
            with torch.no_grad():
                target = torch.min(slow[0](pairs), slow[1](pairs))
                after = value(batch["next_states"][k])
                goal = batch["rewards"][k] + batch["discounts"][k] * after
            advantage = target - value(states)
            loss = (torch.abs(0.7 - (advantage < 0).float()) * advantage**2).mean()
            adam_v.zero_grad()
            loss.backward()
            adam_v.step()
            loss = sum(nn.functional.mse_loss(q(pairs), goal) for q in twins) / 2
            adam_q.zero_grad()
            loss.backward()
            adam_q.step()
            follow(slow, twins)


class LoopedSAC:
    """SAC-N as a loop over N critic modules and autograd."""

    def __init__(self, data: Table, members: int, hidden: tuple[int, ...]) -> None:
        self.data = data
        self.draws = Draws([np.arange(ROWS)], [0], BATCH)
        self.critics = [perceptron(STATES + ACTIONS, *hidden, 1) for _ in range(members)]
        self.slow = [copy.deepcopy(critic) for critic in self.critics]
        self.actor = perceptron(STATES, *hidden, 2 * ACTIONS)
        self.log_temperature = torch.zeros(1, requires_grad=True)
        learned = [p for q in self.critics for p in q.parameters()]
        self.adam = torch.optim.Adam(learned, lr=3e-4)
        self.adam_actor = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.adam_temperature = torch.optim.Adam([self.log_temperature], lr=3e-4)

    def act(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions and the log of their density."""
        mean, log_std = self.actor(states).chunk(2, -1)
        log_std, noise = log_std.clamp(*LOG_STD), torch.randn(len(states), ACTIONS)
        raw = mean + log_std.exp() * noise
        return raw.tanh(), squashed_log_density(raw, noise, log_std)

    def update(self, step: int) -> None:
        """Take one gradient step."""
        batch = self.data.gather(self.draws(step))
        pairs, states, following = batch["pairs"][0], batch["states"][0], batch["next_states"][0]
        with torch.no_grad():
            action, density = self.act(following)
            after = torch.cat([action, following], -1)
            lowest = torch.stack([q(after)[:, 0] for q in self.slow]).amin(0)
            lowest = lowest - self.log_temperature.exp() * density
            goal = batch.column("rewards")[0] + batch.column("discounts")[0] * lowest
        loss = torch.stack([(q(pairs)[:, 0] - goal).square().mean() for q in self.critics]).sum()
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        action, density = self.act(states)
        judged = torch.cat([action, states], -1)
        value = torch.stack([q(judged)[:, 0] for q in self.critics]).amin(0)
        self.adam_actor.zero_grad()
        (self.log_temperature.exp().detach() * density - value).mean().backward()
        self.adam_actor.step()
        self.adam_temperature.zero_grad()
        (-self.log_temperature * (density.detach() - ACTIONS)).mean().backward()
        self.adam_temperature.step()
        for kept, moved in zip(self.slow, self.critics, strict=True):
            follow(kept, moved)


def products(members: int, hidden: tuple[int, ...]) -> Callable[[int], None]:
    """Return the matrix products of one stacked IQL step and nothing else."""
    calls: list[tuple[Tensor, Tensor, Tensor]] = []

    def add(count: int, rows: int, wide: int, out: int) -> None:
        calls.append(
            (
                torch.randn(count, rows, wide),
                torch.randn(count, wide, out),
                torch.empty(count, rows, out),
            )
        )

    def network(count: int, forward: int, backward: int, widths: tuple[int, ...]) -> None:
        for layer, (wide, out) in enumerate(pairwise(widths)):
            add(count, forward, wide, out)
            if backward:
                add(count, wide, backward, out)  # by the weights
                if layer:
                    add(count, backward, out, wide)  # by what entered

    pairs, states = (STATES + ACTIONS, *hidden, 1), (STATES, *hidden, 1)
    network(2 * members, BATCH, BATCH, pairs)
    network(2 * members, BATCH, 0, pairs)
    network(members, 2 * BATCH, BATCH, states)
    # The last layer's products have one column: matrix-vector products, as in the learner.
    thin = [call for call in calls if 1 in call[2].shape[1:] or call[0].shape[2] == 1]
    wide = [call for call in calls if not (1 in call[2].shape[1:] or call[0].shape[2] == 1)]

    def run(step: int) -> None:  # noqa: ARG001
        for left, right, result in wide:
            torch.bmm(left, right, out=result)
        for left, right, result in thin:
            if left.shape[2] == 1:
                torch.mul(left, right, out=result)
            else:
                for a, b, c in zip(left, right, result, strict=True):
                    torch.mv(a, b[:, 0], out=c[:, 0])

    return run


def clock() -> Callable[[], float]:
    """Return the processor's time on one thread, the wall's on several."""
    return time.process_time if torch.get_num_threads() == 1 else time.perf_counter


def rates(contenders: dict[str, Callable[[int], None]], seconds: float) -> dict[str, float]:
    """Return steps a second of each, from the median of many short rounds taken in turns."""
    now = clock()
    step = dict.fromkeys(contenders, 0)
    times: dict[str, list[float]] = {name: [] for name in contenders}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or min(map(len, times.values())) < 5:
        for name, update in contenders.items():
            count = max(1, int(0.05 / times[name][-1])) if times[name] else 3
            started = now()
            for _ in range(count):
                update(step[name])
                step[name] += 1
            times[name].append((now() - started) / count)
    return {name: 1 / float(np.median(taken[1:])) for name, taken in times.items()}


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


def growth(counts: tuple[int, ...], seconds: float) -> list[dict[str, float]]:
    """Return rate and memory of stacked IQL for each K, each K in a process of its own."""
    found = []
    for members in counts:
        asked = ["--growth-of", str(members), "--seconds", str(seconds)]
        threads = ["--threads", str(torch.get_num_threads())]
        done = subprocess.run(
            [sys.executable, __file__, *asked, *threads],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        rate, memory = map(float, done.stdout.split())
        found.append({"members": members, "steps a second": rate, "memory MB": memory})
    return found


def one_growth(members: int, seconds: float, threads: int) -> str:
    """Return the rate and the memory that K members add."""
    _prepare(threads)
    with torch.no_grad():
        data = table()
        before = _resident()
        learner = iql(data, members, (256, 256))
        rate = rates({"iql": learner.update}, seconds)["iql"]
    return f"{rate} {_resident() - before}"


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1]) if os.name == "posix" else 0
    return pages * resource.getpagesize() / 2**20


def _prepare(threads: int) -> None:
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)


def measure(seconds: float, threads: int, python: str | None) -> dict[str, Any]:
    _prepare(threads)
    data = table()
    small = (256, 256)
    looped, stacked = LoopedIQL(data, 5, small), iql(data, 5, small)
    alone, extraction = iql(data, 1, small), policy(data, small)

    def ours(step: int) -> None:  # d3rlpy's update moves the policy too, and weighs its actions
        alone.update(step)
        extraction.update(step)
        exponential_weight(alone.rule.weight(torch.zeros(1, BATCH)), 3.0, 100.0)

    def silent(update: Callable[[int], None]) -> Callable[[int], None]:
        def run(step: int) -> None:
            with torch.no_grad():
                update(step)

        return run

    found: dict[str, Any] = {"threads": threads, "rates": {}, "ratios": {}}
    found["rates"] |= rates(
        {
            "IQL K=5 loop": looped.update,
            "IQL K=5 stacked": silent(stacked.update),
            "IQL K=5 products": silent(products(5, small)),
        },
        seconds,
    )
    narrow = (64, 64)
    found["rates"] |= rates(
        {
            "IQL K=5 loop, 64 wide": LoopedIQL(data, 5, narrow).update,
            "IQL K=5 stacked, 64 wide": silent(iql(data, 5, narrow).update),
        },
        seconds / 2,
    )
    deep = (256, 256, 256)
    found["rates"] |= rates(
        {
            "SAC-N N=10 loop": LoopedSAC(data, 10, deep).update,
            "SAC-N N=10 stacked": silent(sac(data, 10, deep).update),
        },
        seconds,
    )
    rate, ratio = found["rates"], found["ratios"]
    stacked_rate = rate["IQL K=5 stacked"]
    ratio["IQL K=5: stacked / loop over modules"] = stacked_rate / rate["IQL K=5 loop"]
    ratio["IQL K=5: stacked / its own matrix products"] = stacked_rate / rate["IQL K=5 products"]
    ratio["SAC-N N=10: stacked / loop over modules"] = (
        rate["SAC-N N=10 stacked"] / rate["SAC-N N=10 loop"]
    )
    rate |= rates({"IQL K=1 critics and policy": silent(ours)}, seconds / 2)
    if python is not None:
        rate["IQL K=1 d3rlpy"] = d3rlpy_rate(python, threads, seconds)
        rate |= rates({"IQL K=1 critics and policy": silent(ours)}, seconds / 2)
        ratio["IQL K=1: ours / d3rlpy"] = (
            rate["IQL K=1 critics and policy"] / rate["IQL K=1 d3rlpy"]
        )
    return found


def main() -> int:
    parser = options_parser(__doc__, quick="short rounds, and K up to 5 only")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, help="of each comparison")
    parser.add_argument(
        "--d3rlpy",
        default=os.environ.get("D3RLPY_PYTHON"),
        help="a Python that has d3rlpy 2.8 (it cannot share our environment)",
    )
    parser.add_argument("--growth-of", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.growth_of:
        print(one_growth(given.growth_of, given.seconds, given.threads))
        return 0
    seconds = given.seconds or (8.0 if given.quick else 40.0)
    found = measure(seconds, given.threads, given.d3rlpy)
    found["growth"] = growth((1, 5) if given.quick else (1, 2, 5, 10, 20), seconds / 4)
    ratios = found["ratios"]
    missed = [name for name, target in TARGETS.items() if ratios.get(name, target) < target]
    if given.json:
        print_json({**found, "targets": TARGETS, "missed": missed})
    else:
        show(found, given.threads)
    return 1 if missed else 0


def show(found: dict[str, Any], threads: int) -> None:
    """Print the rates, the targets and the growth with K."""
    print(f"{threads} thread(s), batch {BATCH}, two layers of 256 (SAC-N: three)")
    for name, rate in found["rates"].items():
        print(f"  {name:<46} {rate:8.1f} steps/s")
    for name, target in TARGETS.items():
        if name not in found["ratios"]:
            print(f"  {name:<46}  skipped: give --d3rlpy a Python that has d3rlpy")
            continue
        value = found["ratios"][name]
        print(
            f"  {name:<46} {value:8.2f}  target {target}  {'ok' if value >= target else 'MISSED'}"
        )
    for row in found["growth"]:
        print(
            f"  IQL K={row['members']:<3} {row['steps a second']:8.1f} steps/s, "
            f"{row['steps a second'] * row['members']:8.1f} member steps/s, {row['memory MB']:6.0f} MB"
        )


if __name__ == "__main__":
    sys.exit(main())
