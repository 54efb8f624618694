"""Influence of single episodes on the plain estimate and on the median of folds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.data.log import Log
from tailproof.diagnosis.reference import (
    LinearReference,
    Reference,
    dealings,
    reference,
    resolve,
)
from tailproof.errors import MethodError
from tailproof.files.frames import as_frame, plain, scalar
from tailproof.methods.method import Method

#: Additional candidates whose exact effect is computed before the largest are chosen.
_SPARE = 40


@dataclass(frozen=True, kw_only=True)
class EpisodeInfluence:
    """The effect of one episode on the estimate."""

    episode: Any  # its id
    group: Any  # the id of its group; None without groups
    steps: int
    effect: float  # Ĵ − Ĵ₍₋ₑ₎: the estimate, minus the one refitted without this episode
    value_without: float  # Ĵ₍₋ₑ₎
    median_effect: float  # on the median of the values of K folds, averaged over a few partitions


@dataclass(frozen=True, kw_only=True)
class Influence:
    """The episodes with the largest effect on an estimate, largest first.

    Attributes
    ----------
    estimator, value
        The plain estimate: LSTD, inverse propensity scoring, or the mean return of the log.
    folds, median_value
        K, and the median of the values of K folds, averaged over a few random partitions.
    episodes
        The most influential ones.
    value_without_all
        The estimate refitted without all of them; NaN if no episode would be left.
    share
        Their part of Σ_e |effect of e|, to first order: 0.5 if it equals that of all others together.
    standard_error
        √Σ effect², over groups if the log has them: the jackknife's, to first order. Meaningless if the
        variance does not exist.
    """

    estimator: str
    value: float
    folds: int
    median_value: float
    episodes: tuple[EpisodeInfluence, ...]
    value_without_all: float
    share: float
    standard_error: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, lists and strings, ready for JSON."""
        return dict(plain(self))

    def to_frame(self) -> Any:
        """Return one row per episode: a pandas frame, or a pyarrow table where pandas is missing."""
        return as_frame([plain(each) for each in self.episodes])

    def __str__(self) -> str:
        lines = [
            f"{self.estimator}: {self.value:.4g}; median of {self.folds} folds: "
            f"{self.median_value:.4g}"
        ]
        lines += [
            f"  {each.episode!s:>12}  moves the estimate by {each.effect:+.4g}, the median of "
            f"folds by {each.median_effect:+.4g}"
            for each in self.episodes
        ]
        return "\n".join(lines)


def influence(
    log: Log,
    policy: Any = None,
    *,
    gamma: float | None = None,
    method: str | Method | None = None,
    top: int = 10,
    folds: int = 10,
    seed: int = 0,
) -> Influence:
    """Return the episodes with the largest effect on the plain estimate, with the exact effect of each.

    Candidates are chosen by first-order effects; the estimate without each of them is then computed
    exactly, by solving a small system, without a new pass over the log (equations in
    `reference.LinearReference`). The effect equals that of `evaluate` on the log without the episode
    and its first state.

    Parameters
    ----------
    log, policy, gamma, seed
        As in `evaluate`. Without a policy, the estimate is the mean return of the logged episodes;
        gamma is then 1 unless given.
    method
        The method whose features and ridge are used. The effect is always that on the plain estimate.
    top
        Number of episodes to return.
    folds
        Number of folds K of the median that is reported with the plain estimate.

    Examples
    --------
    >>> from tailproof import Log
    >>> rewards = [1.0, 2.0, 3.0, 2.0, 1000.0, 1.0]
    >>> log = Log.from_arrays([0.0] * 6, [0] * 6, rewards, [0.0] * 6, episode=list("abcdef"))
    >>> worst = influence(log, top=1).episodes[0]
    >>> worst.episode, round(worst.value_without, 3)
    ('e', 1.8)
    """
    if not isinstance(top, int) or top < 1:
        raise MethodError(f"top must be a number of episodes, 1 or more. Got {top!r} instead.")
    discount, chosen = resolve(log, policy, gamma=gamma, method=method)
    estimate = reference(log, policy, gamma=discount, method=chosen, seed=seed)
    return most_influential(estimate, top=top, folds=min(folds, log.n_groups), seed=seed)


def most_influential(estimate: Reference, *, top: int, folds: int, seed: int = 0) -> Influence:
    """Return the `top` most influential episodes of a reference estimate."""
    log = estimate.log
    effects = estimate.effects
    together = np.bincount(log.copy_of, effects, minlength=log.n_episodes)  # at the first copy
    sizes = np.abs(together)
    chosen: IntArray = np.empty(0, dtype=np.intp)
    count = log.once.n_episodes
    groups = None if log.once.group_ids is None else log.group_ids
    if count > 1:
        candidates = _largest(sizes, top + _SPARE)
        if isinstance(estimate, LinearReference):
            # an episode that dominates the fit has small residuals but large weights
            reach = np.add.reduceat(estimate.weights**2, log.starts[:-1])
            candidates = np.union1d(candidates, _largest(reach, top + _SPARE // 2))
        candidates = log.copy_of[candidates]
        candidates = candidates[np.sort(np.unique(candidates, return_index=True)[1])]
        exact = estimate.value - estimate.without(candidates)
        chosen = candidates[_largest(np.abs(exact), top)]
    values = estimate.without(chosen)
    orders = dealings(estimate, folds * max(len(chosen), 1), seed)
    dealt = [estimate.fold_values(folds, order=order) for order in orders]
    median = float(np.mean(np.nanmedian(dealt, axis=1)))
    left = [estimate.folds_without(chosen, folds=folds, order=order) for order in orders]
    medians = np.mean(np.nanmedian(left, axis=2), axis=0)
    group_effects = np.bincount(log.group_of_episode, effects).astype(float)
    scale, total = float(np.abs(group_effects).max()) or 1.0, float(sizes.sum())
    return Influence(
        estimator=estimate.name,
        value=estimate.value,
        folds=folds,
        median_value=median,
        episodes=tuple(
            EpisodeInfluence(
                episode=scalar(log.episode_ids[episode]),
                group=None if groups is None else scalar(groups[episode]),
                steps=int(log.lengths[episode]),
                effect=estimate.value - float(value),
                value_without=float(value),
                median_effect=median - float(without),
            )
            for episode, value, without in zip(chosen, values, medians, strict=True)
        ),
        value_without_all=(estimate.without_all(chosen) if len(chosen) < count else float("nan")),
        share=float(sizes[chosen].sum()) / total if total > 0 else 0.0,
        standard_error=scale * float(np.linalg.norm(group_effects / scale)),  # never overflows
    )


def _largest(values: FloatArray, count: int) -> IntArray:
    """Return the indices of the largest values, largest first; ties by index."""
    places = np.arange(len(values))
    if count < len(values):
        places = np.argpartition(-values, count)[:count]
    return places[np.lexsort((places, -values[places]))]
