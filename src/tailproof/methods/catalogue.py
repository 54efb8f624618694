"""The catalogue of named methods, one row per method, as in the paper's table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

from tailproof.critics.base import Algorithm, At
from tailproof.critics.custom import Custom
from tailproof.critics.fitted_q import FQE, FQI
from tailproof.critics.lstd import LSPI, LSTD
from tailproof.errors import MethodError, did_you_mean
from tailproof.estimators.dr import DR
from tailproof.estimators.importance import (
    IPS,
    BanditDR,
    Clip,
    EpisodeDR,
    EpisodeIS,
    ExponentialSmoothing,
    ImplicitExploration,
    LogSumExp,
    PowerMean,
    Shrink,
)
from tailproof.estimators.mis import MIS
from tailproof.estimators.sequential import Auto
from tailproof.learners.cloning import Cloning
from tailproof.learners.improvement import Constant, ForestFQI, OneStep
from tailproof.learners.one_step import PolicyScores, PolicyTree
from tailproof.log.folds import Bootstrap, OutOfBag, Partition, Split, Whole
from tailproof.methods.method import Method
from tailproof.parameters import LEVEL, require
from tailproof.robust.aggregates import Aggregate, Mean, MeanMinusStd, Median, Quantile
from tailproof.robust.intervals import theory_folds
from tailproof.robust.means import TrimmedMean
from tailproof.robust.pooling import TailPooled


@dataclass(frozen=True)
class Row:
    """One named method and a sentence about it."""

    method: Method
    about: str


_WHOLE, _MEAN = Whole(), Mean()


def row(
    about: str,
    base: Algorithm,
    partition: Partition = _WHOLE,
    aggregate: Aggregate = _MEAN,
    at: At | None = None,
) -> Row:
    """Return a row; by default, evaluators combine values and learners critics at each (s, a)."""
    at = at or ("value" if base.capabilities.evaluates else "pointwise")
    return Row(Method(base=base, partition=partition, aggregate=aggregate, at=at), about)


EVALUATION: dict[str, Row] = {
    "auto": row("Looks at the log first; says what it chose.", Auto()),
    "fqe": row("Fitted Q-evaluation: averages.", FQE()),
    "lstd": row("Fixed point of FQE, in closed form.", LSTD()),
    "mis": row("Reweighted rewards; mean= makes it robust.", MIS()),
    "dr": row("Critic plus reweighted residuals, cross-fitted.", DR()),
    "roam-dm": row("Median of K critics at each (s, a).", FQE(), Split(5), Median(), "pointwise"),
    "roam-variant": row("Median of K values.", FQE(), Split(5), Median()),
    "roam-fqe": row("Median inside every Bellman target.", FQE(), Split(5), Median(), "backup"),
    "roam-mis": row("Median of K reweighted means.", MIS(), Split(5), Median()),
    "roam-dr": row("Median of K doubly robust values.", DR(), Split(5), Median()),
    "ma-dm": row("Mean of K critics: splitting alone.", FQE(), Split(5), Mean(), "pointwise"),
    "ma-mis": row("Mean of K reweighted means.", MIS(), Split(5), Mean()),
    "tm-mis": row("Trimmed mean of weighted rewards.", MIS(mean=TrimmedMean(0.02))),
    "b-roam-dm": row(
        "Median of critics on bootstrapped episodes.", FQE(), Bootstrap(5), Median(), "pointwise"
    ),
    "b-roam-mis": row("Median of values on bootstrapped episodes.", MIS(), Bootstrap(5), Median()),
    "ips": row("Bandits: inverse propensity scoring.", IPS()),
    "snips": row("Bandits: self-normalised IPS.", IPS(self_normalised=True)),
    "tail-pooled-snips": row(
        "Bandits: SNIPS with pooled sizes of extremes.",
        IPS(self_normalised=True, mean=TailPooled()),
    ),
    "clipped-ips": row("Bandits: weights of at most 10.", IPS(reweight=Clip(10.0))),
    "shrunk-ips": row("Bandits: weights shrunk smoothly.", IPS(reweight=Shrink(100.0))),
    "ix-ips": row("Bandits: π/(μ + 0.01).", IPS(reweight=ImplicitExploration(0.01))),
    "power-mean-ips": row("Bandits: w/(0.9 + 0.1w).", IPS(reweight=PowerMean(0.1))),
    "smoothed-ips": row("Bandits: π/μ^0.8.", IPS(reweight=ExponentialSmoothing(0.8))),
    "lse": row("Bandits: log-sum-exp mean of w·r.", IPS(mean=LogSumExp())),
    "bandit-dm": row("Bandits: reward model, no propensities.", LSTD()),
    "bandit-dr": row("Bandits: model plus IPS of its errors.", BanditDR()),
    "tis": row("Returns, weighted by all actions of the episode.", EpisodeIS()),
    "pdis": row("Rewards, weighted by the actions up to them.", EpisodeIS(per_decision=True)),
    "sntis": row("Self-normalised 'tis'.", EpisodeIS(self_normalised=True)),
    "snpdis": row(
        "'pdis', self-normalised at every step.", EpisodeIS(per_decision=True, self_normalised=True)
    ),
    "sequential-dr": row("Critic plus 'pdis' of its errors, cross-fitted.", EpisodeDR()),
}

LEARNING: dict[str, Row] = {
    "fqi": row("Fitted Q-iteration: averages.", FQI()),
    "lstd-q": row("Policy iteration on LSTD (LSPI).", LSPI()),
    "ma": row("Mean of K critics: splitting alone.", FQI(), Split(5), Mean()),
    "room-vm": row("Median of K critics at each (s, a).", FQI(), Split(5), Median()),
    "p-room-vm": row(
        "Low quantile of K critics, q as in the paper.", FQI(), Split(5), Quantile(0.1)
    ),
    "p-room-vm-released": row(
        "The same, q as in the paper's code.", FQI(), Split(5), Quantile(0.4)
    ),
    "room-fqi": row("Median inside every Bellman target.", FQI(), Split(5), Median(), "backup"),
    "p-room-fqi": row(
        "Low quantile in every target, q as in the paper.", FQI(), Split(5), Quantile(0.1), "backup"
    ),
    "p-room-fqi-released": row(
        "The same, q as in the paper's code.", FQI(), Split(5), Quantile(0.4), "backup"
    ),
    "pb": row(
        "Mean - 2 std over bootstraps: as in the paper.", FQI(), Bootstrap(5), MeanMinusStd(2.0)
    ),
    "pb-released": row(
        "Mean - 1 std over out-of-bag episodes.", FQI(), OutOfBag(5), MeanMinusStd(1.0)
    ),
    "huber-reward": row("FQI on Huber-regressed rewards.", FQI(reward="huber")),
    "huber-fqi": row(
        "Huber loss, and a low quantile of bootstrapped critics in every target.",
        FQI(huber=1.345),
        Bootstrap(5),
        Quantile(0.25),
        "backup",
    ),
    "bc": row("Imitate the log; rewards do not matter.", Cloning()),
    "percent-bc": row("Imitate the best episodes, ranked robustly.", Cloning(top=0.3)),
    "constant": row("Always the one action that does best.", Constant()),
    "one-step": row("One step of improvement over the log, by trees.", OneStep()),
    "forest-fqi": row("FQI by trees as averages: cannot diverge.", ForestFQI()),
    "policy-tree": row("Bandits: a small tree of doubly robust scores.", PolicyTree()),
    "policy-scores": row("Bandits: linear doubly robust scores.", PolicyScores()),
    "zero-reward": row("Baseline: FQI that sees no reward at all.", FQI(reward="zero")),
    "constant-reward": row("Baseline: every reward is one.", FQI(reward="one")),
}

CATALOGUE: dict[str, Row] = {**EVALUATION, **LEARNING}
BASES: dict[str, Any] = {
    name: CATALOGUE[name].method.base
    for name in ("fqe", "lstd", "mis", "dr", "ips", "fqi", "lstd-q")
}


@cache
def deep() -> dict[str, Row]:
    """Return the rows that train networks; they need torch only for fitting."""
    from tailproof.deep.rows import deep_rows

    return deep_rows()


def names() -> tuple[str, ...]:
    """Return the names that `method` knows."""
    return (*CATALOGUE, *deep())


def _as_base(given: Any) -> Any:
    """Return the base of a name, of a function or an object that is called, or the base itself."""
    if not isinstance(given, str):
        return Custom(given) if callable(given) and not isinstance(given, type) else given
    from tailproof.deep.rows import DEEP_BASES

    known = {**BASES, **DEEP_BASES}
    if given not in known:
        raise MethodError(f"There is no base {given!r}. Known are {', '.join(known)}.")
    return known[given]


def _require_replaceable(name: str, own: Any, given: Any) -> None:
    """Raise if another base would lose settings that make the row what it is."""
    if type(given) is type(own):
        return
    plain = type(own)()
    lost = [
        f"{each.name}={value!r}"
        for each in fields(own)
        if (value := getattr(own, each.name)) != getattr(plain, each.name)
    ]
    if lost:
        raise MethodError(
            f"{name!r} is made by {type(own).__name__}({', '.join(lost)}), and another base would "
            f"leave that out. Give {type(given).__name__} the setting, or use a row named after it."
        )


def method(
    name: str,
    *,
    folds: int | None = None,
    confidence: float | None = None,
    base: Algorithm | Callable[..., object] | str | None = None,
    aggregate: Aggregate | None = None,
    clip: float | str | None = None,
    **settings: object,
) -> Method:
    """Return a named method, with the given settings changed.

    Parameters
    ----------
    name
        A row of the catalogue.
    folds
        Number of members K, for methods that have several.
    confidence
        Instead of `folds`: K = ⌈8 log(2/δ)⌉ for δ = 1 − confidence, as in the paper's theory.
    base
        Another base algorithm, or its name: ``base="lstd"``, ``base=FQE(iterations=50)``. ROOM over
        networks is ``method("room-vm", base="iql")``; over a learner of your own, a function
        ``fit(fold, gamma)`` that returns Q (see `Custom`).
    aggregate
        Another aggregate.
    clip
        Winsorise rewards at this quantile on both sides first, or at a percentile such as "p99.9";
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
    known = CATALOGUE.get(name) or deep().get(name)
    if known is None:
        raise MethodError(
            f"There is no method {name!r}.{did_you_mean(name, names())} `tailproof methods` lists "
            f"them; or compose a Method(base=..., partition=..., aggregate=..., at=...)."
        )
    chosen, changes = known.method, dict[str, Any]()
    if confidence is not None:
        if folds is not None:
            raise MethodError("Give folds or confidence, not both.")
        require(LEVEL, confidence=confidence)
        folds = theory_folds(1 - confidence)
    if base is not None:
        changes["base"] = _as_base(base)
        _require_replaceable(name, chosen.base, changes["base"])
    if folds is not None:
        if isinstance(chosen.partition, Whole):
            raise MethodError(
                f"{name!r} fits one member on the whole log and has no folds. "
                f"Got folds={folds}; use 'roam-…' or Method(partition=Split({folds}), ...)."
            )
        changes["partition"] = replace(chosen.partition, folds=folds)  # type: ignore[type-var]
    if aggregate is not None:
        changes["aggregate"] = aggregate
    if clip is not None:
        changes["clip"] = clip
    chosen = replace(chosen, **changes)
    return chosen.with_settings(**settings) if settings else chosen


def as_method(given: str | Method) -> Method:
    """Return the method of a name, or the `Method` itself."""
    chosen = method(given) if isinstance(given, str) else given
    if not isinstance(chosen, Method):
        raise MethodError(f"method must be a name or a Method. Got {given!r} instead.")
    return chosen
