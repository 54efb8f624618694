"""Whether logged propensities can be those with which the logged actions were taken.

1{A = a} / p(A | s) has the mean P(p(a | s) > 0) ≤ 1 for every action a, in every part of the states.
Means of positive, heavy-tailed numbers fall short by chance far more often than they exceed: only an
excess is a contradiction. Falling short means that the action could not be taken everywhere, unless
it does so alike in all parts of the states, as if it could be taken half everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.log.log import Log
from tailproof.log.spaces import Discrete

_ENOUGH = 100  # rows of an action from which a mean is judged
_OFF = 0.1  # how far a mean may fall short of 1, or be from 0
_ERRORS = 5  # and how many standard errors
_MORE = 0.02  # how far it may exceed 1: rounded propensities
_SURE = 6  # and how many standard errors: P < 10⁻⁹, because many parts are tested
_TINY = 1e-3  # what a propensity is of the median one if it is named
_FEW = 0.01  # share of rows up to which tiny propensities are slips
_DRIFT = 0.2  # correlation of propensities with their place in the file that is reported
_RARE = 0.01  # propensities below may hide what falls short: such weights may not have occurred yet
_CUTS = ((0.5,), (0.2, 0.4, 0.6, 0.8))  # quantiles: halves of many rows, and parts that differ more
_ROWS, _VARIABLES = 200_000, 50  # how many are looked at


def doubtful_propensities(log: Log) -> tuple[str, ...]:
    """Return what is wrong with the propensities of a log with discrete actions, in sentences."""
    given, space = log.propensity, log.action_space
    if given is None or not isinstance(space, Discrete):
        return ()
    said = _few_tiny(given, log.table_rows.rows)
    misfit = propensity_misfit(
        log.states,
        log.state_names,
        log.actions,
        given,
        space,
        everywhere=log.table_rows.available is None,
        groups=None if log.group_ids is None else np.repeat(log.group_ids, log.lengths),
    )
    if misfit is not None:
        said.append(
            f"The propensities do not fit the logged actions: {misfit}. They must be the probabilities "
            f"of the actions that were taken; correct them, or leave them out (propensity=False) to "
            f"have them estimated."
        )
    return tuple(said)


def drifting_propensities(log: Log) -> bool:
    """Return whether the propensities of an action change along the file, as those of a bandit do."""
    given, space = log.propensity, log.action_space
    if given is None or not isinstance(space, Discrete) or not log.is_bandit:
        return False
    for action in range(space.n):
        rows = np.flatnonzero(log.actions == action)[:_ROWS]
        order, p = log.table_rows.rows[rows], given[rows]
        if len(rows) < _ENOUGH or not np.ptp(p):
            continue
        ranks = np.unique(p, return_inverse=True)[1]
        along = float(np.corrcoef(np.argsort(np.argsort(order)), ranks)[0, 1])
        if abs(along) > max(_DRIFT, _SURE / np.sqrt(len(rows))):
            return True
    return False


def _few_tiny(given: FloatArray, rows: IntArray) -> list[str]:
    """Return a sentence if a few tiny propensities outweigh all other rows by their inverses."""
    tiny = given < _TINY * np.median(given)
    if not 0 < tiny.mean() < _FEW or (1 / given[tiny]).sum() < (1 / given[~tiny]).sum():
        return []
    least, several = int(given.argmin()), tiny.sum() > 1
    return [
        f"Row {rows[least]} has the propensity {given[least]:.3g} (the first row is 0"
        f"{f'; {tiny.sum()} rows are alike' if several else ''}): where a policy takes "
        f"{'their' if several else 'its'} action, {'they weigh' if several else 'it weighs'} more than "
        f"all others together. Correct {'them' if several else 'it'} if this is a slip."
    ]


class _Part(NamedTuple):
    """The rows of one part of the states, and 1 / p of one action in them."""

    where: str
    rows: int
    units: int  # rows, or groups, in which the action was taken
    share: float  # of the rows
    mean: float
    error: float


def propensity_misfit(
    states: FloatArray,
    names: Sequence[str],
    actions: IntArray,
    propensity: FloatArray,
    space: Discrete,
    *,
    everywhere: bool = True,
    groups: AnyArray | None = None,
) -> str | None:
    """Return in words how propensities contradict the logged actions, or None.

    `everywhere` is whether all actions could be taken in all rows, as far as was said. Rows of one of
    the `groups`, (n,), may have been given one action together, and copies of a row count once.
    """
    step = -(-len(actions) // _ROWS)
    states, actions, propensity = states[::step], actions[::step], propensity[::step]
    unit = None if groups is None else np.unique(groups[::step], return_inverse=True)[1]
    counts = np.bincount(actions, minlength=space.n)
    whole = np.zeros(len(actions), dtype=np.intp)
    variables = list(zip(names, states.T[:_VARIABLES], strict=False))
    found = [(name, _strata(each, cuts)) for cuts in _CUTS for name, each in variables]
    strata = [("", whole), *((name, codes) for name, codes in found if codes.any())]
    for code in np.flatnonzero(counts >= _ENOUGH):
        label = repr(space.label(int(code)))
        weights = np.where(actions == code, 1 / propensity, 0.0)
        for each in (parts := _parts(weights, strata, np.zeros(len(weights)), unit)):
            if each.units >= _ENOUGH and each.mean - 1 > max(_MORE, _SURE * each.error):
                return (
                    f"{label} was taken in {100 * each.share:.1f} % of the rows{each.where}, and its "
                    f"propensities make that {100 * each.share / each.mean:.1f} %"
                )
        if not (everywhere and len(strata) > 1 and propensity.min() >= _RARE):
            continue
        # Where another action had the probability q, this one had 1 − q at most, and 1 / p a variance
        # of q / (1 − q) at least; with q near 1, it could not be taken.
        certain = (actions != code) & (propensity > 1 - _RARE)
        open_rows = (actions != code) & ~certain
        unseen = np.divide(propensity, 1 - propensity, out=np.zeros(len(actions)), where=open_rows)
        if _short(_parts(np.where(certain, 1.0, weights), strata, unseen, unit)):
            share = counts[code] / len(actions)
            return (
                f"{label} was taken in {100 * share:.1f} % of the rows, and its propensities make that "
                f"{100 * share / parts[0].mean:.1f} %, unless it could not be taken in some rows: then "
                f"say so with available=..."
            )
    return _too_certain(propensity, unit)


def _strata(values: FloatArray, cuts: Sequence[float]) -> IntArray:
    """Return the part of a variable's range between quantiles in which each value lies, (n,)."""
    edges = np.unique(np.quantile(values, cuts))
    return np.searchsorted(edges, values, side="left")


def _parts(
    weights: FloatArray,
    strata: Sequence[tuple[str, IntArray]],
    unseen: FloatArray,
    unit: IntArray | None,
) -> list[_Part]:
    """Return the parts, whose errors allow for variances that no row shows, (n,), and for groups."""
    found = []
    for name, codes in strata:
        where = f" in a part of the range of {name}" if name else ""
        rows = np.bincount(codes)
        taken = np.bincount(codes, weights=weights > 0)
        units = taken if unit is None else (_by_group(weights, codes, unit) > 0).sum(axis=1)
        first, second = (np.bincount(codes, each) for each in (weights, weights**2 + unseen))
        means = first / np.maximum(rows, 1)
        summed = np.zeros(len(rows))
        if unit is not None:
            summed = (_by_group(weights - means[codes], codes, unit) ** 2).sum(axis=1)
        for part in np.flatnonzero(rows):
            mean = means[part]
            # If the propensities are right, the mean is 1, and mean(w²) − mean(w) estimates the
            # variance even where the action was taken in every row.
            variance = second[part] / rows[part] - min(mean, mean**2)
            error = np.sqrt(max(variance, summed[part] / rows[part], 0.0) / rows[part])
            sizes = int(rows[part]), int(units[part]), float(taken[part] / rows[part])
            found.append(_Part(where, *sizes, float(mean), float(error)))
    return found


def _by_group(values: AnyArray, codes: IntArray, unit: IntArray) -> FloatArray:
    """Return the sum of each group's values in each part, (parts, groups)."""
    parts, groups = int(codes.max()) + 1, int(unit.max()) + 1
    found = np.bincount(codes * groups + unit, values, minlength=parts * groups)
    return np.asarray(found.reshape(parts, groups), dtype=float)


def _short(parts: Sequence[_Part]) -> bool:
    """Return whether an action was taken too rarely in all parts, and in none of them never."""
    return all(
        each.mean > _OFF and 1 - each.mean > max(_OFF, _ERRORS * each.error)
        for each in parts
        if each.rows >= _ENOUGH
    )


def _too_certain(propensity: FloatArray, unit: IntArray | None) -> str | None:
    """Return in words whether unlikely actions were taken too rarely.

    Where an action has a probability p > ½, others are taken with 1 − p. So (1 − p) / p, over the
    rows with p > ½, exceeds the share of rows with p ≤ ½ by chance only.
    """
    likely, n = propensity > 0.5, len(propensity)
    expected = np.where(likely, (1 - propensity) / propensity, 0.0)
    excess = expected - ~likely
    off = excess - excess.mean()
    sums = off if unit is None else np.bincount(unit, off)
    error = float(np.sqrt(sums @ sums)) / n
    if n < _ENOUGH or excess.mean() <= max(_OFF / 2, _ERRORS * error):
        return None
    return (
        f"by them, actions of a probability of at most 50 % were taken in "
        f"{100 * expected.mean():.1f} % of the rows, and {100 * (1 - likely.mean()):.1f} % have such "
        f"propensities"
    )
