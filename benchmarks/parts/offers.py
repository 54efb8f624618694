"""Learning where most rows have a reward of zero and the few others have heavy tails.

A shop logs 12,000 rows and no propensities. The offer was made by a rule of two of the states, one of
which also moves purchases, so that frequencies have to be estimated. Half of what offers for each
customer could gain depends on states; the other half on something that nobody logged. An offer moves
purchases, 12 % without it, by 2 ± 5 ± 5 points, in a weaker world by ± 3 ± 3. The nulls are the same
shops, in which no offer changes anything. The target: better than the log in at least 80 % of the shops
with the first effect, and a null proposed in no more than 10 % (the stated risk).
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from benchmarks.parts.records import Records
from tailproof import Log, learn
from tailproof.policies.forms import action_probabilities

ROWS, STATES = 12_000, 5
STRONG, WEAK = 0.05, 0.03
BETTER, RISK = 0.8, 0.1
_PEOPLE = 200_000  # who value a policy, always the same
_SIZES = {
    "Pareto 1.7": (lambda rng, n: 25 * (1 + rng.pareto(1.7, n)), 25 * (1 + 1 / 0.7)),
    "log-normal 1.6": (lambda rng, n: rng.lognormal(3, 1.6, n), float(np.exp(3 + 1.28))),
    "Lomax 1.6": (lambda rng, n: 40 * rng.pareto(1.6, n), 40 / 0.6),
    "Weibull 0.4": (lambda rng, n: 30 * rng.weibull(0.4, n), 30 * 3.3233509704478426),
    "gamma 2": (lambda rng, n: rng.gamma(2.0, 30.0, n), 60.0),
}


@dataclass(frozen=True)
class Shop:
    """A shop with one or two offers: each helps some customers and puts others off."""

    sizes: str
    offers: int
    effect: float  # in points of the purchase rate, by what is seen and by what is not

    @property
    def name(self) -> str:
        """What it is called in the record."""
        offers = f"{self.offers} offer{'s' * (self.offers > 1)}"
        return f"{self.sizes}, {offers}, effect {self.effect:g}"

    def people(self, rng: np.random.Generator, n: int) -> tuple[Any, Any]:
        """Draw states, (n, 5), and the mean reward of every action for people like these, (n, A)."""
        x = rng.standard_normal((n, STATES))
        rate = np.tile(0.12 + 0.02 * np.tanh(x[:, :1]), (1, 1 + self.offers))
        for offer in range(1, 1 + self.offers):
            rate[:, offer] += self.effect * (0.4 * (self.effect > WEAK) + np.sign(x[:, offer]))
        return x, rate * _SIZES[self.sizes][1]

    def behaviour(self, x: Any) -> Any:
        """Return the log's probabilities, (n, A): large customers get more offers."""
        scores = np.zeros((len(x), 1 + self.offers))
        scores[:, 1:] = (0.5 * x[:, 0] - 0.4 * x[:, 3])[:, None]
        chance = np.exp(scores)
        return chance / chance.sum(axis=1, keepdims=True)

    def drawn(self, seed: int) -> tuple[Any, Any, Any, Any]:
        """Draw states, mean rewards of all actions, actions and rewards."""
        rng = np.random.default_rng([2055, crc32(self.name.encode()), seed])
        x, mean = self.people(rng, ROWS)
        draw, size = _SIZES[self.sizes]
        actions = (rng.random((ROWS, 1)) > np.cumsum(self.behaviour(x), axis=1)).sum(axis=1)
        rate = mean[np.arange(ROWS), actions] / size
        unseen = self.effect * rng.choice([-1.0, 1.0], ROWS) * (actions > 0)
        return x, mean, actions, (rng.random(ROWS) < rate + unseen) * draw(rng, ROWS)

    def log(self, seed: int) -> Log:
        """Draw a log without propensities."""
        x, _, actions, rewards = self.drawn(seed)
        return Log.from_arrays(
            x, actions, rewards, x, episode=np.arange(ROWS), terminated=np.ones(ROWS, dtype=bool)
        )

    def all_knowing(self, seed: int) -> bool:
        """Whether a bound of 90 % passes the best rule, by known means and propensities."""
        x, mean, actions, rewards = self.drawn(seed)
        rows, best = np.arange(ROWS), mean.argmax(axis=1)
        weights = (actions == best) / self.behaviour(x)[rows, actions]
        gains = mean[rows, best] + weights * (rewards - mean[rows, actions]) - rewards
        return bool(gains.mean() > 1.2816 * gains.std() / np.sqrt(ROWS))

    def value(self, policy: Any) -> tuple[float, float, float]:
        """Return the values of a policy, of the log and of the best rule of the states."""
        x, mean = self.people(np.random.default_rng(2056), _PEOPLE)
        chances = action_probabilities(policy, x, 1 + self.offers)
        logged = float((self.behaviour(x) * mean).sum(axis=1).mean())
        return float((chances * mean).sum(axis=1).mean()), logged, float(mean.max(axis=1).mean())


def _run(shop: Shop, seed: int) -> list[float]:
    """Return the values of what is learned, of the log and of the best rule, and how it was decided.

    That is whether it was proposed, seconds, and value and proposal where tests may assume that sizes
    differ by at most 20 %.
    """
    log = shop.log(seed)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learned = learn(log)
        seconds = time.process_time() - began
        assumed = learn(log, gate_sizes_within=0.2)
    found = [*shop.value(learned.policy), float(bool(learned.improves)), seconds]
    return [*found, shop.value(assumed.policy)[0], float(bool(assumed.improves))]


def offers(
    folder: Path | None,  # noqa: ARG001 every part is asked alike
    records: Records,
    *,
    quick: bool,
    seed: int,
) -> tuple[dict[str, Any], list[str]]:
    """Learn in shops with an effect and without."""
    cells = {}
    for effect, logs in ((STRONG, 2), (0.0, 2), (WEAK, 1)):
        for shop in (Shop(sizes, count, effect) for sizes in _SIZES for count in (1, 2)):
            rows = np.array(
                [
                    records.once(
                        f"{shop.name}, log {seed + i}", lambda s=shop, k=seed + i: _run(s, k)
                    )
                    for i in range(1 if quick else logs)
                ]
            )
            value, logged, best, proposed, seconds, assumed, passed = rows.T
            cells[shop.name] = {
                "effect": effect,
                "better": float(((proposed > 0) & (value > logged)).mean()),
                "proposed": float(proposed.mean()),
                "worse": float(((proposed > 0) & (value < logged - 1e-9)).mean()),
                "of the gain": float(((value - logged) / (best - logged)).mean()) if effect else 0,
                "better, sizes within 20 %": float(((passed > 0) & (assumed > logged)).mean()),
                "proposed, sizes within 20 %": float(passed.mean()),
                "seconds": float(seconds.mean()),
            }
            if effect == STRONG:
                known = [shop.all_knowing(90_000 + i) for i in range(10 if quick else 100)]
                cells[shop.name]["an all-knowing judge"] = float(np.mean(known))

    def mean(what: str, effect: float) -> float:
        return float(np.mean([cell[what] for cell in cells.values() if cell["effect"] == effect]))

    pooled = {
        "better": mean("better", STRONG),
        "an all-knowing judge": mean("an all-knowing judge", STRONG),
        "worse": mean("worse", STRONG),
        "of the gain": mean("of the gain", STRONG),
        "better, sizes within 20 %": mean("better, sizes within 20 %", STRONG),
        "better, weaker effect": mean("better", WEAK),
        "nulls proposed": mean("proposed", 0.0),
        "nulls proposed, sizes within 20 %": mean("proposed, sizes within 20 %", 0.0),
    }
    missed = []
    if pooled["better"] < BETTER:
        missed.append(f"better than the log in {pooled['better']:.0%} (at least {BETTER:.0%})")
    if pooled["nulls proposed"] > RISK:
        missed.append(f"nulls proposed in {pooled['nulls proposed']:.0%} (at most {RISK:.0%})")
    return {"cells": cells, "pooled": pooled}, missed
