"""Ends that states do not explain: by the clock, and where nothing was logged afterwards."""

from __future__ import annotations

import numpy as np

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.log.log import Log
from tailproof.rules import RULES

_RANGES = 8  # steps of many ends, around which ends are counted
_SURPRISING = 5.0  # standard deviations between counted and expected ends
_UNEXPLAINED = 0.5  # least share of the difference from a constant rate that no state explains
_FEW = 10  # episodes that were cut off, too few to tell chance from a rule
_BEYOND = 0.1  # share of the discounted steps, beyond which an unknown rest decides the value
_ROWS = 20_000  # rows to look at, of a longer log
_TREES, _LEAF = 10, 10


def time_limit(log: Log) -> str:
    """Return in words when the episodes of a log that `ends_by_the_clock` end."""
    lengths = log.lengths[log.ends]
    least, most = int(lengths.min()), int(lengths.max())
    if least == most:
        who = "every episode ends" if log.ends.all() else "episodes end"
        return f"{who} for good after {most} steps"
    return f"episodes end for good after {least} to {most} steps, which the step foretells"


def ends_by_the_clock(log: Log) -> bool:
    """Return whether the step of an episode tells more about its end than the state does.

    Ends are counted in ranges of steps. If they are far from those at a constant rate, a forest that
    was fitted to other episodes predicts them from states and actions. They follow the clock if
    the predictions are far from them too, and explain less than half of the difference.
    """
    lengths = log.lengths
    if lengths.max() == 1 or len(lengths) == 1 or not log.ends.any():
        return False
    last = lengths[log.ends] - 1
    some = np.quantile(last, np.linspace(0, 1, _RANGES + 1)[1:-1], method="lower")
    edges = np.unique([some - 1, some])  # ranges end before the steps of many ends, and at them
    at_risk = len(lengths) - np.cumsum(np.bincount(lengths))[:-1]  # (steps,)
    steps = np.arange(len(at_risk))
    rows = np.bincount(np.searchsorted(edges, steps), at_risk)
    ends = np.bincount(np.searchsorted(edges, last), minlength=len(rows))
    rate = ends.sum() / rows.sum()
    fixed = bool(log.ends.all()) and np.ptp(lengths) == 0  # a clock, however few the episodes
    if not fixed and _surprise(ends, rate * rows, rate * (1 - rate) * rows) < _SURPRISING:
        return False
    part = _some_episodes(log)
    place = np.searchsorted(edges, part.step_of_row)
    chance = _predicted_ends(part)
    ends, constant, expected, variance = (
        np.bincount(place, each, minlength=len(rows))
        for each in (part.terminated, np.full(len(place), rate), chance, chance * (1 - chance))
    )
    explained = np.abs(ends - expected).sum() < _UNEXPLAINED * np.abs(ends - constant).sum()
    return bool(not explained and (fixed or _surprise(ends, expected, variance) > _SURPRISING))


def unknown_rest(log: Log, gamma: float) -> str | None:
    """Return in words which rest of the episodes the log cannot tell, None if there is no such rest.

    If most episodes that were cut off lead to values of a state variable that no row starts from, such
    as the last hour of every day, whatever follows is extrapolated; and with a long discount it is
    most of the value.
    """
    if gamma == 0 or log.ends.all():
        return None
    cut = np.flatnonzero(~log.ends)
    if len(cut) < _FEW:
        return None
    after = log.next_states[log.starts[1:][cut] - 1]  # (cut, p)
    beyond = (after < log.states.min(axis=0)) | (after > log.states.max(axis=0))
    worst = int(beyond.sum(axis=0).argmax())
    there = beyond[:, worst]
    rest = float((gamma ** log.lengths[cut[there]]).sum()) / log.n_episodes
    if 2 * np.count_nonzero(there) <= len(cut) or rest < _BEYOND:
        return None
    values = np.unique(after[there, worst])
    where = f"{values[0]:g}" if len(values) == 1 else f"{values[0]:g} to {values[-1]:g}"
    return (
        f"{np.count_nonzero(there)} of {log.n_episodes} episodes were cut off where "
        f"{log.state_names[worst]!r} is {where}, and no row starts there: the log does not tell what "
        f"follows, which with gamma={gamma:g} is {100 * rest:.0f} % of all discounted steps"
    )


def _surprise(counts: AnyArray, expected: AnyArray, variance: AnyArray) -> float:
    return float((np.abs(counts - expected) / np.sqrt(variance + 1)).max())


def _some_episodes(log: Log) -> Log:
    """Return evenly spaced episodes with about as many rows as are looked at."""
    share = _ROWS / log.n_transitions
    count = int(np.clip(share * log.n_episodes, 2, log.n_episodes))
    every = np.linspace(0, log.n_episodes - 1, count).astype(np.intp)
    return log if count == log.n_episodes else log.take(every)


def _predicted_ends(log: Log) -> FloatArray:
    """Return the chance that each row ends its episode, by trees fitted to the other episodes, (n,)."""
    returns = np.bincount(log.episode_of_row, log.rewards)
    odd = np.argsort(np.argsort(returns)) % 2 == 1  # in any order of episodes
    inputs = np.column_stack([log.states, log.actions])
    return predicted_by_others(inputs, log.terminated, odd[log.episode_of_row])


def predicted_by_others(inputs: FloatArray, target: AnyArray, second: BoolArray) -> FloatArray:
    """Return predictions for each half of the rows, by trees that were fitted to the other, (n,)."""
    from sklearn.ensemble import ExtraTreesRegressor

    found = np.empty(len(target))
    for own in (second, ~second):
        leaf = int(np.clip(np.count_nonzero(target[~own]) // 4, 1, _LEAF))
        kept = leading_columns(inputs[~own], target[~own], smallest=leaf)
        trees = ExtraTreesRegressor(_TREES, min_samples_leaf=leaf, max_features=1.0, random_state=0)
        trees.fit(inputs[~own][:, kept], target[~own])
        found[own] = trees.predict(inputs[own][:, kept])
    return found


def leading_columns(
    inputs: AnyArray, targets: AnyArray, *, smallest: int, most: int = RULES.tree_columns
) -> IntArray:
    """Return the columns that matter most to a few trees; all if there are at most `most`.

    The time that trees take grows with the columns that each split considers. They see at most
    `screening_rows` rows, evenly spaced.
    """
    from sklearn.ensemble import ExtraTreesRegressor

    count = inputs.shape[1]
    if count <= most:
        return np.arange(count)
    every = -(-len(inputs) // RULES.screening_rows)
    few = ExtraTreesRegressor(
        RULES.screening_trees,
        min_samples_leaf=max(smallest // every, 1),
        max_features=1.0,
        random_state=0,
    ).fit(inputs[::every], targets[::every])
    order = np.argsort(-few.feature_importances_, kind="stable")
    return np.sort(order[:most])
