"""Tail pooling: how often extremes come is kept, how large they are is pooled over all actions.

A gain is a difference of two means, and a few enormous rewards decide it long before the log can
tell which policy they belong to. Above a threshold u, tail pooling replaces the size of a reward
by the mean size of all rewards above u:

    r̃_u = min(r, u) + 1{r > u}·e(u),    e(u) = Σ b (r − u)₊ / Σ b 1{r > u},

with b the weight of a row in the logged value. Unlike winsorising it keeps the logged mean, and it
assumes only that sizes beyond u do not depend on the action. u = ∞ is the plain mean; the lowest u,
the common reward, keeps nothing but how often something happens. The path between the two is
averaged with the shares of the least risk, the variance of the average plus its squared bias, as far as
the log shows one or is too small to show one (`risk_shares`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple, get_args

import numpy as np
import scipy  # its parts are imported on first use
from scipy.special import ndtri

from tailproof.arrays import FloatArray, IntArray
from tailproof.parameters import Configurable, OneOf
from tailproof.robust.spreads import Hall

#: Scores of rows, (n,), for rewards, (n,): affine in the rewards; their mean is the estimate.
Scores = Callable[[FloatArray], FloatArray]
#: Relative sizes to expect of the rows beyond a threshold, (n,), for their excess over it, (n,), which
#: is 0 for the other rows.
Sizes = Callable[[FloatArray], FloatArray]
Tail = Literal["upper", "lower", "both"]

#: Thresholds: quantiles of the rewards beyond the common one. Chosen on a simulated shop's orders,
#: Hillstrom, RAND, Belgian claims and LimeQO; judged on other populations (docs/gains.md).
_LEVELS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99)
_LEARNED = 1 / 8  # of the rows, in which a gain is learned: chosen on 36 logs of an offer for some
_POOLS = 0.1  # least share of the thresholds that pool, so that an average is called pooled
_FEWEST_BEYOND = 10  # rows beyond a threshold that make a mean size
FEWEST_EVENTS = 20  # rows beyond the common reward, below which there is no path
_COMMON = 0.05  # share of rows with one reward from which on it is the common one
_ONE_SIDED = 10.0  # least ratio of squared deviations from the common reward on its two sides
_Z = float(ndtri(0.95))  # of a 90 % interval
#: How much sizes differ between actions before the log is seen: one standard deviation. Chosen with the
#: risk on cells of nine laws of sizes, none of them in docs/gains.md.
_DIFFER = 0.3
_RIDGE = 1e-6  # of the largest risk, so that equal estimates have shares too


@dataclass(frozen=True)
class PooledPath:
    """Gains for thresholds from most to least pooled; at the last one nothing is pooled.

    Two policies of the same log have a difference, ``first - second``.
    """

    low: FloatArray  # (m,) sizes below are pooled; −∞: none
    high: FloatArray  # (m,) sizes above are pooled; ∞: none
    gains: FloatArray  # (m,)
    influences: FloatArray = field(repr=False)  # (U, m) of independent units on the gains
    pooled_part: FloatArray = field(repr=False)  # (m,) what was pooled, in the policy's value
    moved: FloatArray = field(repr=False)  # (m,) what was pooled and has another weight than logged
    changes: FloatArray = field(repr=False)  # (n,) of the weights; empty if not known
    deviations: FloatArray = field(repr=False)  # (m,) standard deviations of rows, of all actions
    part: float = 1.0  # of the rows, for which the average has the least risk

    def __sub__(self, other: PooledPath) -> PooledPath:
        return replace(
            self,
            gains=self.gains - other.gains,
            influences=self.influences - other.influences,
            moved=self.moved + other.moved,
            changes=self.changes - other.changes,
            deviations=np.maximum(self.deviations, other.deviations),
        )

    @cached_property
    def _scaled(self) -> tuple[FloatArray, float]:
        """The covariance of the gains in units of their largest influence, (m, m), and that unit.

        Where few rows under the policy are beyond a threshold, perhaps none, their own spread says too
        little: errors are at least those that the rewards of all actions give to such weights.
        """
        unit = float(np.abs(self.influences).max(initial=0.0)) or 1.0  # squares may overflow
        covariance = np.zeros((len(self.gains), len(self.gains)))
        if len(self.influences) > 1:
            covariance += np.cov(self.influences.T / unit) / len(self.influences)
        own, count = np.sqrt(np.diag(covariance)), len(self.changes)
        if count:
            least = float(np.sqrt((self.changes**2).sum())) / count * (self.deviations / unit)
            larger = np.divide(least, own, out=np.ones_like(own), where=own > 0)
            covariance *= np.outer(np.maximum(larger, 1), np.maximum(larger, 1))
        return covariance, unit

    @cached_property
    def shares(self) -> FloatArray:
        """The weights of the gains in their average, by risk, (m,)."""
        covariance, unit = self._scaled
        return risk_shares(self.gains / unit, covariance / self.part, _DIFFER * self.moved / unit)

    @property
    def covariance(self) -> FloatArray:
        """The covariance of the gains, (m, m)."""
        covariance, unit = self._scaled
        with np.errstate(over="ignore", under="ignore"):
            return covariance * unit * unit

    @property
    def influence(self) -> FloatArray:
        """The influence of each unit on the averaged gain, (U,)."""
        return np.asarray(self.influences @ self.shares)

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
        """The reward at which pooling begins: the weighted median of the thresholds that pool.

        ∞ if the average is the plain gain, up to 10 %.
        """
        pooling = np.cumsum(self.shares[:-1])
        if not len(pooling) or pooling[-1] < _POOLS:
            return float(self.starts[-1])
        return float(self.starts[int(np.searchsorted(pooling, pooling[-1] / 2))])

    @property
    def starts(self) -> FloatArray:
        """The reward at which pooling begins, for each gain, (m,): below it where costs are pooled."""
        lower = np.isfinite(self.low[0]) and np.isinf(self.high[0])
        return self.low if lower else self.high

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers for JSON; a threshold of None pools nothing."""
        starts = [float(u) if np.isfinite(u) else None for u in self.starts]
        return {
            "begins": self.begins if np.isfinite(self.begins) else None,
            "gain": self.gain,
            "thresholds": starts,
            "gains": self.gains.tolist(),
            "standard_errors": self.errors.tolist(),
            "shares": self.shares.tolist(),
        }

    def differs(self, other: PooledPath) -> bool:
        """Return whether the most pooled gains differ by more than chance explains (90 %)."""
        apart = self.influences[:, 0] - other.influences[:, 0]
        error = _deviation(apart) / np.sqrt(len(apart))
        return bool(abs(self.gains[0] - other.gains[0]) > _Z * error)

    def sizes_within(self, change: float) -> Hall:
        """Return the spread of the gain if sizes under the policy differ by at most ±change.

        At each threshold the policy's mean size beyond it is the log's times 1 ± change. The
        threshold with the shortest 90 % interval is used: that depends on errors, not on gains.
        """
        allowance = change * np.abs(self.pooled_part)
        best = int(np.argmin(_Z * self.errors + allowance))
        return Hall(
            float(self.gains[best]), float(self.errors[best]), allowance=float(allowance[best])
        )


def pooled_path(
    rewards: FloatArray,
    scores: Scores,
    *,
    tail: Tail | None = None,
    base: FloatArray | None = None,
    weights: FloatArray | None = None,
    explained: FloatArray | float = 0.0,
    sizes: Sizes | None = None,
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
    weights
        Of the rows in the policy's value, (n,): errors are then at least those that the rewards of all
        actions give to such weights.
    explained
        Predictions of a model that the scores subtract from the rewards, (n,).
    sizes
        Relative sizes to expect of the rows beyond a threshold, by their states: sizes are then
        pooled relative to them. All alike by default.
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
    levels = PoolingLevels.of(rewards, tail=tail, base=base, sizes=sizes)
    return levels.path(scores, weights=weights, explained=explained, sums=sums)


def _deviation(samples: FloatArray) -> float:
    """Return the standard deviation, 0 of no samples, where squares may overflow."""
    largest = float(np.abs(samples).max(initial=0.0)) or 1.0
    return largest * float((samples / largest).std()) if len(samples) else 0.0


class _Side(NamedTuple):
    """The rows beyond one of two thresholds."""

    sign: int
    excess: FloatArray  # (n,) 0 for rows that are not beyond
    shape: FloatArray  # (n,) relative sizes to expect, 0 for rows that are not beyond
    mean_size: float  # e(u)


@dataclass(frozen=True, eq=False)
class PoolingLevels:
    """What a path needs of the log alone, shared by all policies: r̃_u for each pair of thresholds."""

    low: FloatArray  # (m,)
    high: FloatArray  # (m,)
    base: FloatArray  # (n,) weights of the rows in the logged value
    pooled: tuple[FloatArray, ...]  # m times r̃_u, (n,)
    sides: tuple[tuple[_Side, ...], ...]  # m times the sides with rows beyond their threshold

    @classmethod
    def of(
        cls,
        rewards: FloatArray,
        *,
        tail: Tail | None = None,
        base: FloatArray | None = None,
        sizes: Sizes | None = None,
    ) -> PoolingLevels:
        """Return the levels of some rewards, (n,); arguments as in `pooled_path`."""
        b = np.ones(len(rewards)) if base is None else base
        low, high = thresholds(rewards, heavier_tail(rewards) if tail is None else tail)
        pooled, sides = [], []
        for bottom, top in zip(low, high, strict=True):
            found = tuple(_sides(rewards, bottom, top, b, sizes))
            changed = np.clip(rewards, bottom, top)
            for side in found:
                changed += side.sign * side.mean_size * side.shape
            pooled.append(changed)
            sides.append(found)
        return cls(low, high, b, tuple(pooled), tuple(sides))

    @property
    def first(self) -> PoolingLevels:
        """The level at which most is pooled, alone."""
        return PoolingLevels(
            self.low[:1], self.high[:1], self.base, self.pooled[:1], self.sides[:1]
        )

    def path(
        self,
        scores: Scores,
        *,
        weights: FloatArray | None = None,
        explained: FloatArray | float = 0.0,
        sums: Callable[[FloatArray], FloatArray] = lambda values: values,
    ) -> PooledPath:
        """Return the path of the gains of the policy with these scores; see `pooled_path`."""
        b, count = self.base, len(self.base)
        constant = scores(np.zeros(count))
        changes = np.empty(0) if weights is None else weights - b
        where = np.flatnonzero(changes)
        changed = slice(None) if len(where) == count else where  # without copies
        gains, parts, moves, influences, deviations = [], [], [], [], []
        for pooled, sides in zip(self.pooled, self.sides, strict=True):
            row, part, moved = scores(pooled) - b * pooled, 0.0, 0.0
            gains.append(float(row.mean()))
            row -= gains[-1]
            for side in sides:  # the mean sizes are estimated too
                policy, logged = scores(side.shape) - constant, b * side.shape
                in_policy, in_log = float(policy.mean()), float(logged.mean())
                part += side.mean_size * in_policy
                # half of the differences of weights is what one policy has and the other has not
                apart = np.abs(policy - logged)[side.shape > 0]
                moved += side.mean_size * float(apart.sum()) / (2 * count)
                kept = side.sign * (in_policy - in_log) / in_log
                row += kept * b * (side.excess - side.mean_size * side.shape)
            parts.append(part)
            moves.append(moved)
            deviations.append(_deviation((pooled - explained)[changed]))
            units = sums(row)
            influences.append(units * (len(units) / count))
        return PooledPath(
            low=self.low,
            high=self.high,
            gains=np.array(gains),
            influences=np.array(influences).T,
            pooled_part=np.array(parts),
            moved=np.array(moves),
            changes=changes,
            deviations=np.array(deviations),
        )

    def weighted(
        self,
        weights: FloatArray,
        *,
        sums: Callable[[FloatArray], FloatArray] = lambda values: values,
    ) -> PooledPath:
        """Return the path of a self-normalised mean with these weights, (n,), of a positive mean."""
        mean = float(weights.mean())

        def scores(r: FloatArray) -> FloatArray:
            value = float((weights * r).mean()) / mean
            return mean * value + weights * (r - value)

        alike = replace(self, base=np.full(len(weights), mean))
        return alike.path(scores, weights=weights, sums=sums)

    def rewards(self, path: PooledPath) -> FloatArray:
        """Return Σ_u share_u r̃_u, (n,): any estimate that is linear in rewards is pooled by them.

        >>> r = np.random.default_rng(0).pareto(1.5, 500)
        >>> levels = PoolingLevels.of(r)
        >>> bool(np.isclose(levels.rewards(levels.path(lambda x: x)).mean(), r.mean()))
        True
        """
        found = np.zeros(len(self.base))
        for pooled, share in zip(self.pooled, path.shares, strict=True):
            found += share * pooled
        return found


def _sides(
    rewards: FloatArray, bottom: float, top: float, b: FloatArray | float, sizes: Sizes | None
) -> Iterator[_Side]:
    """Yield the sides with rows beyond their threshold."""
    for sign, excess in ((1, rewards - top), (-1, bottom - rewards)):
        excess = np.maximum(excess, 0.0)
        if excess.any():
            shape = np.asarray(excess > 0, dtype=float)
            if sizes is not None:
                shape *= sizes(excess)
            yield _Side(sign, excess, shape, float((b * excess).sum() / (b * shape).sum()))


@dataclass(frozen=True)
class TailPooled(Configurable):
    """A weighted mean of rewards whose extremes have the mean size of all extremes of the log.

    Unlike the other robust means it needs weights and rewards apart: ``method("mis",
    mean=TailPooled())``, and 'tail-pooled-snips'. Where the policy does what was logged it is the
    plain mean.

    Parameters
    ----------
    tail
        Which sizes are pooled: "upper", "lower" or "both"; by default the heavier side.
    """

    constraints: ClassVar = {"tail": OneOf(*get_args(Tail))}

    tail: Tail | None = None

    def rewards(
        self,
        rewards: FloatArray,
        weights: FloatArray,
        *,
        sums: Callable[[FloatArray], FloatArray] = lambda values: values,
    ) -> FloatArray:
        """Return the rewards with pooled extremes, (n,), for a mean with these weights, (n,).

        `sums` are those over independent units, as in `pooled_path`.
        """
        if not (weights.mean() > 0 and np.isfinite(weights).all()):
            return rewards
        levels = PoolingLevels.of(rewards, tail=self.tail)
        return levels.rewards(levels.weighted(weights, sums=sums))


def pooled_over_actions(
    rewards: FloatArray,
    actions: IntArray,
    *,
    propensity: FloatArray | None = None,
    sizes: Sizes | None = None,
) -> tuple[FloatArray, float]:
    """Return rewards with pooled extremes, to learn from, and the reward at which pooling begins.

    They are the mean of those for always taking each logged action, so that sizes are pooled as far as
    no action is seen to change them, averaged for an eighth of the rows: what is learned are gains in
    parts of the log, whose errors are larger than those of the whole. Where no reward is common to
    many rows, or both sides of it are alike, rewards stay as they are, and pooling begins at infinity.

    Parameters
    ----------
    propensity
        Of the logged actions, (n,); their frequencies by default.
    sizes
        As in `pooled_path`.
    """
    common = common_reward(rewards)
    if common is None:
        return rewards, np.inf
    off = (rewards - common) / (float(np.abs(rewards - common).max()) or 1.0)
    sides = [(np.maximum(sign * off, 0) ** 2).sum() for sign in (1, -1)]
    if max(sides) <= _ONE_SIDED * min(sides):
        return rewards, np.inf
    count = np.bincount(actions)
    chance = (count / len(actions))[actions] if propensity is None else propensity
    found, begins, levels = [], [], PoolingLevels.of(rewards, sizes=sizes)
    for action in np.flatnonzero(count >= FEWEST_EVENTS):
        weights = (actions == action) / chance
        path = replace(levels.weighted(weights), part=_LEARNED)
        found.append(levels.rewards(path))
        begins.append(path.begins)
    return (np.mean(found, axis=0), float(np.median(begins))) if found else (rewards, np.inf)


def risk_shares(gains: FloatArray, covariance: FloatArray, differ: FloatArray) -> FloatArray:
    """Return the shares of the average with the least risk, from the most biased estimate to the last.

    None is negative. The last estimate has no bias. The standard deviation b of another's bias is the
    expected one, or more if it is farther from the last than chance explains: the square of their
    difference, less 1.645² times its variance (Goldenshluger and Lepski 2011). Half of a bias is a
    multiple of one factor, as if sizes beyond all thresholds differed alike, and half adds up over the
    thresholds: E[b_j b_k] = b_j b_k / 2 + min(b_j, b_k) max(b) / 2.

    Parameters
    ----------
    differ
        Standard deviations of the biases that are to be expected, (m,).
    """
    variance = np.diag(covariance)
    apart = np.maximum(variance + variance[-1] - 2 * covariance[:, -1], 0)
    seen = np.sqrt(np.maximum((gains - gains[-1]) ** 2 - _Z**2 * apart, 0))
    bias = np.maximum(differ, seen)
    added = np.minimum(bias[:, None], bias) * bias.max()
    risk = covariance + (np.outer(bias, bias) + added) / 2
    largest = float(np.diag(risk).max())
    if largest <= 0:  # no estimate has an error, and all are equal
        return np.full(len(gains), 1 / len(gains))
    root = np.linalg.cholesky(risk / largest + _RIDGE * np.eye(len(gains)))
    shares, _ = scipy.optimize.nnls(root.T, np.linalg.solve(root, np.ones(len(gains))))
    return np.asarray(shares / shares.sum())


def thresholds(rewards: FloatArray, tail: Tail) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper thresholds, (m,) each, from the common reward outwards to −∞ and ∞."""
    common = common_reward(rewards)
    centre = float(np.median(rewards)) if common is None else common
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
    if len(beyond) <= FEWEST_EVENTS:
        return []
    found = {0.0, *np.quantile(beyond, _LEVELS).tolist()}
    return sorted(u for u in found if (beyond > u).sum() >= _FEWEST_BEYOND)


def common_reward(rewards: FloatArray) -> float | None:
    """Return the most frequent reward if more than 5 % of the rows have it, else None."""
    values, counts = np.unique(rewards, return_counts=True)
    most = int(np.argmax(counts))
    return float(values[most]) if counts[most] > _COMMON * len(rewards) else None


def heavier_tail(rewards: FloatArray) -> Tail:
    """Return the side of the median with the larger sum of squared deviations."""
    x = rewards - np.median(rewards)
    x = x / (float(np.abs(x).max(initial=0.0)) or 1.0)
    return "upper" if (x[x > 0] ** 2).sum() >= (x[x < 0] ** 2).sum() else "lower"
