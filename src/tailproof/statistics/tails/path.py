"""The estimate of α against the number of extremes: the Hill plot and its kin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tailproof.arrays import FloatArray, IntArray
from tailproof.errors import MethodError
from tailproof.statistics.tails.estimators import Estimator, alpha_interval, geometric_grid, invert
from tailproof.statistics.tails.ordered import Side, check_settings, ordered_tail
from tailproof.statistics.tails.sample import as_sample


@dataclass(frozen=True, kw_only=True, eq=False)
class TailPath:
    """The estimate of α, its interval and the threshold, for each number k of extremes."""

    k: IntArray  # (m,)
    alpha: FloatArray  # (m,)
    low: FloatArray  # (m,)
    high: FloatArray  # (m,)
    threshold: FloatArray  # (m,)
    method: Estimator
    side: Side
    level: float


def tail_path(
    x: npt.ArrayLike,
    *,
    side: Side = "right",
    method: Estimator = "hill",
    centre: float | None = None,
    points: int | None = None,
    level: float = 0.95,
    theta: float = 1.0,
) -> TailPath:
    """Return the estimate for every k up to a quarter of the sample, in one pass.

    Parameters
    ----------
    x, side, method, centre, level, theta
        As in `tail_index`.
    points
        Keep at most this many k, spaced geometrically, as a plot needs; all by default.

    Examples
    --------
    >>> x = np.random.default_rng(1).standard_t(2, 4000)
    >>> path = tail_path(x)
    >>> len(path.k), bool(path.low[199] < 2 < path.high[199])
    (1000, True)
    """
    x = as_sample("x", x)
    check_settings(side=side, method=method, level=level, theta=theta)
    tail = ordered_tail(x, side=side, method=method, centre=centre, most=len(x) // 4)
    shape = tail.shape
    if not len(shape):
        raise MethodError(
            f"A path needs two values or more beyond the centre {tail.centre:g} on the {side}. Got "
            f"{len(tail.values)}; choose another centre, or ask tail_index what is missing."
        )
    k = np.arange(1, len(shape) + 1) if points is None else geometric_grid(1, len(shape), points)
    low, high = alpha_interval(method, shape[k - 1], k, level=level, theta=theta)
    return TailPath(
        k=k,
        alpha=invert(shape[k - 1]),
        low=low,
        high=high,
        threshold=tail.threshold(k),
        method=method,
        side=side,
        level=level,
    )
