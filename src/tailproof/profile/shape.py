"""Shape of a log's rewards, independent of the policy: tails, skew and unit of observation.

It is measured on the residuals of a robust regression of the reward on state and action, and used by
`evaluate`, `compare`, `learn` and `diagnose`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tailproof.arrays import BoolArray, FloatArray, IntArray
from tailproof.critics.linear import Regression, huber_regression, robust_scale
from tailproof.features import Features, table_for
from tailproof.features.ladder import KNOTS, basis_for
from tailproof.files import plain
from tailproof.log.log import Log
from tailproof.profile.observations import common_rewards, common_value
from tailproof.robust.huber_path import asymmetry_by_action, huber_estimates
from tailproof.robust.tails import hill_path, moment_path
from tailproof.rules import RULES

Tails = Literal["light", "heavy", "sparse"]
_COMPARED = 4_000  # rows on which the two regressions are compared
_LARGE = 100  # largest asymmetry that is shown as a number


@dataclass(frozen=True, kw_only=True)
class RewardShape:
    """Tails, skew and clustering of the rewards' residuals after regression on state and action.

    The unit is the smallest one whose extremes are not clustered: "row" of a one-step log, "step",
    "episode", "group", or "block" of neighbouring episodes. The asymmetry (`huber_path.Path.asymmetry`,
    about 3 by chance) is the largest over all units and over the rows of each action, as opposite skews
    cancel.
    """

    unit: str
    units: int
    gain: float  # the plain mean's standard error as a multiple of the best Huber mean's
    asymmetry: float
    index: float  # tail index of the heavier side
    sparse: bool  # whether few rewards differ from a common one, or are of another size than others
    worthwhile: bool  # whether a robust mean reduces the variance enough to risk its bias
    jackpots: bool = False  # whether they are sparse by size only, without a common reward
    final: bool = False  # whether extremes come where episodes end: disasters, not outliers

    @property
    def tails(self) -> Tails:
        """How heavy the tails are; "sparse" if few rewards differ from the common one.

        A robust mean of skewed rewards would be biased and gains nothing: their index decides.
        """
        heavy = self.gain > RULES.light or (self.skewed and self.index < RULES.heavy)
        return "sparse" if self.sparse else "heavy" if heavy else "light"

    @property
    def skewed(self) -> bool:
        """Whether the residuals are significantly skewed."""
        return self.asymmetry > RULES.skewed

    @property
    def kinds(self) -> str:
        """What makes rewards sparse, in words."""
        if self.final:
            return "The most extreme rewards come where episodes end"
        if self.jackpots:
            return "A few rewards lie far beyond all others"
        return "Most rows have the same reward, and the few others decide the average"

    @property
    def sentences(self) -> tuple[str, str, str]:
        """Tails, skew and unit in words."""
        seen = f"the plain mean's error is {self.gain:.1f} times that of a robust one"
        if self.gain <= RULES.light and self.tails == "heavy":
            about = f"of about {self.index:.1f}" if self.index > 1 else "below 1"
            seen = f"a tail index {about}, where the variance needs 2"
        tails = {
            "light": f"Rewards have light tails beyond what state and action explain: {seen}.",
            "heavy": f"Rewards have heavy tails beyond what state and action explain: {seen}.",
            "sparse": f"{self.kinds}: these are the signal, not outliers.",
        }
        beyond = f"{self.asymmetry:.1f}" if self.asymmetry < _LARGE else f"above {_LARGE}"
        looks = "are skewed" if self.skewed else "look symmetric"
        parts = "Parts of rewards that state and action do not explain"
        skew = f"{parts} {looks} (asymmetry {beyond}; skewed from {RULES.skewed:g})."
        return tails[self.tails], skew, self._unit_sentence()

    def _unit_sentence(self) -> str:
        if self.unit in ("row", "step"):
            return f"Extreme residuals come one by one, so each {self.unit} is an observation."
        if self.unit == "block":
            return (
                "Extreme residuals of neighbouring episodes come together and no groups are named, so "
                f"the mean is over {self.units} blocks of neighbouring episodes."
            )
        return f"Extreme residuals come in clusters, so the mean is over sums of each {self.unit}."

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers and strings, ready for JSON."""
        return {
            "tails": self.tails,
            "skewed": self.skewed,
            "asymmetry": self.asymmetry,
            "plain_over_robust_error": self.gain,
            "tail_index": plain(self.index),
            "unit": self.unit,
            "units": self.units,
        }


@dataclass(frozen=True, eq=False)
class RewardFit:
    """The shape of a log's rewards, and a regression r̃ of them."""

    shape: RewardShape
    unit_of_row: IntArray  # (n,) the unit of the shape
    features: Features
    phi: FloatArray  # (n, d)
    fit: Regression


def measure(log: Log) -> RewardFit:
    """Measure the rewards of a log, and regress them (from their median) on standardised polynomials.

    If tails look heavy or skewed, and splines or a table of few states leave clearly smaller residuals,
    the shape is measured on these: a poor polynomial fit of a stepped reward is not a heavy tail.
    """
    low, rewards = basis_for(log), log.rewards - float(np.median(log.rewards))
    phi = low(log.states, log.actions)
    fit = huber_regression(phi, rewards)
    shape, unit = _shape(log, fit.residuals)
    some = slice(None, None, max(1, log.n_transitions // _COMPARED))
    if shape.tails == "heavy" or shape.skewed:
        high = table_for(log) or basis_for(log, knots=KNOTS)
        if RULES.richer_rows * high.size <= len(rewards[some]):
            richer = huber_regression(high(log.states[some], log.actions[some]), rewards[some])
            if robust_scale(richer.residuals) < RULES.richer * robust_scale(fit.residuals):
                every = high(log.states, log.actions)
                shape, unit = _shape(log, huber_regression(every, rewards).residuals)
    return RewardFit(shape, unit, low, phi, fit)


def _shape(log: Log, residuals: FloatArray) -> tuple[RewardShape, IntArray]:
    """Return the shape of residuals, (n,), and the unit of each row, (n,)."""
    residuals = residuals / (float(np.abs(residuals).max()) or 1.0)  # squares must not overflow
    unit, of_row = clusters(log, np.abs(residuals))
    units = int(of_row.max()) + 1
    totals = sums(of_row, residuals, units)
    path = huber_estimates(totals[:: max(1, units // RULES.settled)])
    best = float(path.variances[path.choose(RULES.caution)])
    plain = float(path.variances[-1])
    asymmetry = path.asymmetry()
    if unit in ("row", "step"):  # clustered rows are not independent enough for this test
        taken = log.actions if log.is_discrete else None
        asymmetry = max(asymmetry, asymmetry_by_action(residuals, taken))
    if log.is_discrete:
        common: object = common_rewards(log.rewards, log.actions, log.n_actions)
    else:
        common = common_value(log.rewards)
    jackpots = common is None and has_jackpots(residuals, log.actions if log.is_discrete else None)
    final = extremes_are_final(log, np.abs(residuals))
    shape = RewardShape(
        unit=unit,
        units=units,
        gain=float(np.sqrt(plain / best)) if best > 0 else 1.0,
        asymmetry=asymmetry,
        index=_tail_index(totals),
        sparse=common is not None or jackpots or final,
        jackpots=jackpots,
        final=final,
        worthwhile=plain >= _worth(units) * best,
    )
    return shape, of_row


def extremes_are_final(log: Log, magnitude: FloatArray) -> bool:
    """Return whether terminal rows, rare otherwise, are many of the ten (or 0.1 %) largest ones."""
    count = max(10, len(magnitude) // 1_000)
    if log.is_bandit or not log.terminated.any():
        return False
    share = float(log.terminated[np.argsort(-magnitude, kind="stable")[:count]].mean())
    return share >= max(RULES.final, 3 * float(log.terminated.mean()))


def has_jackpots(samples: FloatArray, actions: IntArray | None = None) -> bool:
    """Return whether a few samples lie beyond a gap that no heavy tail would leave.

    Distances X_(1) ≥ X_(2) ≥ … of a power tail of index α have k·log(X_(k) / X_(k+1)) exponential with
    mean 1/α, independently for all k (Rényi). One beyond what chance allows for α = 1 is a gap, if the
    two distances differ by a factor of 3 (those of integers differ as well). Samples beyond it that lie
    as often above as below, for each action too, are outliers: no mean is biased without them.
    """
    away = samples - np.median(samples)
    order = np.argsort(-np.abs(away), kind="stable")
    distances = np.abs(away[order])
    most = int(RULES.jackpot_share * len(distances))
    if most < 2 or distances[most] <= 0:
        return False
    steps = np.log(distances[:most] / distances[1 : most + 1])
    surprising = np.arange(1, most + 1) * steps > RULES.jackpot_gap + np.log(most)
    gaps = np.flatnonzero(surprising & (steps > np.log(3)))
    if not len(gaps):
        return False
    beyond = order[: gaps[-1] + 1]
    above, taken = away[beyond] > 0, np.zeros(len(beyond)) if actions is None else actions[beyond]
    own = (above[taken == action] for action in np.unique(taken))
    return any(_one_sided(each) for each in (above, *(each for each in own if len(each) >= 5)))


def _one_sided(above: BoolArray) -> bool:
    """Return whether signs are all alike, or more often one than the other by more than chance."""
    right, left = int(above.sum()), int((~above).sum())
    return min(right, left) == 0 or abs(right - left) > 2 * np.sqrt(right + left)


def _tail_index(samples: FloatArray) -> float:
    """Return the tail index of the heavier side, by the m^0.7 largest of m distances from the median.

    Hill's estimator takes every exponential tail of a small sample for a power tail, and the moment
    estimator some of those with ties. The lighter of the two is taken.
    """
    heaviest = 0.0
    for distances in (samples - np.median(samples), np.median(samples) - samples):
        ordered = np.sort(distances[distances > 0])[::-1]
        if len(ordered) >= 20:
            k = int(len(ordered) ** 0.7) - 1
            both = hill_path(ordered)[k], moment_path(ordered)[k]
            heaviest = max(heaviest, float(np.nan_to_num(np.minimum(*both))))
    return 1 / heaviest if heaviest > 0 else np.inf


def _worth(count: int) -> float:
    """Return the factor by which a robust mean must reduce the variance to be preferred.

    Few units cannot reveal a bias, so the gain must be large: 30 times for 52 weeks of a year, 3 times
    for a thousand units, almost none for ten thousand.
    """
    return min(30.0, 1 + (1_500 / count) ** 2)


def clusters(log: Log, magnitude: FloatArray) -> tuple[str, IntArray]:
    """Return the smallest unit whose extremes are not clustered, and the unit of each row, (n,).

    Extremes are clustered if the largest 1 % of the steps' magnitudes are concentrated in few episodes,
    or the largest 5 % of the episodes' in few groups (neighbouring episodes, if there are no groups).
    In one-step logs the order of rows has no meaning: a group is one observation, otherwise a row.
    """
    rows = np.arange(log.n_transitions)
    if log.is_bandit:
        return ("row", rows) if log.group_ids is None else ("group", log.group_of_episode)
    if not _crowded(magnitude, log.episode_of_row, RULES.extreme_rows):
        return "step", rows
    size = max(2, log.n_episodes // RULES.blocks)
    named = log.group_ids is not None
    group = log.group_of_episode if named else np.arange(log.n_episodes) // size
    by_episode = sums(log.episode_of_row, magnitude, log.n_episodes)
    if log.n_episodes >= 20 and _crowded(by_episode, group, RULES.extreme_episodes):
        return ("group" if named else "block"), group[log.episode_of_row]
    return "episode", log.episode_of_row


def _crowded(magnitude: FloatArray, unit: IntArray, share: float) -> bool:
    """Return whether the largest magnitudes are significantly concentrated in few units.

    The test is Pearson's statistic of their counts, with variance 2 + 1/m for Poisson counts of mean m.
    """
    size = np.bincount(unit)
    if len(size) < 5 or share * len(magnitude) < 5:
        return False
    extreme = magnitude > np.quantile(magnitude, 1 - share)
    found = np.bincount(unit, weights=extreme, minlength=len(size))
    expected = np.maximum(size * extreme.mean(), 1e-12)
    excess = ((found - expected) ** 2 / expected).sum() - len(size)
    return bool(excess > RULES.clustered * np.sqrt((2 + 1 / expected).sum()))


def sums(unit: IntArray, values: FloatArray, count: int) -> FloatArray:
    """Return the sums of values (n,) or (n, d) over units, (U,) or (U, d)."""
    if count == len(values):
        return values
    if values.ndim == 1:
        return np.asarray(np.bincount(unit, weights=values, minlength=count), dtype=float)
    return np.stack(
        [np.bincount(unit, weights=column, minlength=count) for column in values.T], axis=1
    )
