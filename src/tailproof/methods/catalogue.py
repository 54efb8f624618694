"""The paper's table of methods, as code: a row each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from math import ceil, log
from typing import Any

from tailproof.algorithms.bandit import IPS, BanditDR
from tailproof.algorithms.base import At
from tailproof.algorithms.default.auto import Auto
from tailproof.algorithms.dr import DR
from tailproof.algorithms.fitted_q import FQE, FQI
from tailproof.algorithms.importance import EpisodeDR, EpisodeIS
from tailproof.algorithms.learners.cloning import Cloning
from tailproof.algorithms.learners.constant import Constant
from tailproof.algorithms.learners.improvement import ForestFQI, OneStep
from tailproof.algorithms.lspi import LSPI
from tailproof.algorithms.lstd import LSTD
from tailproof.algorithms.mis import MIS
from tailproof.algorithms.one_step.learners import PolicyScores, PolicyTree
from tailproof.algorithms.weighting import (
    Clip,
    ExponentialSmoothing,
    ImplicitExploration,
    LogSumExp,
    PowerMean,
    Shrink,
)
from tailproof.data.partition import Bootstrap, OutOfBag, Partition, Split, Whole
from tailproof.ensemble.aggregate import Aggregate, Mean, MeanMinusStd, Median, Quantile
from tailproof.errors import MethodError
from tailproof.methods.method import Method
from tailproof.statistics.means import TrimmedMean


@dataclass(frozen=True)
class Row:
    """One named method and a sentence about it."""

    method: Method
    about: str


def _row(base: Any, partition: Partition, aggregate: Aggregate, at: At, about: str) -> Row:
    return Row(Method(base=base, partition=partition, aggregate=aggregate, at=at), about)


EVALUATION: dict[str, Row] = {
    "auto": _row(Auto(), Whole(), Mean(), "value", "Looks at the log first; says what it chose."),
    "fqe": _row(FQE(), Whole(), Mean(), "value", "Fitted Q-evaluation: averages."),
    "lstd": _row(LSTD(), Whole(), Mean(), "value", "Fixed point of FQE, in closed form."),
    "mis": _row(MIS(), Whole(), Mean(), "value", "Reweighted rewards; mean= makes it robust."),
    "dr": _row(DR(), Whole(), Mean(), "value", "Critic plus reweighted residuals, cross-fitted."),
    "roam-dm": _row(FQE(), Split(5), Median(), "pointwise", "Median of K critics at each (s, a)."),
    "roam-variant": _row(FQE(), Split(5), Median(), "value", "Median of K values."),
    "roam-fqe": _row(FQE(), Split(5), Median(), "backup", "Median inside every Bellman target."),
    "roam-mis": _row(MIS(), Split(5), Median(), "value", "Median of K reweighted means."),
    "roam-dr": _row(DR(), Split(5), Median(), "value", "Median of K doubly robust values."),
    "ma-dm": _row(FQE(), Split(5), Mean(), "pointwise", "Mean of K critics: splitting alone."),
    "ma-mis": _row(MIS(), Split(5), Mean(), "value", "Mean of K reweighted means."),
    "tm-mis": _row(
        MIS(mean=TrimmedMean(0.02)), Whole(), Mean(), "value", "Trimmed mean of weighted rewards."
    ),
    "b-roam-dm": _row(
        FQE(), Bootstrap(5), Median(), "pointwise", "Median of critics on bootstrapped episodes."
    ),
    "b-roam-mis": _row(
        MIS(), Bootstrap(5), Median(), "value", "Median of values on bootstrapped episodes."
    ),
    "ips": _row(IPS(), Whole(), Mean(), "value", "Bandits: inverse propensity scoring."),
    "snips": _row(
        IPS(self_normalised=True), Whole(), Mean(), "value", "Bandits: self-normalised IPS."
    ),
    "clipped-ips": _row(
        IPS(reweight=Clip(10.0)), Whole(), Mean(), "value", "Bandits: weights of at most 10."
    ),
    "shrunk-ips": _row(
        IPS(reweight=Shrink(100.0)), Whole(), Mean(), "value", "Bandits: weights shrunk smoothly."
    ),
    "ix-ips": _row(
        IPS(reweight=ImplicitExploration(0.01)), Whole(), Mean(), "value", "Bandits: π/(μ + 0.01)."
    ),
    "power-mean-ips": _row(
        IPS(reweight=PowerMean(0.1)), Whole(), Mean(), "value", "Bandits: w/(0.9 + 0.1w)."
    ),
    "smoothed-ips": _row(
        IPS(reweight=ExponentialSmoothing(0.8)), Whole(), Mean(), "value", "Bandits: π/μ^0.8."
    ),
    "lse": _row(
        IPS(mean=LogSumExp()), Whole(), Mean(), "value", "Bandits: log-sum-exp mean of w·r."
    ),
    "bandit-dm": _row(LSTD(), Whole(), Mean(), "value", "Bandits: reward model, no propensities."),
    "bandit-dr": _row(
        BanditDR(), Whole(), Mean(), "value", "Bandits: model plus IPS of its errors."
    ),
    "tis": _row(
        EpisodeIS(), Whole(), Mean(), "value", "Returns, weighted by all actions of the episode."
    ),
    "pdis": _row(
        EpisodeIS(per_decision=True),
        Whole(),
        Mean(),
        "value",
        "Rewards, weighted by the actions up to them.",
    ),
    "sntis": _row(
        EpisodeIS(self_normalised=True), Whole(), Mean(), "value", "Self-normalised 'tis'."
    ),
    "snpdis": _row(
        EpisodeIS(per_decision=True, self_normalised=True),
        Whole(),
        Mean(),
        "value",
        "'pdis', self-normalised at every step.",
    ),
    "sequential-dr": _row(
        EpisodeDR(), Whole(), Mean(), "value", "Critic plus 'pdis' of its errors, cross-fitted."
    ),
}

LEARNING: dict[str, Row] = {
    "fqi": _row(FQI(), Whole(), Mean(), "pointwise", "Fitted Q-iteration: averages."),
    "lstd-q": _row(LSPI(), Whole(), Mean(), "pointwise", "Policy iteration on LSTD (LSPI)."),
    "ma": _row(FQI(), Split(5), Mean(), "pointwise", "Mean of K critics: splitting alone."),
    "room-vm": _row(FQI(), Split(5), Median(), "pointwise", "Median of K critics at each (s, a)."),
    "p-room-vm": _row(
        FQI(), Split(5), Quantile(0.1), "pointwise", "Low quantile of K critics, q as in the text."
    ),
    "p-room-vm-released": _row(
        FQI(), Split(5), Quantile(0.4), "pointwise", "The same, q as in the released code."
    ),
    "room-fqi": _row(FQI(), Split(5), Median(), "backup", "Median inside every Bellman target."),
    "p-room-fqi": _row(
        FQI(), Split(5), Quantile(0.1), "backup", "Low quantile in every target, q as in the text."
    ),
    "p-room-fqi-released": _row(
        FQI(), Split(5), Quantile(0.4), "backup", "The same, q as in the released code."
    ),
    "pb": _row(
        FQI(),
        Bootstrap(5),
        MeanMinusStd(2.0),
        "pointwise",
        "Mean - 2 std over bootstraps: the text.",
    ),
    "pb-released": _row(
        FQI(), OutOfBag(5), MeanMinusStd(1.0), "pointwise", "Mean - 1 std over out-of-bag episodes."
    ),
    "huber-reward": _row(
        FQI(reward="huber"), Whole(), Mean(), "pointwise", "FQI on Huber-regressed rewards."
    ),
    "huber-fqi": _row(
        FQI(huber=1.345),
        Bootstrap(5),
        Quantile(0.25),
        "backup",
        "Huber loss, and a low quantile of bootstrapped critics in every target.",
    ),
    "bc": _row(Cloning(), Whole(), Mean(), "pointwise", "Imitate the log; rewards do not matter."),
    "percent-bc": _row(
        Cloning(top=0.3),
        Whole(),
        Mean(),
        "pointwise",
        "Imitate the best episodes, ranked robustly.",
    ),
    "constant": _row(
        Constant(), Whole(), Mean(), "pointwise", "Always the one action that does best."
    ),
    "one-step": _row(
        OneStep(), Whole(), Mean(), "pointwise", "One step of improvement over the log, by trees."
    ),
    "forest-fqi": _row(
        ForestFQI(), Whole(), Mean(), "pointwise", "FQI by trees as averages: cannot diverge."
    ),
    "policy-tree": _row(
        PolicyTree(), Whole(), Mean(), "pointwise", "Bandits: a small tree of doubly robust scores."
    ),
    "policy-scores": _row(
        PolicyScores(), Whole(), Mean(), "pointwise", "Bandits: linear doubly robust scores."
    ),
    "zero-reward": _row(
        FQI(reward="zero"),
        Whole(),
        Mean(),
        "pointwise",
        "Baseline: FQI that sees no reward at all.",
    ),
    "constant-reward": _row(
        FQI(reward="one"), Whole(), Mean(), "pointwise", "Baseline: every reward is one."
    ),
}

BASES: dict[str, Any] = {
    "fqe": FQE(),
    "lstd": LSTD(),
    "mis": MIS(),
    "dr": DR(),
    "ips": IPS(),
    "fqi": FQI(),
    "lstd-q": LSPI(),
}

CATALOGUE: dict[str, Row] = {**EVALUATION, **LEARNING}


@cache
def deep() -> dict[str, Row]:
    """Return the rows that train networks; they need torch when they are fitted, not before."""
    from tailproof.deep.rows import deep_rows

    return deep_rows()


def names() -> tuple[str, ...]:
    """Return the names that `method` knows."""
    return (*CATALOGUE, *deep())


def _base(name: str) -> Any:
    from tailproof.deep.rows import DEEP_BASES

    known = {**BASES, **DEEP_BASES}
    if name not in known:
        raise MethodError(f"There is no base {name!r}. Known are {', '.join(known)}.")
    return known[name]


def method(
    name: str,
    *,
    folds: int | None = None,
    confidence: float | None = None,
    base: Any = None,
    aggregate: Aggregate | None = None,
    clip: float | str | None = None,
    **settings: Any,
) -> Method:
    """Return a named method, with other settings where given.

    Parameters
    ----------
    name
        A row of the catalogue.
    folds
        Number of members K, for methods that have several.
    confidence
        Instead of `folds`: K = ⌈8 log(2/δ)⌉ for δ = 1 − confidence, the theory's choice.
    base
        Another base algorithm, or its name: ``base="lstd"``, ``base=FQE(iterations=50)``. ROOM over
        networks is ``method("room-vm", base="iql")``.
    aggregate
        Another aggregate.
    clip
        Winsorise rewards at this quantile of either side first, or at a percentile such as "p99.9";
        see `Method`.
    settings
        Settings of the base: ``features=``, ``ridge=``, ``iterations=``, ``mean=``, ….

    Examples
    --------
    >>> print(method("roam-fqe", folds=7, iterations=50))
    FQE, split in 7, median at backup
    >>> method("roam-dm", confidence=0.95).folds
    30
    """
    row = CATALOGUE.get(name) or deep().get(name)
    if row is None:
        close = get_close_matches(name, names(), n=1)
        raise MethodError(
            f"There is no method {name!r}."
            + (f" Did you mean {close[0]!r}?" if close else "")
            + f" Known are {', '.join(names())}; or compose a "
            f"Method(base=..., partition=..., aggregate=..., at=...)."
        )
    chosen = row.method
    if confidence is not None:
        if folds is not None:
            raise MethodError("Give folds or confidence, not both.")
        if not 0 < confidence < 1:
            raise MethodError(
                f"confidence must lie strictly in (0, 1). Got {confidence!r} instead."
            )
        folds = ceil(8 * log(2 / (1 - confidence)))
    if base is not None:
        chosen = replace(chosen, base=_base(base) if isinstance(base, str) else base)
    if folds is not None:
        if isinstance(chosen.partition, Whole):
            raise MethodError(
                f"{name!r} fits one member on the whole log and has no folds. "
                f"Got folds={folds}; use 'roam-…' or Method(partition=Split({folds}), ...)."
            )
        chosen = replace(chosen, partition=replace(chosen.partition, folds=folds))  # type: ignore[type-var]
    if aggregate is not None:
        chosen = replace(chosen, aggregate=aggregate)
    if clip is not None:
        chosen = replace(chosen, clip=clip)
    return chosen.with_settings(**settings) if settings else chosen


def as_method(given: str | Method) -> Method:
    """Return the method of a name, or the `Method` itself."""
    chosen = method(given) if isinstance(given, str) else given
    if not isinstance(chosen, Method):
        raise MethodError(f"method must be a name or a Method. Got {given!r} instead.")
    return chosen
