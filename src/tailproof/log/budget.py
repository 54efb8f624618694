"""Memory budgets: methods that need many copies of the rows at once take a sample of a large log."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from tailproof.arrays import IntArray
from tailproof.errors import LogError, TailproofWarning
from tailproof.log.folds import shuffled_groups
from tailproof.log.log import Log, physical_memory

_BLOCKS = 1_000  # number of runs of neighbouring episodes from which a sample is drawn
_COPIES = 4  # copies of each row's features, for methods that use all rows at once
_MOST_FEATURES = 500  # more are not used by default
_VECTORS = 100  # numbers of each row beside its features: weights, scores, influences, pooled sizes


class SampleWarning(TailproofWarning):
    """The log exceeds the memory budget: only a sample of its episodes was used."""


def sample_to_budget(
    log: Log, who: str, *, features: int | None = None, most: int | None = None, seed: int = 0
) -> Log:
    """Return a log, or a random sample of whole episodes that fits its memory budget, with a warning.

    The sample consists of whole groups, or without groups of runs of neighbouring episodes, so that
    clustered extremes stay together. Episodes keep the order of the log.

    Parameters
    ----------
    who
        The function or method that needs the data, for the warning.
    features
        Number of features per row, for the memory estimate; by default that of the paper's features.
    most
        Rows of which more would take longer and change little; by default as many as fit.
    """
    allowed, rows = bytes_allowed(log), rows_in_budget(log, features)
    why = f"more need more than {allowed / 1e9:.3g} GB of memory. Raise the budget to use them"
    if most is not None and most < rows:
        rows, why = most, "more would take longer and change little"
    if log.n_transitions <= rows:
        return log
    chosen = sampled_episodes(log, rows, seed=seed)
    if len(chosen) == 0:
        raise LogError(
            f"{who} may take {allowed / 1e9:.3g} GB, about {rows} of {log.n_transitions} "
            f"transitions, and every {'group' if log.group_ids is not None else 'episode'} that was "
            f"drawn is longer. Raise the budget, or use a method that reads a log in pieces."
        )
    taken = replace(log.take(chosen), budget=None)
    said = f"{taken.n_transitions:,} of {log.n_transitions:,} rows"
    if not log.is_bandit:
        said += f", {taken.n_episodes:,} of {log.n_episodes:,} episodes"
    warnings.warn(
        f"{who} looked at a sample of {said} (seed {seed}): {why}; fqe, lstd, mis, dr, fqi and their "
        f"folds read all of a log in pieces.",
        SampleWarning,
        stacklevel=3,
    )
    return taken


def bytes_allowed(log: Log) -> int:
    """Return how many bytes copies of a log's rows may take: its budget, or half of the memory."""
    if log.budget is not None:
        return log.budget
    half = physical_memory() // 2
    return max(half - log.bytes_in_memory, half // 4)


def rows_in_budget(log: Log, features: int | None = None) -> int:
    """Return how many rows methods that need all of them at once may take."""
    if features is None:
        features = min(_paper_features(log), _MOST_FEATURES)
    own = log.bytes_in_memory / log.n_transitions
    return int(bytes_allowed(log) / (own + 8 * (_COPIES * features + _VECTORS)))


def within_budget(log: Log, budget: int | None) -> Log:
    """Return a log in memory with the budget that is left for copies of its rows, if it needs one."""
    if budget is None or log.budget is not None:
        return log
    limited = replace(log, budget=max(budget - log.bytes_in_memory, budget // 4))
    return log if fits_budget(limited) else limited


def fits_budget(log: Log) -> bool:
    """Return whether all rows of a log can be used at once."""
    return log.n_transitions <= rows_in_budget(log)


def _paper_features(log: Log) -> int:
    p = len(log.state_names)
    return (log.n_actions if log.is_discrete else 1) * (1 + p + p * (p - 1) // 2)


def sampled_episodes(log: Log, rows: int, *, seed: int) -> IntArray:
    """Return random episodes with at most `rows` transitions in total, in log order."""
    rng = np.random.default_rng([seed, 3])
    if log.group_ids is not None:
        unit, order = log.group_of_episode, shuffled_groups(log, rng)
    else:
        count = min(_BLOCKS, log.n_episodes)
        unit, order = np.arange(log.n_episodes) * count // log.n_episodes, rng.permutation(count)
    sizes = np.bincount(unit, weights=log.lengths)
    enough = int(np.searchsorted(np.cumsum(sizes[order]), rows, side="right"))
    return np.flatnonzero(np.isin(unit, order[:enough]))
