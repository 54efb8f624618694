"""Segments, guardrails, hidden reasons and plans on made populations whose truth is known exactly."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import exp, pi, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

from benchmarks.parts.populations import Acting, chosen
from benchmarks.parts.records import Records
from tailproof import Always, Log, compare, evaluate, plan
from tailproof.arrays import AnyArray, FloatArray
from tailproof.io.reading import read_log

SIZES = (2000,)
LEVEL, LEAST, CHANCE = 0.9, 0.88, 1e-3
REGIONS = ("centre", "east", "north", "west")
SHARES = (0.4, 0.3, 0.2, 0.1)
EFFECTS = np.array([0.3, 0.0, -0.2, 0.0])  # of the mean reward, by region
EVENTS = 0.08  # probability of an order


@dataclass(frozen=True)
class Law:
    """A law of rewards: draws, the mean, and the mean of the larger half."""

    name: str
    draw: Callable[[int, np.random.Generator], FloatArray]
    mean: float
    upper_half: float
    rare: bool = False  # whether it is that of orders, most of which are not made

    def rewards(
        self, effect: FloatArray, x: FloatArray, treated: AnyArray, rng: np.random.Generator
    ) -> FloatArray:
        """Return rewards that depend on x; treatment adds `effect` means, by more orders if rare."""
        size = self.draw(len(x), rng)
        if not self.rare:
            return size + self.mean * (0.3 * x + effect * treated)
        chance = EVENTS * (1 + 0.3 * np.tanh(x) + effect * treated)
        return size * (rng.random(len(x)) < chance)

    @property
    def average(self) -> float:
        """The mean reward without treatment."""
        return self.mean * (EVENTS if self.rare else 1.0)


def _pareto(index: float) -> Law:
    middle = 2 ** (1 / index) - 1
    upper = middle + (1 + middle) / (index - 1)
    return Law(f"index {index:g}", lambda n, rng: rng.pareto(index, n), 1 / (index - 1), upper)


LAWS = (
    Law("normal", lambda n, rng: 2 + rng.normal(size=n), 2.0, 2 + sqrt(2 / pi)),
    Law(
        "lognormal",
        lambda n, rng: np.exp(rng.normal(size=n)),
        exp(0.5),
        2 * exp(0.5) * float(ndtr(1.0)),
    ),
    _pareto(2.2),
    _pareto(1.6),
    Law("orders", lambda n, rng: 20 * (1 + rng.pareto(2.0, n)), 40.0, 0.0, rare=True),
)


def segments(
    _: Path | None, records: Records, *, logs: int, quick: bool, seed: int
) -> tuple[dict[str, Any], list[str]]:
    """Measure how often the intervals of all segments hold together, and claims that are wrong."""
    cells = {}
    for place, law in enumerate(LAWS):
        for known in (True, False):
            for n in SIZES[: 1 if quick else None]:
                name = f"{law.name}, {'known' if known else 'estimated'} propensities, {n:,} rows"
                work = partial(_segments, law, known, n)
                found = _repeat(records, "segments", name, logs, seed, place, work)
                cells[name] = {
                    "all hold": float(found[:, 0].mean()),
                    "each holds": float(found[:, 1].mean()),
                    "wrong claim": float(found[:, 2].mean()),
                    "centre better": float(found[:, 3].mean()),
                }
    return {"logs": logs, "cells": cells}, _short(cells, "all hold", logs)


def _segments(law: Law, known: bool, n: int, seed: list[int]) -> list[float]:
    rng = np.random.default_rng(seed)
    region, x = rng.choice(4, n, p=SHARES), rng.normal(size=n)
    chance = np.full(n, 0.5) if known else 1 / (1 + np.exp(-0.7 * x))
    treated = rng.random(n) < chance
    rewards = law.rewards(EFFECTS[region], x, treated, rng)
    table = {
        "x": x,
        "region": np.array(REGIONS)[region],
        "action": treated.astype(int),
        "reward": rewards,
    }
    if known:
        table["propensity"] = np.where(treated, chance, 1 - chance)
    policy: Any = Always(1) if known else Acting(lambda at: chosen(at[:, 0] > -0.5, 2))
    more = 0.5 if known else float(ndtr(0.5)) - 0.5  # rows that are treated beyond those logged
    truths = EFFECTS * law.average * more
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log = read_log(table, state="x" if known else ["x", "region"], reward="reward")
        found = evaluate(log, policy).by("region", level=LEVEL).segments
    held = [
        each.interval is None or each.interval.low <= truth <= each.interval.high
        for each, truth in zip(found, truths, strict=True)
    ]
    wrong = [
        (each.verdict.word == "better" and truth <= 0)
        or (each.verdict.word == "worse" and truth >= 0)
        for each, truth in zip(found, truths, strict=True)
    ]
    return [
        float(all(held)),
        float(np.mean(held)),
        float(any(wrong)),
        float(found[0].verdict.word == "better"),
    ]


#: What treatment adds to complaints and returns, as a share of their means, and the margin as a share
#: of what was logged. Treating all adds half of it beyond the log.
HARMS = {
    "no change": (0.0, 0.0),
    "no change, margin 20 %": (0.0, 0.2),
    "at the margin": (0.5, 0.2),
    "twice the margin": (1.0, 1 / 6),
}
TITLES = (
    "all right",
    "complaints harmed",
    "complaints harmless",
    "returns harmed",
    "returns harmless",
    "passes",
)


def guardrails(
    _: Path | None, records: Records, *, logs: int, quick: bool, seed: int
) -> tuple[dict[str, Any], list[str]]:
    """Measure how often any statement on two candidates, profit and two guardrails is wrong."""
    cells = {}
    for place, scenario in enumerate(HARMS):
        for n in SIZES[: 1 if quick else None]:
            name = f"{scenario}, {n:,} rows"
            work = partial(_guardrails, scenario, n)
            found = _repeat(records, "guardrails", name, logs, seed, 10 + place, work)
            cells[name] = {title: float(found[:, k].mean()) for k, title in enumerate(TITLES)}
    return {"logs": logs, "cells": cells}, _short(cells, "all right", logs)


def _guardrails(scenario: str, n: int, seed: list[int]) -> list[float]:
    effect, margin = HARMS[scenario]
    rng = np.random.default_rng(seed)
    x, treated = rng.normal(size=n), rng.integers(2, size=n)
    orders, means = LAWS[-1], np.array([0.2, LAWS[-1].average])
    table = {
        "x": x,
        "action": treated,
        "profit": LAWS[2].rewards(np.zeros(n), x, treated, rng),
        "propensity": np.full(n, 0.5),
        "complaints": rng.poisson(means[0] * (1 + effect * treated)),
        "returned": orders.rewards(np.full(n, effect), x, treated, rng),
    }
    policies = {"all": Always(1), "some": Acting(lambda at: chosen(at[:, 0] > -0.67449, 2))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = compare(
            table,
            policies,
            state="x",
            reward="profit",
            level=LEVEL,
            guardrails=["-complaints", "-returned"],
            margins=dict.fromkeys(("complaints", "returned"), f"{100 * margin}%"),
        )
    right = not any(each.gain.verdict.word in ("better", "worse") for each in found.candidates)
    limits = margin * (1 + effect / 2) * means
    for each in found.candidates:
        harms = (0.5 if each.name == "all" else 0.25) * effect * means
        for guard, harm, limit in zip(each.guardrails, harms, limits, strict=True):
            right &= guard.verdict != "harmed" or harm > limit * (1 + 1e-6)
            right &= guard.verdict != "harmless" or harm < limit * (1 - 1e-6)
    said = [
        float(guard.verdict == word)
        for guard in found["all"].guardrails
        for word in ("harmed", "harmless")
    ]
    return [float(right), *said, float(found.passes)]


def hidden(
    _: Path | None, records: Records, *, logs: int, quick: bool, seed: int
) -> tuple[dict[str, Any], list[str]]:
    """Measure how often the tipping Γ exceeds that of the hidden reason which made all of the gain."""
    cells = {}
    for place, law in enumerate(LAWS[:-1]):
        for gamma in (1.5, 2.5):
            for n in SIZES[: 1 if quick else None]:
                name = f"{law.name}, Γ {gamma:g}, {n:,} rows"
                work = partial(_hidden, law, gamma, n)
                found = _repeat(records, "hidden", name, logs, seed, 20 + place, work)[:, 0]
                said = found[found > 0]
                cells[name] = {
                    "not above": float((found <= gamma).mean()),
                    "better": float((found > 0).mean()),
                    "median Γ": float(np.median(said)) if len(said) else float("nan"),
                }
    return {"logs": logs, "cells": cells}, _short(cells, "not above", logs)


def _hidden(law: Law, gamma: float, n: int, seed: list[int]) -> list[float]:
    """Return the tipping Γ, 0 if the verdict is not better: a hidden reason makes all of the gain.

    Those with the larger half of rewards under treatment are treated with the odds Γ, the others with
    1/Γ: the law by which the bound at Γ is attained. Rewards without treatment are shifted so that
    treating all earns what was logged.
    """
    rng = np.random.default_rng(seed)
    x, one, other = rng.normal(size=n), law.draw(n, rng), law.draw(n, rng)
    median = np.median(law.draw(400_001, np.random.default_rng(1)))
    odds = np.where(one > median, gamma, 1 / gamma)
    treated = rng.random(n) < odds / (1 + odds)
    lower_half = 2 * law.mean - law.upper_half
    seen = (gamma * law.upper_half + lower_half) / (1 + gamma)  # mean of the treated
    rewards = 0.3 * x + np.where(treated, one, other + (law.mean - seen))
    log = _one_step_log(x, treated.astype(int), rewards)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = evaluate(log, Always(1))
    return [
        0.0
        if found.verdict.word != "better"
        else float(min(found.tipping_gamma(LEVEL) or 0.0, 99.0))
    ]


def plans(
    _: Path | None, records: Records, *, logs: int, quick: bool, seed: int
) -> tuple[dict[str, Any], list[str]]:
    """Measure how often a test of the planned size decides, and how often one without a gain does."""
    cells = {}
    for place, law in enumerate(LAWS[:2] if quick else LAWS):
        reference = plan(_pilot(law, 20_000, [99, place]), rows=[1000])
        gain = reference.detectable(1000)
        for within in (None, 0.2):
            name = law.name + (f", sizes within {100 * within:g} %" if within else "")
            work = partial(_planned, law, gain, within)
            found = _repeat(records, "plans", name, logs, seed, 30 + place, work)
            cells[name] = {
                "gain": gain,
                "rows": float(np.median(found[:, 0])),
                "decided": float(found[:, 1].mean()),
                "null decided": float(found[:, 2].mean()),
            }
    short = [
        f"{name}: {100 * cell['decided']:.0f} % of the planned tests decide (80 asked)"
        for name, cell in cells.items()
        if binom.cdf(round(cell["decided"] * logs), logs, 0.8) < CHANCE
    ]
    return {"logs": logs, "cells": cells}, short


def _pilot(law: Law, n: int, seed: list[int]) -> Log:
    rng = np.random.default_rng(seed)
    x, nobody = rng.normal(size=n), np.zeros(n, dtype=int)
    return _one_step_log(x, nobody, law.rewards(np.zeros(n), x, nobody, rng))


def _one_step_log(
    x: FloatArray, arms: AnyArray, rewards: FloatArray, half: FloatArray | None = None
) -> Log:
    states, n = x[:, None], len(x)
    return Log.from_arrays(
        states, arms, rewards, states, episode=np.arange(n), terminated=np.ones(n, bool),
        propensity=half, action_space=2,
    )  # fmt: skip


def _planned(law: Law, gain: float, within: float | None, seed: list[int]) -> list[float]:
    planned = plan(_pilot(law, 2000, seed), gain=gain, level=LEVEL, sizes_within=within)
    needed = planned.needed if within is None else planned.needed_within
    assert needed is not None
    rng = np.random.default_rng([*seed, 1])
    n = 2 * min(needed, 10_000)
    decided = []
    for effect in (gain / law.average, 0.0):
        x, arms = rng.normal(size=n), rng.permutation(n) % 2
        rewards = law.rewards(np.full(n, effect), x, arms, rng)
        log = _one_step_log(x, arms, rewards, np.full(n, 0.5))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = compare(
                log, {"new": Always(1)}, baseline=Always(0), level=LEVEL, gate_sizes_within=within
            )
        decided.append(float(found.passes))
    return [float(needed), *decided]


def _repeat(
    records: Records,
    part: str,
    cell: str,
    logs: int,
    seed: int,
    place: int,
    work: Callable[[list[int]], list[float]],
) -> FloatArray:
    """Return the numbers of every log of a cell, (logs, k), recorded or made now."""
    return np.array(
        [
            records.once(
                f"{part}: {cell}, log {i}, seed {seed}",
                lambda i=i: work([seed, place, len(cell), i]),
            )
            for i in range(logs)
        ]
    )


def _short(cells: dict[str, dict[str, float]], title: str, logs: int) -> list[str]:
    return [
        f"{name}: {title} in {100 * cell[title]:.0f} % of logs (90 asked, 88 in every cell)"
        for name, cell in cells.items()
        if binom.cdf(round(cell[title] * logs), logs, LEAST) < CHANCE
    ]


def show(record: dict[str, Any]) -> None:
    """Print the numbers of every cell."""
    titles = list(next(iter(record["cells"].values())))
    print(f"{record['logs']} logs a cell".ljust(48) + " ".join(f"{title:>19}" for title in titles))
    for name, each in record["cells"].items():
        print(f"{name:48}" + " ".join(f"{each[title]:19.3f}" for title in titles))
