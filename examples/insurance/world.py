"""Motor insurance: one-step logs of a portfolio with Pareto-tailed claims and exact true values.

It contains no real claims. Claims are drawn from a distribution with rounded published figures of
Belgian motor third-party liability in 1997 (the portfolio of Denuit and Lang 2004): 11 % of
policyholders claim in a year, the mean claim is about 1,600 euros, and the largest claims have a tail
index near 1.4. Premiums are invented.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from tailproof.arrays import FloatArray, IntArray
from tailproof.log.log import Log
from tailproof.log.spaces import Discrete
from tailproof.policies.forms import action_probabilities, draw

_AGES = np.arange(18, 81)
_LEVELS = np.arange(10)  # of bonus-malus: 0 is the best
_LEVEL_SHARES = 0.7**_LEVELS / (0.7**_LEVELS).sum()


@dataclass(frozen=True)
class Insurance:
    """A year of motor policies; the action is the deductible, the reward the insurer's profit.

    Attributes
    ----------
    claiming
        Share of policyholders with a claim.
    centre, spread
        Mean and standard deviation of the logarithm of an ordinary claim.
    threshold, beyond, tail_index
        Start of the Pareto tail, the share of claims beyond it, and the tail index.
    deductibles, premiums
        One per action.
    """

    claiming: float = 0.112
    centre: float = 6.15
    spread: float = 1.4
    threshold: float = 8_500.0
    beyond: float = 0.022
    tail_index: float = 1.4
    deductibles: tuple[float, ...] = (0.0, 200.0, 500.0)
    premiums: tuple[float, ...] = (215.0, 195.0, 175.0)

    @property
    def action_space(self) -> Discrete:
        """The deductibles, by name."""
        names = tuple(f"deductible {each:g}" for each in self.deductibles)
        return Discrete(len(names), names)

    def frequency(self, states: FloatArray) -> FloatArray:
        """Return the probability of a claim by age and bonus-malus level, (n,)."""
        young = np.exp(-(states[:, 0] - 18) / 15)
        return self.claiming * (0.84 + 0.67 * young) * (0.87 + 0.065 * states[:, 1])

    def logging(self, states: FloatArray) -> FloatArray:
        """Return the logged probability of each deductible, (n, 3): high ones at worse levels."""
        return np.where(states[:, [1]] > 3, [[0.2, 0.3, 0.5]], [[0.5, 0.3, 0.2]])

    def target(self, states: FloatArray) -> IntArray:
        """Return the deductible of the target policy: 500 below age 35, else 200 from level 5."""
        return np.where(states[:, 0] < 35, 2, (states[:, 1] >= 5).astype(int))

    def log(self, rows: int, *, seed: int | list[int] = 0) -> Log:
        """Draw a log of one policyholder per row, with propensities."""
        rng = np.random.default_rng(seed)
        states = np.column_stack(
            [rng.choice(_AGES, rows), rng.choice(_LEVELS, rows, p=_LEVEL_SHARES)]
        ).astype(float)
        chances = self.logging(states)
        actions = draw(chances.cumsum(axis=1), rng)
        claims = np.where(rng.random(rows) < self.frequency(states), self._severity(rng, rows), 0.0)
        paid = np.maximum(claims - np.array(self.deductibles)[actions], 0)
        return Log.from_arrays(
            states,
            actions,
            np.array(self.premiums)[actions] - paid,
            states,
            episode=np.arange(rows),
            terminated=np.ones(rows, dtype=bool),
            propensity=chances[np.arange(rows), actions],
            action_space=self.action_space,
            state_names=("age", "bonus-malus"),
        )

    def value(self, policy: Any, *, cap: float | None = None) -> float:
        """Return the exact expected profit of a policy; with `cap`, of profits clipped below at it."""
        grid = np.meshgrid(_AGES, _LEVELS, indexing="ij")
        states: FloatArray = np.stack(grid, axis=-1).reshape(-1, 2).astype(float)
        share = np.tile(_LEVEL_SHARES, len(_AGES)) / len(_AGES)
        frequency = self.frequency(states)
        chances = action_probabilities(policy, states, len(self.premiums))
        total = 0.0
        for action, (premium, deductible) in enumerate(
            zip(self.premiums, self.deductibles, strict=True)
        ):
            paid = self.excess(deductible)
            if cap is not None:
                paid -= self.excess(premium - cap + deductible)
            total += float((share * chances[:, action]) @ (premium - frequency * paid))
        return total

    def excess(self, amount: float) -> float:
        """Return E[(X − amount)₊] of a claim X."""
        if amount >= self.threshold:
            ratio = (self.threshold / amount) ** self.tail_index
            return float(self.beyond * ratio * amount / (self.tail_index - 1))
        tail = self.threshold * self.tail_index / (self.tail_index - 1) - amount
        top = (np.log(self.threshold) - self.centre) / self.spread
        bottom = (np.log(amount) - self.centre) / self.spread if amount > 0 else -np.inf
        mean = np.exp(self.centre + self.spread**2 / 2)
        held = mean * (ndtr(top - self.spread) - ndtr(bottom - self.spread))
        body = (held - amount * (ndtr(top) - ndtr(bottom))) / ndtr(top)
        return float((1 - self.beyond) * body + self.beyond * tail)

    def _severity(self, rng: np.random.Generator, rows: int) -> FloatArray:
        top = ndtr((np.log(self.threshold) - self.centre) / self.spread)
        body = np.exp(self.centre + self.spread * ndtri(top * rng.random(rows)))
        tail = self.threshold * (1 - rng.random(rows)) ** (-1 / self.tail_index)
        return np.where(rng.random(rows) < self.beyond, tail, body)
