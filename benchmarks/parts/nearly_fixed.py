"""Policies without effect where logging takes one action nearly always, for `outside.py`.

Costs (or sales) are skewed or rare, and no action changes them. In 1,000 rows an action of 1.5 % has
some fifteen, which decide the value of a policy that takes it often and may lack all rare costs.
Targets: given in 90 % of the logs; intervals of values and gains hold in 88 %; the gate passes at most
12 % pooled and 15 % of a design. The first four designs chose settings.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.parts.hard import COLUMNS, cell, columns
from benchmarks.parts.records import Records
from benchmarks.parts.worlds import Probabilities, one_hot
from tailproof import Log, evaluate

ROWS = 1_000
_TRUTH = 400_000  # rows for the true value


class Design(NamedTuple):
    """How rewards of mean one are drawn, and how many actions there are."""

    rewards: Callable[[int, np.random.Generator], Any]
    actions: int = 3
    certain: bool = False  # whether the policy is deterministic
    sign: float = -1.0  # of the rewards: costs


def _lognormal(sigma: float) -> Callable[[int, np.random.Generator], Any]:
    return lambda n, rng: np.exp(sigma * rng.standard_normal(n) - sigma**2 / 2)


def _rare(share: float, sizes: Callable[[int, np.random.Generator], Any]) -> Any:
    return lambda n, rng: (rng.random(n) < share) / share * sizes(n, rng)


def _pareto(index: float) -> Callable[[int, np.random.Generator], Any]:
    return lambda n, rng: (index - 1) / index * rng.random(n) ** (-1 / index)


DESIGNS = {
    "log-normal 1.6": Design(_lognormal(1.6)),
    "8 % log-normal": Design(_rare(0.08, _lognormal(1.0))),
    "15 %, one action": Design(_rare(0.15, _lognormal(0.5)), certain=True),
    "3 % Pareto": Design(_rare(0.03, _pareto(2.0)), actions=2),
    # these judge
    "log-normal 1.9": Design(_lognormal(1.9), actions=4),
    "Weibull, one action": Design(lambda n, rng: rng.weibull(0.45, n) / 2.4786, certain=True),
    "5 % log-normal": Design(_rare(0.05, _lognormal(0.8)), actions=2),
    "4 % sales, Pareto": Design(_rare(0.04, _pareto(2.2)), sign=1.0),
    "20 % exponential": Design(_rare(0.2, lambda n, rng: rng.exponential(size=n)), actions=4),
}
CHOSE = 4


def _scale(x: Any) -> Any:
    return np.exp(0.5 * x[:, 0])


def _policy(design: Design) -> Callable[[Any], Any]:
    def probabilities(x: Any) -> Any:
        more = [x[:, 1] + 0.2 * k for k in range(design.actions - 2)]
        scores = np.column_stack([-x[:, 0], np.full(len(x), 0.5), *more])
        if design.certain:
            return one_hot(scores.argmax(axis=1), design.actions)
        return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)

    return probabilities


def _log(design: Design, seed: int) -> Log:
    rng = np.random.default_rng([seed, 970])
    x, count = rng.standard_normal((ROWS, 3)), design.actions
    usual = (x[:, 0] > 0).astype(int) + (x[:, 0] > 1) * (count > 2)
    chances = np.full((ROWS, count), 0.03 / (count - 1))
    chances[np.arange(ROWS), usual] = 0.97
    actions = (rng.random((ROWS, 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
    rewards = design.sign * _scale(x) * design.rewards(ROWS, rng)
    return Log.from_arrays(
        x, actions, rewards, x, episode=np.arange(ROWS), terminated=np.ones(ROWS, bool),
        propensity=chances[np.arange(ROWS), actions], action_space=count,
    )  # fmt: skip


def _one(design: Design, seed: int) -> list[float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return columns(evaluate(_log(design, seed), Probabilities(_policy(design))), 0.0)


def measure(
    folder: Path | None,  # noqa: ARG001 needs no files
    records: Records,
    *,
    logs: int,
    quick: bool,  # noqa: ARG001 no figure depends on it
    seed: int,
) -> tuple[dict[str, Any], list[str]]:
    """Measure values, gains and the gate; targets are judged on the designs that chose nothing."""
    value = float(_scale(np.random.default_rng(1).standard_normal((_TRUTH, 1))).mean())
    cells = {}
    for name, design in DESIGNS.items():
        rows = [
            records.once(f"{name}, log {i}, seed {seed}", lambda d=design, s=seed + i: _one(d, s))
            for i in range(logs)
        ]
        found = dict(zip(COLUMNS, np.array(rows).T, strict=True))
        cells[name] = cell(found, design.sign * value, design.sign * value)
    judged = list(cells.values())[CHOSE:]
    pooled = {key: float(np.nanmean([c[key] for c in judged])) for key in _LIMITS}
    missed = [
        f"{key} {pooled[key]:.2f} (asked {limit})"
        for key, limit in _LIMITS.items()
        if (pooled[key] > limit if key == "passes" else pooled[key] < limit)
    ]
    missed += [f"{name} passes" for name in list(cells)[CHOSE:] if cells[name]["passes"] > 0.15]
    return {"cells": cells, **pooled}, missed


_LIMITS = {"given": 0.9, "held": 0.88, "gain_held": 0.88, "passes": 0.12}
