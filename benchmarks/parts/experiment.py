"""Quantiles, tail means, ratios, lifts and confidence sequences on populations with known truth.

Target: 90 % intervals hold in at least 88 % of logs in every cell. A cell counts as short if so few
hits would have a chance below 1 in 1,000 at 88 %.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from benchmarks.parts.populations import (
    Population,
    full_information,
    made_populations,
    real_populations,
)
from benchmarks.parts.records import Records
from tailproof import Log, confidence_sequence, evaluate, returns_under
from tailproof.arrays import FloatArray
from tailproof.robust.intervals import tail_mean, weighted_quantile

SIZES = (500, 2000, 10_000)
LEVEL, LEAST, CHANCE = 0.9, 0.88, 1e-3
QUANTILES = (0.5, 0.9, 0.99)
TAILS = (0.05, 0.2)
#: Populations whose long tail is at the top: the mean of the best share is asked for.
UPPER = ("Hillstrom", "RAND spend", "lognormal, effect x²", "clusters")
LOOKS = np.unique(np.geomspace(500, 10_000, 15).round(-1).astype(int))
MEMBERS = 5  # rows of a cluster


def measure(
    folder: Path | None, records: Records, *, logs: int, quick: bool, seed: int
) -> tuple[dict[str, Any], list[str]]:
    """Measure every interval at fixed sizes; return coverage by cell, and the cells that fall short."""
    cells: dict[str, dict[str, dict[str, float]]] = {}
    for place, (population, units) in enumerate(_populations(folder)):
        truths = _truths(population, units)
        for n in SIZES[:2] if quick else SIZES:
            name = f"{population.name}, {n:,} rows"
            rows = np.array(
                [
                    records.once(
                        f"{name}, log {i}, seed {seed}",
                        lambda p=population, u=units, n=n, s=[seed, place, n, i]: _one(p, u, n, s),
                    )
                    for i in range(logs)
                ]
            ).reshape(logs, len(truths), 3)
            cells[name] = {
                what: _cell(rows[:, k], truth) for k, (what, truth) in enumerate(truths.items())
            }
    return {"logs": logs, "cells": cells}, _short(cells, logs)


def looks(
    folder: Path | None, records: Records, *, logs: int, quick: bool, seed: int
) -> tuple[dict[str, Any], list[str]]:
    """Measure how often all intervals of a growing log hold, for a sequence and for single looks."""
    cells: dict[str, dict[str, dict[str, float]]] = {}
    for place, (population, _) in enumerate(_populations(folder)):
        if population.name == "clusters":
            continue
        for method in ("snips",) if quick else ("snips", "auto"):
            # the default takes far longer: one population and a quarter of the logs
            if method == "auto" and population.name != "Hillstrom":
                continue
            count = logs if method == "snips" else max(logs // 4, 1)
            found = np.array(
                [
                    records.once(
                        f"looks, {population.name}, {method}, log {i}, seed {seed}",
                        lambda p=population, m=method, s=[seed, 50 + place, i]: _growing(p, m, s),
                    )
                    for i in range(count)
                ]
            )
            cells[f"{population.name}, {method}"] = {
                what: {"coverage": float(found[:, k].mean()), "logs": count}
                for k, what in enumerate(("sequence", "guaranteed", "single looks"))
                if np.isfinite(found[:, k]).all()
            }
    judged = {
        name: {what: cell for what, cell in each.items() if what != "single looks"}
        for name, each in cells.items()
    }
    return {"looks": LOOKS.tolist(), "logs": logs, "cells": cells}, _short(judged, logs)


def _populations(folder: Path | None) -> Iterator[tuple[Population, Population | None]]:
    """Yield populations, and what a ratio divides by where there is something."""
    for made in (
        lambda units: real_populations(folder, units=units),
        lambda units: made_populations(units=units),
    ):
        units = {each.name: each for each in made(True)}
        for population in made(False):
            yield population, units.get(population.name)
    yield _clusters(units=False), _clusters(units=True)


def _clusters(*, units: bool) -> Population:
    """Return a population of clusters, drawn whole: customers with several orders each."""
    rng = np.random.default_rng(3)
    size = 40_000
    own = np.repeat(rng.normal(size=size), MEMBERS)
    spend = np.exp(own + 0.7 * rng.normal(size=len(own)))
    sessions = 1.0 + rng.poisson(np.exp(0.3 * own))
    first = sessions if units else spend
    states = np.column_stack([own, rng.normal(size=len(own))])
    outcomes = np.stack([first, first if units else 1.2 * first], axis=1)
    half: Callable[[FloatArray], FloatArray] = lambda at: np.full((len(at), 2), 0.5)  # noqa: E731
    positive: Callable[[FloatArray], FloatArray] = lambda at: np.eye(2)[  # noqa: E731
        (at[:, 1] > 0).astype(int)
    ]
    drawn = full_information("clusters", states, outcomes, half, positive)

    def draw(n: int, rng: np.random.Generator) -> Any:
        chosen = rng.integers(size, size=n // MEMBERS)
        rows = (MEMBERS * chosen[:, None] + np.arange(MEMBERS)).ravel()
        actions = rng.integers(2, size=len(rows))
        found = outcomes[rows, actions]
        return states[rows], actions, found, np.full(len(rows), 0.5)

    return Population("clusters", draw, drawn.policy, drawn.truth, 2, law=drawn.law)


def _asked(upper: bool, ratio: bool) -> dict[str, Callable[[Any], Any]]:
    """Return the intervals to measure, by name, as functions of the returns under a policy."""
    asked: dict[str, Callable[[Any], Any]] = {
        f"quantile {q:g}": lambda found, q=q: found.quantile(q, level=LEVEL) for q in QUANTILES
    }
    asked |= {
        f"CVaR {q:g}": lambda found, q=q: found.cvar(q, level=LEVEL, upper=upper) for q in TAILS
    }
    return asked | ({"ratio": lambda found: found.ratio(level=LEVEL)} if ratio else {})


def _truths(population: Population, units: Population | None) -> dict[str, float]:
    assert population.law is not None
    values, chance, logged = population.law
    sign = -1 if population.name in UPPER else 1
    truths = {f"quantile {q:g}": weighted_quantile(values, chance, q) for q in QUANTILES}
    truths |= {f"CVaR {q:g}": sign * tail_mean(sign * values, chance, q)[0] for q in TAILS}
    if units is not None:
        truths["ratio"] = population.truth / units.truth
    before = float(logged @ values)
    return truths | {"lift": (population.truth - before) / abs(before)}


def _one(population: Population, units: Population | None, n: int, seed: list[int]) -> list[float]:
    """Return low, value and high of every interval on one log."""
    log = population.log(n, seed)
    if population.name == "clusters":
        log = log.with_groups(np.arange(n) // MEMBERS)
    per = None if units is None else units.draw(n, np.random.default_rng(seed))[2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an action that a small log never took
        found = returns_under(log, population.policy, per=per)
        lift = evaluate(log, population.policy, method="snips").choice
    upper = population.name in UPPER
    numbers = []
    for ask in _asked(upper, per is not None).values():
        each = ask(found)
        numbers += [each.low, each.value, each.high]
    if lift is None or not lift.logged_value:
        return [*numbers, -np.inf, 0.0, np.inf]
    interval = lift.gain.relative_interval(LEVEL)
    return [*numbers, interval.low, lift.gain.relative, interval.high]


def _growing(population: Population, method: str, seed: list[int]) -> list[float]:
    """Return whether all looks hold: the sequence, the guaranteed one (NaN: none), single looks."""
    log: Log = population.log(int(LOOKS[-1]), seed)
    holds = np.ones(3)
    for n in LOOKS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimate = evaluate(log[: int(n)], population.policy, method=method)
        found = confidence_sequence(estimate, level=LEVEL)
        holds[0] *= found.low <= population.truth <= found.high
        if (log.rewards < 0).any():
            holds[1] = np.nan
        else:
            least = confidence_sequence(estimate, level=LEVEL, kind="guaranteed").low
            holds[1] *= least <= population.truth
        once = estimate.interval(LEVEL)
        holds[2] *= once.low <= population.truth <= once.high
    return holds.tolist()


def _cell(rows: FloatArray, truth: float) -> dict[str, float]:
    low, _, high = rows.T
    slack = 1e-9 * abs(truth)
    finite = np.isfinite(high - low)
    return {
        "truth": truth,
        "coverage": float(((low <= truth + slack) & (truth - slack <= high)).mean()),
        "misses_below": float((truth + slack < low).mean()),
        "misses_above": float((truth - slack > high).mean()),
        "width": float(np.median((high - low)[finite])) if finite.any() else float("inf"),
        "finite": float(finite.mean()),
    }


def _short(cells: dict[str, dict[str, dict[str, float]]], logs: int) -> list[str]:
    return [
        f"{name}: {what} {cell['coverage']:.3f} (90 % asked, 88 % in every cell)"
        for name, each in cells.items()
        for what, cell in each.items()
        if binom.cdf(round(cell["coverage"] * (m := int(cell.get("logs", logs)))), m, LEAST)
        < CHANCE
    ]


def show(record: dict[str, Any]) -> None:
    """Print the coverage of every cell."""
    cells = record["cells"]
    titles = list(dict.fromkeys(what for each in cells.values() for what in each))
    print(f"{'held of 90 % intervals':36} " + " ".join(f"{title:>13}" for title in titles))
    for name, each in cells.items():
        shares = (each.get(title, {}).get("coverage", np.nan) for title in titles)
        print(f"{name:36} " + " ".join(f"{share:13.3f}" for share in shares))
