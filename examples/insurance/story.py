"""Winsorising doubles an insurer's estimated profit: one policy, with and without a cap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from examples.insurance.world import Insurance
from tailproof.doors.evaluate import evaluate
from tailproof.doors.returns import returns_under
from tailproof.log.log import Log
from tailproof.robust.means import Cap

#: The usual cap of experiment platforms, on the side of the losses.
CAP = Cap.named("p0.1")
LEVEL = 0.9
WINSORISED, PLAIN, DEFAULT = f"winsorised at {CAP}", "plain weighting", "the default"


@dataclass(frozen=True)
class Reading:
    """An estimate with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class CapDemonstration:
    """Logs of a portfolio, and three estimates of the profit of a new rule for deductibles."""

    rows: int  # policyholders of each log
    truth: float  # expected profit per policyholder, exactly
    capped_truth: float  # expected profit with losses limited to the cap, exactly
    cap: float  # the cap of the first log, as a profit
    readings: dict[str, tuple[Reading, ...]]  # estimate and interval, by method and log

    @property
    def hidden(self) -> float:
        """Expected loss per policyholder that the cap ignores."""
        return self.capped_truth - self.truth

    @property
    def logs(self) -> int:
        """Number of logs."""
        return len(self.readings[DEFAULT])

    def held(self, way: str) -> int:
        """Return the number of logs whose interval contains the true value."""
        return sum(each.low <= self.truth <= each.high for each in self.readings[way])

    def mean(self, way: str) -> float:
        """Return the mean estimate over the logs."""
        return float(np.mean([each.value for each in self.readings[way]]))

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings, ready for JSON."""
        return {**asdict(self), "held": {way: self.held(way) for way in self.readings}}

    def sentences(self) -> dict[str, str]:
        """Return the text of the demonstration."""
        first = self.readings[WINSORISED][0]
        return {
            "setting": (
                f"{self.rows:,} motor policies of one year, each with a deductible that was drawn with "
                f"known probabilities. A new rule for deductibles is judged by its profit. Claims "
                f"are simulated from published figures: 11 % of policyholders claim, about 1,600 euros "
                f"a claim, tail index 1.4."
            ),
            "answer": (
                f"The new rule earns {self.truth:.0f} euros per policyholder. Winsorised at {CAP}, as "
                f"experiment platforms do, the first log says {first.value:.0f}, from {first.low:.0f} "
                f"to {first.high:.0f}. Of {self.logs} logs, the winsorised {LEVEL:.0%} interval holds "
                f"the truth in {self.held(WINSORISED)}, the usual one without a cap in "
                f"{self.held(PLAIN)}, the default's in {self.held(DEFAULT)}."
            ),
            "reason": (
                f"The cap replaces every loss beyond {-self.cap:,.0f} euros, one policyholder in a "
                f"thousand. These few cost {self.hidden:.0f} euros per policyholder, about as much as "
                f"the whole profit. More data do not help: they make the wrong interval shorter."
            ),
            "limits": (
                "A tail of index 1.4 has no variance. Most logs have not seen the claims that matter: "
                "every estimate is too high more often than too low, and the default's interval, "
                "which leaves room for such claims, still holds less often than it says."
            ),
        }


def demonstrate(
    *,
    rows: int = 20_000,
    logs: int = 20,
    seed: int = 0,
    advance: Callable[[], object] = lambda: None,
) -> CapDemonstration:
    """Draw logs and estimate the value of the new rule in three ways.

    Examples
    --------
    >>> story = demonstrate(rows=500, logs=1)
    >>> list(story.readings)
    ['winsorised at p0.1', 'plain weighting', 'the default']
    """
    world = Insurance()
    caps, readings = [], []
    for log in (world.log(rows, seed=[seed, i]) for i in range(logs)):
        capped = CAP.capped(log.rewards)
        estimate = evaluate(log, world.target, seed=seed)
        interval = estimate.interval(LEVEL)
        caps.append(float(capped.min()))
        readings.append(
            (
                _normal(log.with_rewards(capped), world),
                _normal(log, world),
                Reading(estimate.value, interval.low, interval.high),
            )
        )
        advance()
    return CapDemonstration(
        rows,
        world.value(world.target),
        world.value(world.target, cap=caps[0]),
        caps[0],
        dict(zip((WINSORISED, PLAIN, DEFAULT), zip(*readings, strict=True), strict=True)),
    )


def _normal(log: Log, world: Insurance) -> Reading:
    """Return the weighted mean with the usual normal interval."""
    returns = returns_under(log, world.target)
    weights = returns.weights / returns.weights.mean()
    value = float((weights * returns.values).mean())
    error = float(np.sqrt(((weights * (returns.values - value)) ** 2).sum())) / len(weights)
    half = float(ndtri((1 + LEVEL) / 2)) * error
    return Reading(value, value - half, value + half)
