"""Tail pooling: how often extremes come is kept, how large they are is pooled over all actions.

A gain is a difference of two means, and a few enormous rewards decide it long before the log can
tell which policy they belong to. Above a threshold u, tail pooling replaces the size of a reward
by the mean size of all rewards above u:

    r̃_u = min(r, u) + 1{r > u}·e(u),    e(u) = Σ b (r − u)₊ / Σ b 1{r > u},

with b the weight of a row in the logged value. Unlike winsorising it keeps the logged mean, and it
assumes only that sizes beyond u do not depend on the action. u = ∞ is the plain mean; the lowest u,
the common reward, keeps nothing but how often something happens. The path between the two is
averaged with weights 1/risk, where the risk of G_u is its variance plus the largest squared distance
to a less pooled G_u' beyond what chance explains (Goldenshluger and Lepski 2011).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy.special import ndtri

from tailproof.arrays import FloatArray
from tailproof.robust.intervals import Interval

#: Scores of rows, (n,), for rewards, (n,): affine in the rewards; their mean is the estimate.
Scores = Callable[[FloatArray], FloatArray]
Tail = Literal["upper", "lower", "both"]

#: Thresholds: quantiles of the rewards beyond the common one. Chosen on a simulated shop's orders,
#: Hillstrom, RAND, Belgian claims and LimeQO; judged on other populations (docs/gains.md).
_LEVELS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99)
_FEWEST_BEYOND = 10  # rows beyond a threshold that make a mean size
_FEWEST_EVENTS = 20  # rows beyond the common reward, below which there is no path
_COMMON = 0.05  # share of rows with one reward from which on it is the common one


@dataclass(frozen=True)
class PooledPath:
    """Gains for thresholds from most to least pooled; at the last one nothing is pooled."""

    low: FloatArray  # (m,) sizes below are pooled; −∞: none
    high: FloatArray  # (m,) sizes above are pooled; ∞: none
    gains: FloatArray  # (m,)
    shares: FloatArray  # (m,) weights of the gains in their average, by risk
    covariance: FloatArray = field(repr=False)  # (m, m) of the gains
    pooled_part: FloatArray = field(repr=False)  # (m,) what was pooled, in the policy's value
    influence: FloatArray = field(repr=False)  # (U,) of independent units on the averaged gain

    @property
    def errors(self) -> FloatArray:
        """Standard errors of the gains, (m,)."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def gain(self) -> float:
        """The gain, averaged over the path."""
        return float(self.shares @ self.gains)

    @property
    def standard_error(self) -> float:
        """Standard error of the averaged gain, if sizes beyond the thresholds are alike."""
        shares = self.shares
        return float(np.sqrt(shares @ self.covariance @ shares))

    @property
    def plain(self) -> float:
        """The gain without pooling, a difference of means."""
        return float(self.gains[-1])

    @property
    def begins(self) -> float:
        """The reward at which pooling begins: the weighted median of the thresholds; ∞ for none."""
        middle = int(np.searchsorted(np.cumsum(self.shares), 0.5))
        return float(self.low[middle] if self._lower else self.high[middle])

    @property
    def _lower(self) -> bool:
        """Whether only sizes below are pooled, as those of costs."""
        return bool(np.isfinite(self.low[0]) and np.isinf(self.high[0]))

    def sizes_within(self, change: float, *, level: float = 0.9) -> Interval:
        """Return an interval of the gain if sizes under the policy differ by at most ±change.

        At each threshold the policy's mean size beyond it is the log's times 1 ± change. The
        threshold with the shortest interval is used: that depends on the errors, not on the gains.
        """
        reach = float(ndtri((1 + level) / 2)) * self.errors + change * self.pooled_part
        best = int(np.argmin(reach))
        return Interval(
            low=float(self.gains[best] - reach[best]),
            high=float(self.gains[best] + reach[best]),
            level=level,
            requested=level,
            kind="tail pooled",
            note=f"if sizes under the policy differ by at most {change:.0%} from those in the log",
        )

    @property
    def tipping_point(self) -> float:
        """The relative change of sizes under the policy at which the sign of the gain would turn.

        −0.31: there is no gain left if what the policy brings is 31 % smaller than what was logged. NaN
        where the policy brings nothing beyond the common reward.
        """
        part = float(self.pooled_part[0])
        turned = -self.gains[0] if self._lower else self.gains[0]
        return -float(turned) / part if part else float("nan")


def pooled_path(
    rewards: FloatArray,
    scores: Scores,
    *,
    tail: Tail | None = None,
    base: FloatArray | None = None,
    sizes: FloatArray | None = None,
    sums: Callable[[FloatArray], FloatArray] = lambda values: values,
) -> PooledPath:
    """Return the path of gains from how often extremes come to the plain difference of means.

    Parameters
    ----------
    rewards
        Of rows, (n,).
    scores
        Row scores of the *policy's value* for any rewards, (n,) to (n,), affine in the rewards: their
        mean is the value, and their spread its error. Importance sampling, doubly robust scores and
        weighted sums over steps all have this form.
    tail
        Which sizes are pooled; by default those of the side with the larger squared deviations.
    base
        Weights of the rows in the logged value, (n,), so that mean(base·r) is that value; ones by
        default. Steps of discounted episodes have others.
    sizes
        Relative sizes that are to be expected of rows, (n,), e.g. from a regression on the state: sizes
        are then pooled relative to them. Ones by default.
    sums
        Sums over independent units, (n,) to (U,), for groups and episodes.

    Examples
    --------
    A policy that does what was logged has no gain at any threshold.

    >>> r = np.random.default_rng(0).pareto(1.5, 500)
    >>> path = pooled_path(r, lambda x: x)
    >>> float(np.abs(path.gains).max()) < 1e-12, float(path.high[-1])
    (True, inf)
    """
    count = len(rewards)
    b = np.ones(count) if base is None else base
    s = np.ones(count) if sizes is None else sizes
    constant = scores(np.zeros(count))
    low, high = thresholds(rewards, heavier_tail(rewards) if tail is None else tail)
    gains, parts, influences = [], [], []
    for bottom, top in zip(low, high, strict=True):
        pooled, part = np.clip(rewards, bottom, top), 0.0
        estimated = np.zeros(count)  # influence of the mean sizes, which are estimated too
        for sign, beyond in ((1, rewards > top), (-1, rewards < bottom)):
            if not beyond.any():
                continue
            reference = b * beyond * s
            excess = sign * (rewards - (top if sign > 0 else bottom)) * beyond
            mean_size = float((b * excess).sum() / reference.sum())
            pooled = pooled + sign * mean_size * beyond * s
            in_policy = float((scores(beyond * s) - constant).mean())
            part += mean_size * in_policy
            kept = sign * (in_policy - float(reference.mean())) / float(reference.mean())
            estimated += kept * b * beyond * (excess - mean_size * s)
        row = scores(pooled) - b * pooled
        gains.append(float(row.mean()))
        parts.append(part)
        units = sums(row - row.mean() + estimated)
        influences.append(units * (len(units) / count))
    values, columns = np.array(gains), np.array(influences).T  # (m,), (U, m)
    unit = float(np.abs(columns).max(initial=0.0)) or 1.0  # squares of enormous rewards overflow
    covariance = np.atleast_2d(np.cov(columns.T / unit)) / len(columns)
    shares = risk_shares(values / unit, covariance)
    with np.errstate(over="ignore", under="ignore"):
        covariance = covariance * unit * unit
    return PooledPath(
        low=low,
        high=high,
        gains=values,
        shares=shares,
        covariance=covariance,
        pooled_part=np.array(parts),
        influence=columns @ shares,
    )


def risk_shares(gains: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return weights 1/risk of estimates from the most biased to the unbiased last one, (m,).

    The risk is the variance plus max over less biased ones of (squared difference − its variance)₊.
    """
    variance = np.diag(covariance)
    apart = np.maximum(variance[:, None] + variance - 2 * covariance, 0)  # (m, m)
    excess = (gains[:, None] - gains) ** 2 - apart
    later = np.triu(np.ones_like(apart, dtype=bool), k=1)
    risk = variance + np.where(later, np.maximum(excess, 0), 0).max(axis=1)
    if risk.min() <= 0:  # an estimate without any error
        return np.asarray((risk == risk.min()) / np.count_nonzero(risk == risk.min()))
    shares = risk.min() / risk
    return np.asarray(shares / shares.sum())


def thresholds(rewards: FloatArray, tail: Tail) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper thresholds, (m,) each, from the common reward outwards to −∞ and ∞."""
    centre = common_or_median(rewards)
    above = _levels(rewards - centre) if tail in ("upper", "both") else []
    below = _levels(centre - rewards) if tail in ("lower", "both") else []
    m = max(len(above), len(below))
    high = [centre + u for u in above]
    low = [centre - u for u in below]
    high += [np.inf] * (m - len(high) + 1)
    low += [-np.inf] * (m - len(low) + 1)
    return np.array(low), np.array(high)


def _levels(distances: FloatArray) -> list[float]:
    """Return increasing thresholds of one side, with enough rows beyond each."""
    beyond = distances[distances > 0]
    if len(beyond) <= _FEWEST_EVENTS:
        return []
    found = {0.0, *np.quantile(beyond, _LEVELS).tolist()}
    return sorted(u for u in found if (beyond > u).sum() >= _FEWEST_BEYOND)


def common_or_median(rewards: FloatArray) -> float:
    """Return the most frequent reward if more than 5 % of the rows have it, else the median."""
    values, counts = np.unique(rewards, return_counts=True)
    most = int(np.argmax(counts))
    if counts[most] > _COMMON * len(rewards):
        return float(values[most])
    return float(np.median(rewards))


def heavier_tail(rewards: FloatArray) -> Tail:
    """Return the side of the median with the larger sum of squared deviations."""
    x = rewards - np.median(rewards)
    x = x / (float(np.abs(x).max(initial=0.0)) or 1.0)
    return "upper" if (x[x > 0] ** 2).sum() >= (x[x < 0] ** 2).sum() else "lower"
