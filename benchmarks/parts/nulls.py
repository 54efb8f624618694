"""Policies without effect, and with a known one, for the gate of `compare`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.parts.populations import (
    Population,
    Rule,
    chosen,
    claims,
    full_information,
    hillstrom,
    rand,
)
from tailproof.arrays import FloatArray

EFFECTS = {"no effect": 1.0, "a third more": 4 / 3}


def outcomes_at_hand(folder: Path | None) -> Iterator[tuple[str, FloatArray, FloatArray]]:
    """Yield names, states and rewards of which no action knows anything."""
    rng = np.random.default_rng(2)
    states = rng.normal(size=(100_000, 4))
    middle = np.exp(1.2 * rng.normal(size=len(states)) + 0.8 * (np.abs(states[:, 0]) < 0.7))
    yield "lognormal", states, middle
    if folder is None:
        return
    if (folder / "hillstrom.parquet").exists():
        states, _, spend = hillstrom(folder)
        yield "Hillstrom", states[:, 3:], spend
    if (folder / "randhie.parquet").exists():
        states, _, dollars = rand(folder)
        yield "RAND spend", states[:, 2:], dollars
        yield "RAND cost", states[:, 2:], -dollars
    if (folder / "bemtpl97.parquet").exists():
        states, amount = claims(folder)
        yield "claims", states, -amount


def null_populations(folder: Path | None) -> Iterator[tuple[str, Population]]:
    """Yield the kind (effect) and the population of every cell of the gate."""
    always: Rule = lambda at: chosen(np.ones(len(at)), 2)  # noqa: E731
    pilot: Rule = lambda at: np.tile([0.95, 0.05], (len(at), 1))  # noqa: E731
    for name, states, rewards in outcomes_at_hand(folder):
        column = states[:, 0]
        low, high = np.quantile(column, [0.25, 0.75])

        def middle(at: FloatArray, low: float = low, high: float = high) -> FloatArray:
            offered = np.where((at[:, 0] > low) & (at[:, 0] < high), 0.7, 0.15)
            return np.stack([1 - offered, offered], axis=1)

        for effect, factor in EFFECTS.items():
            times = factor if rewards.mean() > 0 else 1 / factor
            both = np.stack([rewards, times * rewards], axis=1)
            for kind, rule, logged in (
                ("5 % pilot", pilot, True),
                ("rule, logged", middle, True),
                ("rule, not logged", middle, False),
            ):
                title = f"{name}, {kind}"
                yield (
                    effect,
                    full_information(title, states, both, rule, always, logged=logged),
                )
