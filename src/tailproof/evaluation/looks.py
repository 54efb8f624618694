"""Intervals for growing logs that are evaluated repeatedly."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from tailproof.algorithms.one_step.choice import OneStepChoice
from tailproof.errors import LevelError
from tailproof.evaluation.estimate import Estimate
from tailproof.statistics.intervals import Interval
from tailproof.statistics.sequences import TIGHTEST, sequential_miss, smoothing_sequence
from tailproof.statistics.tails.sample import check_level

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
    each = sequential_miss(choice.units, miss=miss, tightest=tightest)
    found = choice.interval(1 - 2 * each)
    named = f"{found.kind}, sequence"
    return replace(found, level=level, requested=level, kind=named, note=_ASSUMES)
