"""Ranking of episodes by a robust score of their rewards, chosen by the rewards' tails."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal, get_args

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.data.log import Log
from tailproof.errors import MethodError, TailproofWarning
from tailproof.judgement.rules import RULES
from tailproof.statistics.huber_path import huber_estimates

#: How an episode's rewards are combined into its score; ``"auto"`` chooses by their tails.
Rank = Literal["auto", "sum", "winsorised", "median"]

_CLIPPED = 0.1  # share of the log's rewards that is winsorised on each side
_LIGHT = 1.2  # largest ratio of the plain mean's error to the best Huber mean's to use sums
_TIED = 0.1  # share of the episodes, beyond those to imitate, from which ties are warned of
_CENTRED = 3  # shortest episode whose median is used


@dataclass(frozen=True)
class Ranking:
    """The best episodes of a log, best first, with the score used and the reason for it."""

    best: IntArray
    rank: Rank
    reason: str


def best_episodes(log: Log, *, top: float, rank: Rank = "auto") -> Ranking:
    """Return the best `top` of the episodes by a score of their rewards.

    Episodes that tie with the last one kept are kept too, so that equal scores keep the whole log.

    Parameters
    ----------
    top
        Share of the episodes, in (0, 1]; at least one is kept.
    rank
        ``"sum"`` of the rewards; ``"median"``, their median times the length of the episode;
        ``"winsorised"``, their sum after the 10 % smallest and largest rewards of the log are
        winsorised, plus the mean that this removes per step: without it, skewed noise would favour
        or penalise long episodes. ``"auto"`` takes the sum where tails are
        light, the median where they are heavy and symmetric, and the winsorised sum where they are
        heavy and skewed (`choose_rank`).

    Examples
    --------
    >>> from tailproof.worlds import CartPole
    >>> log = CartPole().log(episodes=20, steps=30, seed=1)
    >>> found = best_episodes(log, top=0.25)
    >>> len(found.best), found.rank
    (5, 'sum')
    """
    require_imitation(top, rank)
    reason = ""
    if rank == "auto":
        rank, reason = choose_rank(log)
    scores = episode_scores(log, rank)
    kept = _asked(log, top)
    order = np.argsort(-scores, kind="stable")
    tied = int((scores >= scores[order[kept - 1]]).sum())
    return Ranking(order[:tied], rank, reason)


def _asked(log: Log, top: float) -> int:
    """Return the number of episodes to imitate if none are tied."""
    return max(1, ceil(top * log.n_episodes - 1e-9))


def imitated_episodes(
    parts: Sequence[Log], *, top: float, rank: Rank
) -> tuple[list[IntArray], tuple[str, ...]]:
    """Return the episodes of each part to imitate, and notes on their ranking."""
    if top == 1:
        return [np.arange(part.n_episodes) for part in parts], ()
    found = [best_episodes(part, top=top, rank=rank) for part in parts]
    kept = sum(len(each.best) for each in found)
    total = sum(part.n_episodes for part in parts)
    reasons = dict.fromkeys(each.reason for each in found if each.reason)
    said = f"Imitates {kept} of {total} episodes."
    if kept > sum(_asked(part, top) for part in parts) + _TIED * total:
        said = (
            f"Imitates {kept} of {total} episodes instead of {top:.0%}: many have the same score, and "
            f"none of them is better than another."
        )
        warnings.warn(said, TailproofWarning, stacklevel=4)
    return [each.best for each in found], (said, *reasons)


def episode_scores(log: Log, rank: Rank) -> FloatArray:
    """Return the score of each episode, (E,)."""
    starts = log.starts[:-1]
    if rank == "median":
        return np.asarray(_medians(log) * log.lengths, dtype=float)
    sums = np.asarray(np.add.reduceat(log.rewards, starts), dtype=float)
    if rank == "sum":
        return sums
    clipped = np.clip(log.rewards, *np.quantile(log.rewards, [_CLIPPED, 1 - _CLIPPED]))
    means = np.add.reduceat(clipped, starts) / log.lengths
    path = huber_estimates(log.rewards - np.repeat(means, log.lengths))
    taken = path.estimates[path.choose(RULES.caution)]
    return np.asarray(log.lengths * (means + taken), dtype=float)


def _medians(log: Log) -> FloatArray:
    return np.array([np.median(each) for each in np.split(log.rewards, log.starts[1:-1])])


def choose_rank(log: Log) -> tuple[Rank, str]:
    """Return the score chosen by the tails of the rewards, and the reason.

    The tails are those of the rewards' distances from the median of their episode. Where most
    rewards of an episode are equal (a goal that pays once, one-step episodes) the rare ones are the
    signal, not outliers, and the sum is kept.
    """
    centres = _medians(log)
    long = np.repeat(log.lengths >= _CENTRED, log.lengths)
    residuals = (log.rewards - np.repeat(centres, log.lengths))[long]
    if len(residuals) == 0:
        return "sum", "Episodes are ranked by their sum: they are too short for a median."
    if 2 * np.count_nonzero(residuals) <= len(residuals):
        return "sum", "Episodes are ranked by their sum: most of their rewards are equal."
    path = huber_estimates(np.asarray(residuals, dtype=float))
    best = path.variances[path.choose(RULES.caution)]
    gain = float(np.sqrt(path.variances[-1] / best)) if best > 0 else 1.0
    seen = f"the plain mean's error is {gain:.1f} times that of a robust one"
    if gain <= _LIGHT:
        said = f"rewards about their episode's median have light tails ({seen})."
        return "sum", f"Episodes are ranked by the sum of their rewards: {said}"
    about = "rewards about their episode's median have heavy"
    if path.asymmetry() <= RULES.skewed:
        said = f"median reward × length: {about}, symmetric tails ({seen})."
        return "median", f"Episodes are ranked by {said}"
    said = f"winsorised sums: {about}, skewed tails ({seen})."
    return "winsorised", f"Episodes are ranked by {said}"


def require_imitation(top: float = 1.0, rank: str = "auto") -> None:
    """Raise unless `top` is a share of the episodes in (0, 1], and `rank` names a score."""
    if not isinstance(top, int | float) or not 0 < top <= 1:
        raise MethodError(
            f"top, the share of the episodes to imitate, must lie in (0, 1]. Got {top!r} instead."
        )
    if rank not in get_args(Rank):
        raise MethodError(f"rank must be one of {', '.join(get_args(Rank))}. Got {rank!r} instead.")
