"""From evidence to a verdict: fixed rules, in the order in which they are applied.

1. The unit. Extremes that come in clusters are one event each, and only sums over episodes or
   groups are safe (`unit_for`).
2. The mean. Where the variance exists the plain average is best. Otherwise the adaptive Huber mean,
   which is safe whatever the skew; or, where the tails are plainly symmetric and the steps many, a
   median of means, which is then several times closer.
3. The folds. Six reach 95 % on both sides. Heavy tails want ten, or twice as many as there are
   outlying groups; skew wants as few as possible, because a median of many small folds is biased.
4. The level. Exact order statistics of K folds, lowered for a heavy left tail, and withheld where
   folds depend on each other or the policy does what the log never did.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tailproof.algorithms.mis import Unit
from tailproof.data.log import Log
from tailproof.diagnosis.diagnosis import Covers, Verdict
from tailproof.judgement.evidence import Clustering, KPath, Overlap, Skew, TailReport
from tailproof.judgement.influence import Influence
from tailproof.statistics.intervals import Kind, folds_for
from tailproof.statistics.means import (
    AdaptiveHuber,
    Mean,
    MedianOfMeans,
    PermutedMedianOfMeans,
    SampleMean,
)
from tailproof.statistics.tails import TailIndex

_PROMISE = 0.95
_FEW, _MORE, _MOST = 6, 10, 30  # folds
_ENOUGH = 2_000  # steps from which the two tails can be told apart
_EVEN = 0.2  # medcouple below which the middle of a sample is even enough for short blocks
_BLOCKS = 200
_PERMUTED = 200_000  # samples up to which thirty partitions cost nothing
_LEAST_INDEX = 1.05  # below it the folds that a bound needs grow beyond all reason
_UNLOGGED = 0.01
_FAR = 10.0  # times the leverage of logged actions


def unit_for(log: Log, clustering: Clustering) -> tuple[Unit, str]:
    """Return what a sample should be, and why.

    Groups where bad episodes come together and the log names groups, or where extremes cluster and
    the log is too short to see whether they reach beyond the episode; episodes where extremes
    cluster inside them; steps otherwise.
    """
    named = log.group_ids is not None
    within, across = clustering.within, clustering.across
    if clustering.in_groups:
        index = min(
            (each for each in (across, clustering.groups) if each is not None and each.estimable),
            key=lambda each: each.high,
        )
        text = (
            f"Bad episodes come together: the extremal index is {index.theta:.2f} "
            f"[{index.low:.2f}, {index.high:.2f}], where 1 means alone. "
        )
        if named:
            return "group", text + "The sums over groups are the samples, and folds hold groups."
        return "episode", text + "The log names no groups, so folds of episodes share the event."
    if clustering.in_episodes:
        assert within is not None
        text = (
            f"Extreme steps come in clusters of {1 / within.theta:.1f}: the extremal index within "
            f"an episode is {within.theta:.2f} [{within.low:.2f}, {within.high:.2f}]. "
        )
        if named and not across.estimable:
            return "group", text + "Groups are named, so their sums are the samples."
        return "episode", text + "Each cluster is one event, so episode sums are the samples."
    return "step", "Extreme steps come alone, so every step counts as a sample of its own."


def decide(
    log: Log,
    *,
    unit: Unit,
    unit_reason: str,
    tails: Sequence[TailReport],
    clustering: Clustering,
    overlap: Overlap | None,
    k_path: KPath,
    influence: Influence,
    outlying: int,
    differing: int,
    settings: dict[str, Any],
) -> Verdict:
    """Apply the rules of this module to the evidence.

    Parameters
    ----------
    unit, unit_reason
        From `unit_for`.
    tails
        Of the samples that the estimate averages; the last one those of the unit.
    outlying
        Groups whose effect on the plain estimate is out of all proportion.
    differing
        Samples of the unit that differ from the most common value.
    settings
        Of the base: features and ridge.
    """
    worst = min(tails, key=lambda each: ("no", "doubtful", "yes").index(each.variance.exists))
    known = [each.heavier for each in tails if each.heavier is not None]
    heavier = min(known, key=lambda tail: tail.alpha, default=None)
    shape = tails[-1]
    light = worst.variance.exists == "yes"
    sparse = not light and differing <= 2 * math.log(max(shape.n, 2))
    leaning = not light and (shape.skew in ("left", "right") or k_path.drifts)
    symmetric = light or (shape.skew == "symmetric" and not leaning)

    mean: Mean | None = None
    reasons = [_about_tails(worst)]
    if sparse:
        reasons.append(
            f"Only {differing} of {shape.n:,} samples differ from the rest: a robust mean would "
            f"take them for outliers and answer without them, the plain average keeps them."
        )
    elif not light:
        mean, why = _mean_for(shape, unit=unit, worst=worst, symmetric=symmetric)
        reasons.append(why)
    if worst.mean.exists == "no":
        reasons.append(
            "The sample shows no mean at all: what is estimated is a centre, not an expectation."
        )
    reasons.append(unit_reason)
    if leaning:
        reasons.append(_about_skew(shape, k_path))

    left = None if light else _left_index(shape.skew, heavier)
    wanted = _FEW if light or leaning else _MORE
    if not light and (not leaning or clustering.in_groups):
        wanted = max(wanted, 2 * outlying + 1)
    if left is not None:
        wanted = max(wanted, folds_for(_PROMISE, "tail-aware-bound", tail_index=left))
    folds = max(min(wanted, _MOST, log.n_groups // 2), 1)
    level: float | None = 1 - (2.0 if left is None else left) ** -folds
    interval_level = 1 - 2.0 ** (1 - folds) if symmetric else None
    covers: Covers = "mean"
    if not (symmetric or shape.skew == "right" or left is not None) or worst.mean.exists == "no":
        covers = "median of folds"
        reasons.append(
            "The level of a bound is that of the median of the fold law, because this log does not "
            "show that folds are as often too high as too low."
        )
    obstacles = _obstacles(log, folds=folds, clustering=clustering, overlap=overlap)
    if sparse:
        obstacles.append("folds without those few samples say nothing about them")
    if obstacles:
        level = interval_level = None
        reasons += [f"No level can be promised: {each}." for each in obstacles]
    improvements = []
    if overlap is None:
        improvements.append("Pass the policy: without it nothing is known of weights and overlap.")
    else:
        found, wished = _about_overlap(log, overlap)
        reasons += found
        improvements += wished
    improvements += _about_size(
        log, left=left, heavier=None if light else heavier, clustering=clustering
    )
    if not light and influence.episodes:
        first = influence.episodes[0]
        improvements.append(
            f"Look at episode {first.episode} first: alone it moves the plain estimate by "
            f"{first.effect:+.4g}, from {first.value_without:.4g} to {influence.value:.4g}."
        )
    name = _name_for(log, overlap, mean, influence)
    verdict = Verdict(
        method=name,
        mean=mean,
        unit=unit,
        folds=folds,
        level=level,
        interval_level=interval_level,
        covers=covers,
        tail_index=left,
        fold_mean=AdaptiveHuber() if mean is not None and symmetric else SampleMean(),
        settings={} if name in ("ips", "snips") else settings,
        reasons=tuple(reasons),
        improvements=tuple(improvements),
        summary="",
    )
    lead = "The tails are light, so the plain average is safe"
    if sparse:
        lead = "A handful of samples carries everything, so no mean is safe"
    elif not light:
        index = "" if heavier is None else f" (index {heavier.alpha:.2f})"
        lean = {"left": " and lean left", "right": " and lean right", "symmetric": " and symmetric"}
        surely = "are" if worst.variance.exists == "no" else "may be"
        lead = f"The tails {surely} heavy{index}{lean.get(shape.skew, '')}"
        lead += ", and extremes come in clusters" if unit != "step" else ""
    promise = "no bound can be promised"
    if level is not None:
        few = ", not more," if leaning and left is None else ""
        aware = "" if left is None else " that knows of the left tail"
        promise = f"{folds} folds{few} promise a lower bound at {_percent(level)}{aware}"
        promise += "" if covers == "mean" else f", for the {covers}"
    return replace(verdict, summary=f"{lead}: use {verdict.call}; {promise}.")


def _mean_for(
    shape: TailReport, *, unit: Unit, worst: TailReport, symmetric: bool
) -> tuple[Mean, str]:
    if (
        symmetric
        and unit == "step"
        and worst.variance.exists == "no"
        and shape.n >= _ENOUGH
        and abs(shape.medcouple.value) < _EVEN
    ):
        few = shape.n <= _PERMUTED
        mean = PermutedMedianOfMeans(blocks=_BLOCKS) if few else MedianOfMeans(blocks=_BLOCKS)
        return mean, (
            f"Both tails are alike ({shape.asymmetry.right} extremes on the right, "
            f"{shape.asymmetry.left} on the left), so a median of {_BLOCKS} block means has no skew "
            f"to be biased by, and no single step can move it far."
        )
    return AdaptiveHuber(), (
        "The adaptive Huber mean clips only the few largest samples: it is safe whichever way the "
        "tails lean, and costs nothing where they are light."
    )


def _left_index(skew: Skew, heavier: TailIndex | None) -> float | None:
    """Return the index that a lower bound must know: that of a left tail in (1, 2), guessed low."""
    if skew != "left" or heavier is None or heavier.side != "left" or not 1 < heavier.alpha < 2:
        return None
    return max(heavier.low, _LEAST_INDEX)


def _name_for(log: Log, overlap: Overlap | None, mean: Mean | None, influence: Influence) -> str:
    scored = influence.estimator == "inverse propensity scoring"
    if scored or (overlap is None and log.is_bandit and log.propensity is not None):
        uneven = overlap is not None and overlap.weights.effective < overlap.weights.n / 2
        return "snips" if mean is None and uneven else "ips"
    return "lstd" if mean is None else "mis"


def _about_tails(worst: TailReport) -> str:
    says = {"yes": "exists", "doubtful": "is in doubt", "no": "does not seem to exist"}
    evidence = worst.variance
    return f"The variance of the {worst.name} {says[evidence.exists]}: {evidence.reason}."


def _about_skew(shape: TailReport, path: KPath) -> str:
    parts = []
    if shape.skew in ("left", "right"):
        lean = shape.asymmetry
        parts.append(f"{lean.right} extremes lie on the right and {lean.left} on the left")
    if path.drifts:
        later = [(k, value) for k, value in zip(path.folds, path.values, strict=True) if k >= 5]
        (first, before), (last, after) = later[0], later[-1]
        parts.append(
            f"the median of folds drifts from {before:.4g} at K = {first} to {after:.4g} at "
            f"K = {last}"
        )
    text = " and ".join(parts)
    return (
        f"{text[0].upper()}{text[1:]}: beware of a large K, because medians of many small folds, and "
        f"trimming, are biased towards the bulk."
    )


def _obstacles(
    log: Log, *, folds: int, clustering: Clustering, overlap: Overlap | None
) -> list[str]:
    obstacles = []
    if folds < 2:
        unit = "episodes" if log.group_ids is None else "groups"
        obstacles.append(f"{log.n_groups} {unit} are too few for folds")
    if clustering.in_groups and log.group_ids is None:
        obstacles.append("neighbouring episodes share their extremes, so folds are not independent")
    if overlap is not None:
        if overlap.unlogged > _UNLOGGED:
            obstacles.append(f"{overlap.unlogged:.1%} of the policy's actions were never logged")
        if overlap.weights.pareto.k >= 1:
            obstacles.append("the weights are so heavy that their own mean is in doubt")
    return obstacles


def _about_overlap(log: Log, overlap: Overlap) -> tuple[list[str], list[str]]:
    """Return what is wrong with the weights, and what would mend it."""
    weights, found, wished = overlap.weights, [], []
    if weights.effective < weights.n / 10:
        found.append(
            f"The weights leave {weights.effective:,.0f} effective samples of {weights.n:,}; the "
            f"largest carries {weights.largest_share:.1%}."
        )
    if not weights.reliable and not math.isnan(weights.pareto.k):
        found.append(
            f"The largest weights have a Pareto shape of {weights.pareto.k:.2f}, where "
            f"{weights.reliable_k:.2f} is the limit for {weights.n:,} of them."
        )
    if overlap.leverage > _FAR:
        found.append(
            f"The policy acts where the log has little data: its leverage is "
            f"{overlap.leverage:.3g} times that of the logged actions."
        )
    if found or overlap.unlogged > _UNLOGGED:
        wished.append(
            "Log more of what the policy does, or judge a policy closer to the log: no interval "
            "covers what was never tried."
        )
    if overlap.mean_known and weights.mean_error > max(4 * weights.standard_error, 0.05):
        found.append(
            f"The weights average {weights.mean:.3g} where they should average 1, by more than "
            f"chance explains."
        )
        wished.append(
            "Check the propensities."
            if log.is_bandit and log.propensity is not None
            else "Use richer features or a smaller ridge: the weights do not add up."
        )
    if log.is_bandit and log.propensity is None:
        wished.append("Log propensities: the answer now rests on the reward model alone.")
    return found, wished


def _about_size(
    log: Log,
    *,
    left: float | None,
    heavier: TailIndex | None,
    clustering: Clustering,
) -> list[str]:
    """Return what more data, or better labelled data, would bring."""
    wished = []
    if clustering.in_groups and log.group_ids is None:
        wished.append(
            "Name the groups that share events (week, user, site) with Log.with_groups, so that "
            "folds can keep them together."
        )
    kind: Kind = "order-statistic-interval" if left is None else "tail-aware-bound"
    needed = folds_for(_PROMISE, kind, tail_index=left)
    if log.n_groups < 2 * needed:
        unit = "episodes" if log.group_ids is None else "groups"
        wished.append(
            f"{_percent(_PROMISE)} needs {needed} folds, hence {2 * needed} {unit} or more; the log "
            f"has {log.n_groups}."
        )
    if heavier is not None and 1 < heavier.alpha < 2:
        # An average of n values errs like n^(1/α − 1).
        factor = 2 ** (heavier.alpha / (heavier.alpha - 1))
        times = f"{factor:,.0f}" if factor < 1e6 else "more than a million"
        wished.append(
            f"More data help the plain average little: half its error takes {times} times the log, "
            f"where light tails take 4."
        )
    return wished


def _percent(level: float) -> str:
    return f"{math.floor(1e4 * level + 1e-9) / 100:g} %"  # down: what is promised must hold
