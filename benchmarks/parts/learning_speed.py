"""Speed of the rows that have a name, as ratios measured in one run on one thread.

The rival is the obvious implementation: scikit-learn's Ridge refitted for each action, fold and
iteration. Targets on the paper's log of 400 × 100 CartPole steps, K = 5, 100 iterations: ROOM-VM at
least 15 times as fast, ROOM-FQI at least 10 times, and the same critics. Times are processor seconds of
this process, so that what else the machine does counts little.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.preprocessing import PolynomialFeatures

from benchmarks.parts.records import Records
from tailproof import Absolute, Log, learn, method
from tailproof.log.folds import Split
from tailproof.methods.catalogue import LEARNING
from tailproof.noise import StudentT
from tailproof.worlds import CartPole

GAMMA, ITERATIONS, FOLDS, RIDGE = 0.99, 100, 5, 20.0
ONE_STEP = ("policy-tree", "policy-scores")
TARGETS = {"room-vm: times as fast": 15, "room-fqi: times as fast": 10}


def obvious(log: Log, *, backup: bool) -> np.ndarray:
    """Return ROOM-VM's (or, with `backup`, ROOM-FQI's) critics, the way one writes it first."""
    polynomial = PolynomialFeatures(2, interaction_only=True)
    psi, after = polynomial.fit_transform(log.states), polynomial.fit_transform(log.next_states)
    folds = Split(FOLDS).assign(log, np.random.default_rng(0).spawn(2)[0])
    rows = [log.rows(folds.episodes(k)) for k in range(FOLDS)]
    taken = [[log.actions[own] == action for action in (0, 1)] for own in rows]
    inputs = [[psi[own][where] for where in taken[k]] for k, own in enumerate(rows)]
    later = [after[own] for own in rows]
    targets = [log.rewards[own] / (1 - GAMMA) for own in rows]

    def fit(k: int) -> list[Ridge]:
        return [
            Ridge(alpha=RIDGE, fit_intercept=False).fit(inputs[k][action], targets[k][where])
            for action, where in enumerate(taken[k])
        ]

    critics = [fit(k) for k in range(FOLDS)]
    for _ in range(ITERATIONS):
        if backup:
            values = np.array([[model.predict(after) for model in each] for each in critics])
            best = np.median(values, axis=0).max(axis=0)
            targets = [log.rewards[own] + GAMMA * best[own] for own in rows]
        else:
            targets = [
                log.rewards[own]
                + GAMMA * np.max([model.predict(later[k]) for model in critics[k]], axis=0)
                for k, own in enumerate(rows)
            ]
        critics = [fit(k) for k in range(FOLDS)]
    return np.array([np.concatenate([model.coef_ for model in each]) for each in critics])


def seconds(function: Callable[[], object], repeats: int) -> float:
    """Return the shortest of some runs, the one least disturbed by others."""
    best = np.inf
    for _ in range(repeats):
        began = time.process_time()
        function()
        best = min(best, time.process_time() - began)
    return best


def measure(
    folder: Path | None,  # noqa: ARG001 every part is asked alike
    records: Records,  # noqa: ARG001
    *,
    quick: bool,
    seed: int,  # noqa: ARG001
) -> tuple[dict[str, Any], list[str]]:
    """Return seconds and ratios, and the targets missed."""
    repeats, rival_repeats = (9, 2) if quick else (30, 5)
    world = CartPole()
    log = world.log(episodes=400, noise=StudentT(df=1.5), seed=0)

    def ours(name: str) -> Any:
        return learn(log, method=method(name, ridge=Absolute(RIDGE)), gamma=GAMMA)

    results: dict[str, float] = {}
    for name, backup in (("room-vm", False), ("room-fqi", True)):
        expected = obvious(log, backup=backup)
        difference = np.abs(ours(name).members.theta - expected).max()
        assert difference < 1e-6 * np.abs(expected).max(), "not the same critics"
        rival = seconds(partial(obvious, log, backup=backup), rival_repeats)
        results[f"{name}: times as fast"] = rival / seconds(partial(ours, name), repeats)
    for name in LEARNING:
        if name not in ONE_STEP:
            each = partial(learn, log, method=name, gamma=GAMMA)
            results[f"{name}: seconds"] = seconds(each, 1 if quick else 5)
    policy = ours("room-fqi").policy
    results["1,000 rollouts of 100 steps: seconds"] = seconds(
        lambda: world.value(policy, episodes=1000), 2 if quick else 5
    )
    missed = [
        f"{name} {results[name]:.1f} (at least {bound})"
        for name, bound in TARGETS.items()
        if results[name] < bound
    ]
    return results, missed


def show(results: dict[str, float]) -> None:
    """Print a table."""
    for name, value in results.items():
        print(f"{name:40} {value:8.2f}  {f'at least {TARGETS[name]}' if name in TARGETS else ''}")
