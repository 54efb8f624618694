"""Returns under a policy: quantiles, tail means, ratios; and bounds that hold at every look."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from tailproof.arrays import FloatArray
from tailproof.critics.behaviour import with_estimated_propensities
from tailproof.doors.estimate import Estimate
from tailproof.doors.source import numbers_by_row
from tailproof.errors import LevelError, LogError, WeightWarning
from tailproof.estimators.choice import OneStepChoice
from tailproof.estimators.importance import cumulative_weights, warn_of_the_horizon, weighted_choice
from tailproof.log.log import Log, discounted_returns
from tailproof.log.misfit import doubtful_propensities
from tailproof.methods.fit import check_gamma
from tailproof.policies.binding import Policy, for_log
from tailproof.profile.observations import Observations, rare_spread
from tailproof.robust.intervals import Interval, quantile_ends, tail_mean, weighted_quantile
from tailproof.robust.means import USUAL, Cap
from tailproof.robust.sequences import TIGHTEST, sequential_miss, smoothing_sequence
from tailproof.robust.spreads import AllEqual, Spread, hall_spread
from tailproof.robust.tails import check_level
from tailproof.rules import RULES

_NO_QUANTILE_NOTE = "too few returns lie beyond this quantile to bound it"
_TAIL_NOTE = "assumes that no return far beyond the most extreme of the log is likely"
_CONSTANT_NOTE = (
    "all logged returns of this tail are equal: how far another would differ is a guess"
)
_RATIO_NOTE = "the intervals of both means, combined with the correlation of their scores"


@dataclass(frozen=True, kw_only=True)
class Measured(Interval):
    """The estimate of a number, by name, with its interval."""

    name: str
    value: float

    def __str__(self) -> str:
        return f"{self.name} {self.value:.4g}, {super().__str__()}"


@dataclass(frozen=True, eq=False)
class Returns:
    """Logged returns, with importance weights for another policy.

    Every statistic uses the self-normalised weighted sample. Rows or episodes of one group count as
    one observation.
    """

    log: Log = field(repr=False)  # its groups are the independent units
    values: FloatArray  # (E,) the return of each episode; its reward in one-step logs
    weights: FloatArray  # (E,) π/μ of its actions
    units: FloatArray | None = None  # (E,) denominators of `ratio`
    cautions: tuple[str, ...] = ()  # assumptions of every interval

    def quantile(self, q: float = 0.5, *, level: float = 0.9) -> Measured:
        """Return the q-quantile of the policy's returns."""
        miss = _miss(level, q)
        groups = None if self.log.group_ids is None else self.log.group_of_episode
        ends = quantile_ends(self.values, self.weights, q, below=miss, above=miss, unit=groups)
        value = weighted_quantile(self.values, self.weights, q)
        note = "" if np.isfinite(ends[1]) else _NO_QUANTILE_NOTE
        return self._measured(f"quantile {q:g}", value, ends, level, "binomial", note)

    def cvar(self, q: float = 0.05, *, level: float = 0.9, upper: bool = False) -> Measured:
        """Return the mean of the worst share q of the policy's returns, or of the best with `upper`.

        With fewer than 200 returns in that tail the interval is the gamma interval of rare events,
        which allows for one more event as bad as the worst of the log; otherwise it is Hall's, with a
        term for the unseen part of a heavy tail.
        """
        miss, sign = _miss(level, q), -1 if upper else 1
        value, influence = tail_mean(sign * self.values, self.weights, q)
        spread = self._tail_spread(sign * self.values, value, influence, q)
        low, high = sorted(sign * end for end in spread.ends(miss, miss))
        name = f"mean of the {'best' if upper else 'worst'} {100 * q:g} %"
        note = _CONSTANT_NOTE if isinstance(spread, AllEqual) else _TAIL_NOTE
        return self._measured(name, sign * value, (low, high), level, spread.kind, note)

    def ratio(self, *, level: float = 0.9) -> Measured:
        """Return Σ returns / Σ units under the policy, such as revenue per session.

        The interval combines the spreads of the two weighted means with the correlation of their
        scores: Fieller's interval for skewed and rare returns. An end is infinite if the mean unit may
        be 0.
        """
        miss = _miss(level)
        if self.units is None:
            raise LogError(
                "A ratio needs what to divide by, for each row: pass per= to returns_under."
            )
        above, below = self._mean(self.values), self._mean(self.units)
        if not below.spread.centre > 0:
            raise LogError(
                f"The policy's units must average more than 0. Got {below.spread.centre:g}; check what "
                f"per= holds."
            )
        spread = (above / below).spread
        ends = spread.ends(miss, miss)
        return self._measured("ratio", spread.centre, ends, level, spread.kind, _RATIO_NOTE)

    def shift_by_cap(self, cap: str | Cap = USUAL) -> float:
        """Return the change of the policy's mean if returns were capped (winsorised).

        The cap is a percentile of the non-zero logged returns, or of all with ":all".
        """
        chosen = Cap.named(cap) if isinstance(cap, str) else cap
        return float(np.average(chosen.capped(self.values) - self.values, weights=self.weights))

    def _tail_spread(
        self, values: FloatArray, value: float, influence: FloatArray, q: float
    ) -> Spread:
        """Return the spread of the mean of the lowest share q."""
        observations, w = Observations.of(self.log), self.weights / self.weights.mean()
        short = np.maximum(weighted_quantile(values, w, q) - values, 0) / q
        if observations.events((short > 0) & (w > 0)) < RULES.few_events and short.any():
            return rare_spread(observations, value + float((w * short).mean()), -short, w)
        return hall_spread(value, observations.influence(influence), observations.sums(w) > 0)

    def _mean(self, values: FloatArray) -> OneStepChoice:
        found = weighted_choice(
            self.log,
            values,
            self.weights,
            self_normalised=True,
            estimator="weighted mean",
            rare_below=RULES.few_events,
        )
        assert found is not None  # `returns_under` requires weights
        return found

    def _measured(
        self, name: str, value: float, ends: tuple[float, float], level: float, kind: str, note: str
    ) -> Measured:
        return Measured(
            name=name,
            value=value,
            low=min(float(ends[0]), value),
            high=max(float(ends[1]), value),
            level=level,
            requested=level,
            kind=kind,
            note="; ".join(filter(None, (note, *self.cautions))),
        )


def returns_under(
    log: Log, policy: Policy, *, gamma: float | None = None, per: str | npt.ArrayLike | None = None
) -> Returns:
    """Return the logged returns with importance weights for the policy.

    If a one-step log has no propensities they are estimated, as in `evaluate`. A sequential log must
    have them: the weight of an episode is the product of π/μ over its steps. Propensities that cannot
    be those of the logged actions give a `WeightWarning`, and a caution beside every interval.

    Parameters
    ----------
    log
        In memory.
    policy, gamma
        As in `evaluate`.
    per
        The denominator of `Returns.ratio`, such as sessions: a column of the table that the log was
        read from, or one number for each row of that table, in its order; a Series must have the
        table's index. It is summed over the steps of an episode with the same discount.

    Examples
    --------
    >>> from tailproof import Log, returns_under
    >>> rng = np.random.default_rng(0)
    >>> offered = rng.integers(2, size=500)
    >>> log = Log.from_arrays(
    ...     np.zeros(500), offered, rng.lognormal(offered), np.zeros(500),
    ...     episode=range(500), propensity=np.full(500, 0.5),
    ... )
    >>> found = returns_under(log, lambda states: np.ones(len(states), int))
    >>> median, worst = found.quantile(0.5), found.cvar(0.05)
    >>> worst.high < median.low < median.value < median.high
    True
    """
    discount = check_gamma(gamma, log)
    cautions: list[str] = []
    if log.propensity is None:
        if not (log.is_bandit and log.is_discrete):
            raise LogError(
                "The distribution of returns under another policy needs the propensity with which each "
                "action was logged: the weight of an episode is the product of π/μ over its steps, and "
                "a critic knows means only. Pass propensity=..., or estimate it with "
                "tailproof.critics.behaviour."
            )
        log, _ = with_estimated_propensities(log)
        cautions.append("estimated propensities are taken as true")
    else:
        for doubt in doubtful_propensities(log):
            warnings.warn(doubt, WeightWarning, stacklevel=2)
            cautions.append(doubt)
    cautions += warn_of_the_horizon(log, discount)
    weights = cumulative_weights(for_log(policy, log), log)[log.starts[1:] - 1]
    if not weights.any():
        raise LogError(
            "No logged episode has all actions of the policy, so no return tells anything about it. "
            "Log some of its actions, or ask about a policy closer to the log."
        )
    units = None
    if per is not None:
        units = discounted_returns(
            log.with_rewards(numbers_by_row(log, per, argument="per")), discount
        )
    return Returns(log, discounted_returns(log, discount), weights, units, tuple(cautions))


def _miss(level: float, q: float = 0.5) -> float:
    """Check both numbers and return the error probability on each side, (1 − level) / 2."""
    check_level(level)
    if not 0 < q < 1:  # NaN fails too
        raise LevelError(f"q must lie strictly between 0 and 1. Got {q!r} instead.")
    return (1 - level) / 2


_ASSUMES = (
    "holds at all sizes of a growing log at once, however often one looks; for large logs of "
    "independent units with a finite variance"
)
_GUARANTEED = (
    "holds at all sizes of a growing log at once, whatever the tail, if units are independent and "
    "propensities are right; rewards that are never negative have no such upper bound"
)


def confidence_sequence(
    estimate: Estimate,
    *,
    level: float = 0.9,
    tightest: int = TIGHTEST,
    kind: Literal["asymptotic", "guaranteed"] = "asymptotic",
) -> Interval:
    """Return an interval that keeps its level when a growing log is evaluated repeatedly.

    With probability `level` all intervals computed as the log grows contain the value, for any stopping
    rule. Units must arrive in random order, as the rows of a running experiment do.

    Parameters
    ----------
    estimate
        Of a one-step log, by 'auto', 'ips', 'snips' or 'bandit-dr'.
    tightest
        Number of rows (or groups) at which the sequence is tightest; fix it before seeing the data. Ten
        times more or fewer rows widen the interval little.
    kind
        ``"asymptotic"``: the boundary of a normal mixture (Waudby-Smith et al. 2024), applied to the
        estimate's own skewness-corrected interval. ``"guaranteed"``: a lower bound only, valid at any
        size and for any tail, for non-negative rewards and known propensities (logarithmic smoothing).

    Examples
    --------
    >>> from tailproof import Log, confidence_sequence, evaluate
    >>> rng = np.random.default_rng(0)
    >>> log = Log.from_arrays(
    ...     np.zeros(400), rng.integers(2, size=400), rng.lognormal(size=400), np.zeros(400),
    ...     episode=range(400), propensity=np.full(400, 0.5),
    ... )
    >>> found = evaluate(log, lambda states: np.ones(len(states), int), method="snips")
    >>> once, always = found.interval(0.9), confidence_sequence(found)
    >>> always.low < once.low < once.high < always.high
    True
    """
    check_level(level)
    miss, choice = 1 - level, estimate.choice
    if not isinstance(choice, OneStepChoice) or choice.unit == "episode":
        raise LevelError(
            f"A confidence sequence is for one-step logs, by 'auto', 'ips', 'snips' or 'bandit-dr'. "
            f"Got {estimate.method} on {estimate.n_episodes} episodes of {estimate.n_transitions} rows."
        )
    if kind == "guaranteed":
        if isinstance(choice.guarantee, str):
            raise LevelError(f"There is no guaranteed sequence: {choice.guarantee}")
        low = smoothing_sequence(choice.guarantee, miss=miss)
        return Interval(
            low=low, high=np.inf, level=level, requested=level, kind=kind, note=_GUARANTEED
        )
    if kind != "asymptotic":
        raise LevelError(f"kind must be 'asymptotic' or 'guaranteed'. Got {kind!r} instead.")
    if tightest < 1:
        raise LevelError(
            f"tightest must be a number of rows, at least 1. Got {tightest!r} instead."
        )
    choice.interval(level)  # raises an error with the reason if there is none
    each = sequential_miss(choice.units, miss=miss, tightest=tightest)
    if 1 - 2 * each == 1:
        raise LevelError(
            f"There is no confidence sequence of only {choice.units} {choice.unit}s yet: it is "
            f"tightest at {tightest:,}."
        )
    found = choice.interval(1 - 2 * each)
    named = f"{found.kind}, sequence"
    return replace(found, level=level, requested=level, kind=named, note=_ASSUMES)
