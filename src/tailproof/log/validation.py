"""Checks that convert raw columns to the arrays of a log, or raise a `LogError`."""

from __future__ import annotations

from decimal import Decimal
from numbers import Real

import numpy as np
import numpy.typing as npt

from tailproof.arrays import (
    AnyArray,
    BoolArray,
    FloatArray,
    IntArray,
    as_array,
    refuse_rows,
    require_finite,
)
from tailproof.errors import LogError, TailproofError
from tailproof.log.spaces import ActionSpace, Discrete, as_space

#: Smallest and largest size of the largest reward: squares and their sums are floats between them.
REWARD_SIZES = (1e-140, 1e153)
#: Most actions of which the majority may have been taken once.
MOST_UNIQUE_ACTIONS = 20
_ROUNDED = 0.02  # how far sums of probabilities may be from 1


def real_matrix(name: str, values: npt.ArrayLike) -> FloatArray:
    """Return real values as (n, p); a single variable may be (n,)."""
    array = as_array(name, values, LogError)
    if array.dtype.kind not in "fiub":
        raise LogError(
            f"{name} must be real numbers. Got dtype {array.dtype}; encode categories, dates and "
            f"times first."
        )
    if array.dtype.kind != "f":
        array = array.astype(float)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0:
        raise LogError(f"{name} must have the shape (n, p) with p ≥ 1. Got {array.shape} instead.")
    return array


def column(name: str, values: npt.ArrayLike, n: int, dtype: type) -> AnyArray:
    """Return values as (n,) of this type."""
    array = as_array(name, values, LogError)
    if array.shape != (n,):
        raise LogError(
            f"{name} must have the shape ({n},), one entry per transition. Got {array.shape} instead."
        )
    numeric = array.dtype.kind in "fiub" or (
        array.dtype.kind == "O" and all(isinstance(each, Real | Decimal) for each in array)
    )
    if not numeric:
        raise LogError(f"{name} must be {dtype.__name__}s. Got dtype {array.dtype} instead.")
    try:
        return array.astype(dtype, copy=False)
    except (TypeError, ValueError) as error:
        raise LogError(
            f"{name} must be {dtype.__name__}s. Got dtype {array.dtype} instead."
        ) from error


def check_rewards(rewards: npt.ArrayLike, n: int) -> FloatArray:
    """Return finite rewards, (n,)."""
    values = column("rewards", rewards, n, float)
    require_finite("rewards", values, LogError)
    return values


def has_squares(rewards: FloatArray) -> bool:
    """Return whether the squares of the rewards neither overflow nor vanish."""
    largest = float(np.abs(rewards).max(initial=0.0))
    return largest == 0 or REWARD_SIZES[0] <= largest <= REWARD_SIZES[1]


def require_squares(rewards: FloatArray) -> None:
    """Raise if the squares of the rewards overflow or vanish."""
    if not has_squares(rewards):
        largest = float(np.abs(rewards).max())
        raise LogError(
            f"rewards must be of a size whose squares are numbers: the largest between "
            f"{REWARD_SIZES[0]:g} and {REWARD_SIZES[1]:g}. Got {largest:g}; give them in another unit.",
            argument="reward",
        )


def check_actions(
    actions: npt.ArrayLike, n: int, action_space: object
) -> tuple[AnyArray, ActionSpace]:
    """Return the actions, checked against the action space, and that space."""
    array = as_array("actions", actions, LogError)
    if array.ndim == 0 or len(array) != n:
        raise LogError(f"actions must have {n} rows, as states have. Got shape {array.shape}.")
    if array.ndim == 2 and array.shape[1] == 1 and array.dtype.kind in "iub":
        array = array[:, 0]
    space = as_space(action_space, array)
    if isinstance(space, Discrete):
        whole = array.dtype.kind in "iub" or (
            array.dtype.kind == "f" and bool((array == np.round(array)).all())
        )
        if array.ndim != 1 or not whole:
            raise LogError(
                f"Discrete actions must be integers of shape ({n},). "
                f"Got dtype {array.dtype}, shape {array.shape}."
            )
        array = array.astype(np.intp)
        rule, advice = (
            f"actions must lie in 0..{space.n - 1}",
            "code actions 0..A-1 or pass a larger",
        )
        outside = (array < 0) | (array >= space.n)
        refuse_rows(outside, rule, f"{advice} action_space", LogError, values=array)
        require_repeated(len(np.unique(array)), len(array))
        return array, space
    array = real_matrix("actions", array)
    require_finite("actions", array, LogError)
    if array.shape[1] != space.dimension:
        raise LogError(
            f"actions must have {space.dimension} columns, as the action space does. "
            f"Got {array.shape[1]}."
        )
    for bound, outside_of in ((space.low, np.less), (space.high, np.greater)):
        if bound is not None:
            outside = outside_of(array, np.asarray(bound)).any(axis=1)
            rule = "actions must lie within the action space's bounds"
            refuse_rows(outside, rule, "clip them or widen the space", LogError, values=array)
    return array, space


def require_repeated(different: int, rows: int) -> None:
    """Raise if most actions were taken once: then the column is an id, and nothing can be learned."""
    if different > max(rows / 2, MOST_UNIQUE_ACTIONS):
        raise LogError(
            f"actions must repeat. Got {different:,} different actions in {rows:,} rows, as in "
            f"a column of ids; name the column with the decision, group rare actions, or pass "
            f"continuous actions as floats.",
            argument="action",
        )


def labels(name: str, values: npt.ArrayLike, n: int) -> AnyArray:
    """Return one label per row, (n,): none missing, all of one type."""
    array = as_array(name, values, LogError)
    if array.shape != (n,):
        raise LogError(f"{name} must have the shape ({n},), one label per row. Got {array.shape}.")
    kind = array.dtype.kind
    if kind in "fmM":
        missing = np.isnan(array) if kind == "f" else np.isnat(array)
    elif kind == "O":
        missing = np.array([each is None or each != each for each in array], dtype=bool)
    else:
        missing = np.zeros(n, dtype=bool)
    refuse_rows(missing, f"{name} must label every row", "fill it in", LogError)
    return array


def runs(episode: npt.ArrayLike, n: int) -> tuple[IntArray, AnyArray]:
    """Return the first row of each episode, then n, and the label of each; rows are contiguous."""
    episode = labels("episode", episode, n)
    borders = np.flatnonzero(episode[1:] != episode[:-1]) + 1
    starts = np.concatenate([[0], borders, [n]])
    ids = episode[starts[:-1]]
    try:
        unique, counts = np.unique(ids, return_counts=True)
    except TypeError as error:
        raise LogError(f"episode must have labels of one kind. Got a mixture: {error}.") from error
    if len(unique) < len(ids):
        again = unique[counts > 1][0]
        raise LogError(
            f"The rows of an episode must be contiguous. Episode {again!s} appears in "
            f"{counts.max()} separate runs; sort the rows by episode and step first."
        )
    return starts, ids


def end_flags(name: str, values: npt.ArrayLike | None, ends: BoolArray) -> BoolArray:
    """Return booleans (n,) that are true only at last rows of episodes; by default all false."""
    if values is None:
        return np.zeros(len(ends), dtype=bool)
    array = as_array(name, values, LogError)
    odd = np.zeros(0) if array.dtype.kind == "b" else array[~np.isin(array, (0, 1))]
    if array.dtype.kind not in "biufO" or odd.size:
        shown = f", such as {odd.flat[0]}" if odd.size else ""
        raise LogError(
            f"{name} must be booleans. Got dtype {array.dtype}{shown} instead; use 0 and 1 only."
        )
    flags = column(name, array, len(ends), bool)
    rule = f"{name} may be true only at the last row of an episode, and others follow"
    refuse_rows(flags & ~ends, rule, "start a new episode after it", LogError)
    return flags


def check_groups(group: npt.ArrayLike, starts: IntArray, episode_ids: AnyArray) -> AnyArray:
    """Return the group of each episode, (E,)."""
    given = labels("group", group, int(starts[-1]))
    changes = np.flatnonzero(given[1:] != given[:-1]) + 1
    torn = changes[~np.isin(changes, starts)]
    if len(torn):
        at = int(np.searchsorted(starts, torn[0], side="right")) - 1
        raise LogError(
            f"A group holds whole episodes. Episode {episode_ids[at]!s} has the groups "
            f"{given[torn[0] - 1]!s} and {given[torn[0]]!s}; give every row of it one group."
        )
    return given[starts[:-1]]


def check_propensity(propensity: npt.ArrayLike, n: int, space: ActionSpace) -> FloatArray:
    """Return positive probabilities (or densities) of the logged actions, (n,)."""
    values = column("propensity", propensity, n, float)
    require_finite("propensity", values, LogError)
    highest = 1.0 if isinstance(space, Discrete) else np.inf
    advice = "an action that was logged had a positive probability"
    if values.max() <= 0:
        advice = "these look like logarithms: take their exponentials"
    elif values.min() < 0:
        advice = "these look like logits: turn them into probabilities"
    elif highest < values.max() <= 100 and np.median(values) > 1:
        advice = "these look like percentages: divide the column by 100"
    elif values.max() > highest and values.min() > 0:
        advice = "probabilities are at most 1"
    bad = (values <= 0) | (values > highest * (1 + 1e-9))
    rule = f"propensity must lie in (0, {highest:g}]"
    refuse_rows(bad, rule, advice, LogError, values=values)
    return values


def adds_up(probabilities: FloatArray) -> BoolArray:
    """Return which rows of (n, A) are probabilities: at least 0, and 1 together but for rounding."""
    off = np.abs(np.nansum(probabilities, axis=1) - 1)
    return np.asarray((off <= _ROUNDED) & ~(probabilities < 0).any(axis=1))


def require_probabilities(
    what: str, probabilities: FloatArray, rows: BoolArray, error: type[TailproofError]
) -> None:
    """Raise unless these rows of (n, A) are probabilities."""
    rule = f"{what} must be at least 0 and add up to 1"
    wrong = rows & ~adds_up(probabilities)
    refuse_rows(wrong, rule, "correct these rows", error, values=probabilities)
